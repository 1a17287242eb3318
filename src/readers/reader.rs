//! Driving a reader: bytes in, runs out, with counts of what could not be read.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::calls::{Calls, Dialect};
use crate::claude_code::ClaudeCode;
use crate::codex::Codex;
use crate::conversation::Output;
use crate::format::Format;
use crate::messages::Messages;
use crate::pieces::{Layout, Piece, Pieces};
use crate::run::{Options, Run};
use crate::span::SpanReader;

/// Kinds of unknown pieces that are named.
const UNKNOWN_KINDS_MAX: usize = 20;
/// Longest name of an unknown kind, in bytes.
const KIND_LEN_MAX: usize = 40;

/// What a piece was.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// It says something about a run.
    Used,
    /// It is of a kind that says nothing about runs.
    Ignored,
    /// It is valid, but of a kind that the reader does not know.
    Unknown(String),
    /// It is not valid.
    Damaged,
}

/// A format: reads one piece after the other.
pub(crate) trait PieceReader {
    /// Reads a piece. Runs that ended go to `out`. It MUST NOT panic, whatever the bytes are.
    fn read(&mut self, piece: &[u8], out: &mut Output) -> Reading;

    /// Ends the input: the runs that are still open go to `out`.
    fn finish(&mut self, out: &mut Output);
}

/// What was read so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub bytes: u64,
    /// Lines or objects.
    pub pieces: u64,
    pub ignored: u64,
    /// Valid pieces of kinds that the reader does not know; `unknown_kinds` has the first of them by name.
    pub unknown: u64,
    pub unknown_kinds: BTreeMap<String, u64>,
    /// Pieces that are not valid, or that the input ended in.
    pub damaged: u64,
    pub too_long: u64,
    pub runs: u64,
    pub steps: u64,
    /// Requests that no call followed.
    pub without_calls: u64,
    /// Calls before the first request.
    pub without_request: u64,
    /// Runs that the options leave out.
    pub not_wanted: u64,
}

/// Reads one input in one format.
pub struct Reader {
    pieces: Pieces,
    format: Box<dyn PieceReader + Send>,
    counts: Counts,
    out: Output,
}

impl Reader {
    pub fn new(format: Format, layout: Layout, options: Arc<Options>) -> Self {
        let reader: Box<dyn PieceReader + Send> = match format {
            Format::ClaudeCode => Box::new(ClaudeCode::new(options)),
            Format::Codex => Box::new(Codex::new(options)),
            Format::Messages => Box::new(Messages::new(options)),
            Format::Mcpproxy => Box::new(Calls::new(Dialect::Mcpproxy, options)),
            Format::GatewayAudit => Box::new(Calls::new(Dialect::GatewayAudit, options)),
            Format::Otlp | Format::Jaeger | Format::SpanRows | Format::Langfuse | Format::Langsmith => {
                Box::new(SpanReader::new(format, options))
            }
        };
        Self { pieces: Pieces::new(layout), format: reader, counts: Counts::default(), out: Output::default() }
    }

    /// Reads bytes. Returns the runs that ended.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Run> {
        self.counts.bytes += bytes.len() as u64;
        let Self { pieces, format, counts, out } = self;
        pieces.feed(bytes, &mut |piece| read_piece(piece, format.as_mut(), counts, out));
        self.taken()
    }

    /// Ends the input. Returns the runs that were open.
    pub fn finish(&mut self) -> Vec<Run> {
        let Self { pieces, format, counts, out } = self;
        pieces.finish(&mut |piece| read_piece(piece, format.as_mut(), counts, out));
        self.format.finish(&mut self.out);
        self.taken()
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    fn taken(&mut self) -> Vec<Run> {
        let Output { runs, without_calls, without_request, not_wanted } = std::mem::take(&mut self.out);
        self.counts.runs += runs.len() as u64;
        self.counts.steps += runs.iter().map(|run| run.steps.len() as u64).sum::<u64>();
        self.counts.without_calls += without_calls;
        self.counts.without_request += without_request;
        self.counts.not_wanted += not_wanted;
        runs
    }
}

fn read_piece(piece: Piece<'_>, format: &mut (dyn PieceReader + Send), counts: &mut Counts, out: &mut Output) {
    counts.pieces += 1;
    let reading = match piece {
        Piece::Whole(bytes) => format.read(bytes, out),
        Piece::Cut(_) => Reading::Damaged,
        Piece::TooLong => {
            counts.too_long += 1;
            return;
        }
    };
    match reading {
        Reading::Used => {}
        Reading::Ignored => counts.ignored += 1,
        Reading::Damaged => counts.damaged += 1,
        Reading::Unknown(kind) => counts.add_unknown(&kind),
    }
}

impl Counts {
    fn add_unknown(&mut self, kind: &str) {
        self.unknown += 1;
        let kind = &kind[..kind.floor_char_boundary(KIND_LEN_MAX)];
        let kind: String = kind.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect();
        if self.unknown_kinds.len() < UNKNOWN_KINDS_MAX || self.unknown_kinds.contains_key(&kind) {
            *self.unknown_kinds.entry(kind).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_of_unknown_pieces_are_bounded_and_printable() {
        let mut counts = Counts::default();
        for number in 0..100 {
            counts.add_unknown(&format!("kind\u{1b}{number} {}", "x".repeat(100)));
        }
        assert_eq!((counts.unknown, counts.unknown_kinds.len()), (100, UNKNOWN_KINDS_MAX));
        assert!(counts.unknown_kinds.keys().all(|kind| kind.len() <= KIND_LEN_MAX && kind.starts_with("kind?")));
    }
}
