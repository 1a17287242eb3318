//! Cutting a stream of bytes into pieces of JSON: lines, or the objects of a document that is not written in lines.
//!
//! A piece beyond [`PIECE_LEN_MAX`] is skipped without being held. Damage in lines ends with the line; in a document, a bracket that is
//! missing can cost the rest of it.

use memchr::{memchr, memchr2};

/// Longest piece that is read, in bytes. Lines with pictures in them have some megabytes.
pub const PIECE_LEN_MAX: usize = 32 << 20;

/// How the pieces of an input are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One JSON value in every line.
    Lines,
    /// JSON objects one after the other, over several lines each.
    Objects,
    /// The objects in one list.
    List,
    /// The objects in the list that is the first member of an object: `{"data": [...]}`.
    Data,
}

impl Layout {
    /// How many brackets are open where a piece begins.
    fn depth(self) -> usize {
        match self {
            Self::Lines | Self::Objects => 0,
            Self::List => 1,
            Self::Data => 2,
        }
    }

    /// Finds the layout from the beginning of an input.
    pub fn of(head: &[u8]) -> Self {
        let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
        if head.starts_with(b"[") {
            return Self::List;
        }
        if let Some(rest) = after(head, &[b"{", b"\"data\"", b":", b"["]).filter(|rest| !rest.starts_with(b"]")) {
            // Lines that begin so are read as what is in them, too.
            return if rest.starts_with(b"{") { Self::Data } else { Self::Lines };
        }
        let is_object = |line: &[u8]| line.starts_with(b"{") && serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok();
        let mut lines = head.split(|byte| *byte == b'\n');
        let is_one_long_line = !head.contains(&b'\n');
        if is_one_long_line || lines.by_ref().take(5).any(is_object) { Self::Lines } else { Self::Objects }
    }
}

/// Returns what follows the tokens, with white space between them.
fn after<'a>(mut text: &'a [u8], tokens: &[&[u8]]) -> Option<&'a [u8]> {
    for token in tokens {
        text = text.strip_prefix(*token)?.trim_ascii_start();
    }
    Some(text)
}

/// One piece of the input.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    Whole(&'a [u8]),
    /// It was longer than [`PIECE_LEN_MAX`].
    TooLong,
    /// The input ended inside it.
    Cut(&'a [u8]),
}

/// Cuts bytes into pieces.
#[derive(Debug)]
pub struct Pieces {
    layout: Layout,
    /// The beginning of a piece whose end has not come.
    begun: Vec<u8>,
    /// Whether the piece was too long, so that its rest is skipped.
    skipping: bool,
    scan: Scan,
}

/// Where in a document the scan is.
#[derive(Debug, Default)]
struct Scan {
    depth: usize,
    in_string: bool,
    escaped: bool,
    in_piece: bool,
}

impl Pieces {
    pub fn new(layout: Layout) -> Self {
        Self { layout, begun: Vec::new(), skipping: false, scan: Scan::default() }
    }

