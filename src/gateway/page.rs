//! The page for people: its files, compiled into the program. One hash over all files is part of their addresses, so that browsers may
//! keep them for ever and a program with other files has other addresses.

mod files;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::OnceLock;

use flate2::Compression;
use flate2::write::GzEncoder;

use files::{FILES, INDEX};

/// The word in `index.html` that stands for the hash.
const HASH_WORD: &str = "HASH";
const HASH_LENGTH: usize = 16;

/// A file as it is sent.
pub(crate) struct File {
    pub(crate) content_type: &'static str,
    pub(crate) plain: Vec<u8>,
    /// Made when it is first asked for: most servers never show the page, and compressing all files would delay every start.
    gzip: OnceLock<Vec<u8>>,
}

impl File {
    fn new(name: &str, plain: Vec<u8>) -> Self {
        Self { content_type: content_type(name), plain, gzip: OnceLock::new() }
    }

    /// The content, compressed.
    pub(crate) fn gzip(&self) -> &[u8] {
        self.gzip.get_or_init(|| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(&self.plain).and_then(|()| encoder.finish()).expect("writing to memory does not fail")
        })
    }
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}

/// All files.
pub(crate) struct Page {
    pub(crate) hash: String,
    pub(crate) index: File,
    files: BTreeMap<&'static str, File>,
}

impl Page {
    pub(crate) fn new() -> Self {
        let mut hasher = blake3::Hasher::new();
        for (name, content) in [("index.html", INDEX.as_bytes())].into_iter().chain(FILES) {
            // Lengths keep two divisions of the same bytes apart.
            hasher.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes());
            hasher.update(&(content.len() as u64).to_le_bytes()).update(content);
        }
        let mut hash = hasher.finalize().to_hex().to_string();
        hash.truncate(HASH_LENGTH);
        let index = File::new("index.html", INDEX.replace(HASH_WORD, &hash).into_bytes());
        let files = FILES.into_iter().map(|(name, content)| (name, File::new(name, content.to_vec()))).collect();
        Self { hash, index, files }
    }

    /// The file with this name, at the address of this program's files.
    pub(crate) fn file(&self, hash: &str, name: &str) -> Option<&File> {
        if hash == self.hash { self.files.get(name) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_fits_into_its_budget_and_names_no_other_host() {
        let page = Page::new();
        let gzipped: usize = page.files.values().chain([&page.index]).map(|file| file.gzip().len()).sum();
        assert!(gzipped <= 300_000, "the files have {gzipped} bytes compressed");
        let index = String::from_utf8(page.index.plain.clone()).unwrap();
        assert!(!index.contains(HASH_WORD) && index.contains(&page.hash), "{index}");
        assert!(!index.contains("://") && !index.contains("style=") && !index.contains("<style"), "{index}");
    }

    #[test]
    fn a_file_is_found_at_the_address_of_these_files_only() {
        let page = Page::new();
        assert!(page.file(&page.hash, "main.js").is_some());
        assert!(page.file("0000000000000000", "main.js").is_none());
        assert!(page.file(&page.hash, "../Cargo.toml").is_none());
    }
}
