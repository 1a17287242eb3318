//! One file that is read: from its beginning, in pieces of bounded size, and on from where it ended when it has grown.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::readers::format::HEAD_LEN;
use crate::readers::{Counts, Format, Options, Reader, Run, recognise};

/// Bytes read at once.
const CHUNK_LEN: usize = 256 << 10;

pub(super) struct Input {
    path: PathBuf,
    file: File,
    format: Format,
    reader: Reader,
    /// The beginning, which was read to recognise the format, until the reader has had it.
    head: Vec<u8>,
    chunk: Vec<u8>,
    /// Bytes given to the reader.
    read: u64,
}

impl Input {
    /// Opens a file; `None` if its format is not recognised.
    pub(super) fn open(path: &Path, options: &Arc<Options>) -> std::io::Result<Option<Self>> {
        let mut file = File::open(path)?;
        let mut head = Vec::new();
        file.by_ref().take(HEAD_LEN as u64).read_to_end(&mut head)?;
        let Some((format, layout)) = recognise(&head) else { return Ok(None) };
        let reader = Reader::new(format, layout, Arc::clone(options));
        Ok(Some(Self { path: path.to_owned(), file, format, reader, head, chunk: Vec::new(), read: 0 }))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn format(&self) -> Format {
        self.format
    }

    /// Reads further bytes. Returns how many there were, and the runs that ended in them.
    pub(super) fn read_some(&mut self) -> std::io::Result<(usize, Vec<Run>)> {
        let head = std::mem::take(&mut self.head);
        let runs = if head.is_empty() {
            self.chunk.resize(CHUNK_LEN, 0);
            let count = self.file.read(&mut self.chunk)?;
            self.chunk.truncate(count);
            self.reader.feed(&self.chunk)
        } else {
            self.chunk.clone_from(&head);
            self.reader.feed(&head)
        };
        self.read += self.chunk.len() as u64;
        Ok((self.chunk.len(), runs))
    }

    /// Whether the file was cut or replaced since it was read, so that it has to be read anew.
    pub(super) fn was_cut(&mut self) -> std::io::Result<bool> {
        let len = std::fs::metadata(&self.path)?.len();
        Ok(len < self.read || self.file.stream_position()? > len)
    }

    /// The runs in the beginning that was read to recognise the format.
    pub(super) fn head_runs(&mut self) -> Vec<Run> {
        let mut runs = self.reader.feed(&self.head);
        runs.extend(self.reader.finish());
        runs
    }

    /// Ends the input. Returns its last runs, and what was read.
    pub(super) fn finish(mut self) -> (Vec<Run>, Counts) {
        let runs = self.reader.finish();
        (runs, self.reader.counts().clone())
    }
}