    /// Passes every piece that ends within `bytes` to `each`.
    pub fn feed(&mut self, bytes: &[u8], each: &mut dyn FnMut(Piece<'_>)) {
        match self.layout {
            Layout::Lines => self.feed_lines(bytes, each),
            Layout::Objects | Layout::List | Layout::Data => self.feed_document(bytes, each),
        }
    }

    /// Ends the input. The last line needs no line break.
    pub fn finish(&mut self, each: &mut dyn FnMut(Piece<'_>)) {
        if self.layout == Layout::Lines {
            self.feed_lines(b"\n", each);
        } else if self.scan.in_piece {
            each(if self.skipping { Piece::TooLong } else { Piece::Cut(&self.begun) });
        }
        *self = Self::new(self.layout);
    }

    fn feed_lines(&mut self, mut bytes: &[u8], each: &mut dyn FnMut(Piece<'_>)) {
        while let Some(end) = memchr(b'\n', bytes) {
            self.close(&bytes[..end], each);
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes);
    }

    fn feed_document(&mut self, bytes: &[u8], each: &mut dyn FnMut(Piece<'_>)) {
        let depth = self.layout.depth();
        let mut begin = 0;
        let mut at = 0;
        while at < bytes.len() {
            if self.scan.in_string {
                at = self.scan.skip_string(bytes, at);
                continue;
            }
            match bytes[at] {
                b'"' => self.scan.in_string = true,
                b'{' | b'[' => {
                    if self.scan.depth == depth && bytes[at] == b'{' && !self.scan.in_piece {
                        self.scan.in_piece = true;
                        begin = at;
                    }
                    self.scan.depth += 1;
                }
                b'}' | b']' => {
                    self.scan.depth = self.scan.depth.saturating_sub(1);
                    if self.scan.depth == depth && self.scan.in_piece {
                        self.scan.in_piece = false;
                        self.close(&bytes[begin..=at], each);
                    }
                }
                _ => {}
            }
            at += 1;
        }
        if self.scan.in_piece {
            self.keep(&bytes[begin..]);
        }
    }

    fn keep(&mut self, part: &[u8]) {
        if self.begun.len() + part.len() > PIECE_LEN_MAX {
            self.skipping = true;
            self.begun = Vec::new();
        }
        if !self.skipping {
            self.begun.extend_from_slice(part);
        }
    }

    /// Ends a piece with its last part.
    fn close(&mut self, last: &[u8], each: &mut dyn FnMut(Piece<'_>)) {
        if self.begun.is_empty() && !self.skipping {
            let last = last.trim_ascii();
            if last.len() > PIECE_LEN_MAX {
                each(Piece::TooLong);
            } else if !last.is_empty() {
                each(Piece::Whole(last));
            }
            return;
        }
        self.keep(last);
        if self.skipping {
            each(Piece::TooLong);
        } else if !self.begun.trim_ascii().is_empty() {
            each(Piece::Whole(self.begun.trim_ascii()));
        }
        self.skipping = false;
        self.begun.clear();
    }
}

impl Scan {
    /// Returns the position after the string, or the end of `bytes` if it goes on.
    fn skip_string(&mut self, bytes: &[u8], mut at: usize) -> usize {
        if self.escaped {
            self.escaped = false;
            return at + 1;
        }
        match memchr2(b'"', b'\\', &bytes[at..]) {
            Some(found) => {
                at += found;
                if bytes[at] == b'"' {
                    self.in_string = false;
                } else {
                    self.escaped = true;
                }
                at + 1
            }
            None => bytes.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str, chunk: usize) -> Vec<String> {
        let mut pieces = Pieces::new(Layout::of(text.as_bytes()));
        let mut found = Vec::new();
        let mut each = |piece: Piece<'_>| {
            found.push(match piece {
                Piece::Whole(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                Piece::Cut(bytes) => format!("cut {}", bytes.len()),
                Piece::TooLong => "too long".to_owned(),
            });
        };
        for part in text.as_bytes().chunks(chunk) {
            pieces.feed(part, &mut each);
        }
        pieces.finish(&mut each);
        found
    }

    #[track_caller]
    fn check(text: &str, layout: Layout, expected: &[&str]) {
        assert_eq!(Layout::of(text.as_bytes()), layout);
        for chunk in [1, 2, 3, 7, text.len().max(1)] {
            assert_eq!(pieces(text, chunk), expected, "in chunks of {chunk}");
        }
    }

    #[test]
    fn lines_are_pieces_whatever_is_in_them() {
        check("{\"a\":1}\n\n not json\r\n{\"b\":2}", Layout::Lines, &["{\"a\":1}", "not json", "{\"b\":2}"]);
        check("broken\n{\"a\":1}\n", Layout::Lines, &["broken", "{\"a\":1}"]);
    }

    #[test]
    fn objects_of_documents_are_pieces() {
        check("{\n \"a\": \"}\"\n}\n{\n \"b\": 2\n}", Layout::Objects, &["{\n \"a\": \"}\"\n}", "{\n \"b\": 2\n}"]);
        check(r#"[{"a": "\"]"}, {"b": [1, {"c": 2}]}]"#, Layout::List, &[r#"{"a": "\"]"}"#, r#"{"b": [1, {"c": 2}]}"#]);
        check(r#"{ "data" : [ {"a": 1}, {"b": 2} ], "total": 2}"#, Layout::Data, &[r#"{"a": 1}"#, r#"{"b": 2}"#]);
        check(r#"[{"a": 1}, {"b": "#, Layout::List, &[r#"{"a": 1}"#, "cut 6"]);
    }

    #[test]
    fn a_piece_that_is_too_long_is_skipped_without_being_held() {
        let mut pieces = Pieces::new(Layout::Lines);
        let mut found = Vec::new();
        let chunk = vec![b'x'; 1 << 20];
        for _ in 0..40 {
            pieces.feed(&chunk, &mut |_| panic!("no line has ended"));
            assert!(pieces.begun.capacity() <= 2 * PIECE_LEN_MAX);
        }
        pieces.feed(b"\n{\"a\":1}\n", &mut |piece| found.push(matches!(piece, Piece::TooLong)));
        assert_eq!(found, [true, false]);
    }
}
