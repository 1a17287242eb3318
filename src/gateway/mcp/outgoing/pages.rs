//! The rests of texts that were cut, until they are read or dropped.

use std::collections::BTreeMap;

use crate::clock::entropy;

/// Texts by their number. A cursor is `KEY-OFFSET`; keys are random, so that nobody can guess the texts of others.
pub(super) struct Pages {
    bytes_max: usize,
    bytes: usize,
    next: u64,
    /// By number, the oldest first.
    texts: BTreeMap<u64, (u128, String)>,
}

/// A piece of a text.
pub(super) struct Page {
    pub(super) text: String,
    /// Where the next piece begins; `None` at the end.
    pub(super) next: Option<String>,
    /// Bytes after this piece.
    pub(super) left: usize,
}

impl Pages {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: 0, next: 0, texts: BTreeMap::new() }
    }

    /// Keeps a text and returns its cursor. The oldest texts make room; one that is longer than all the room is dropped at once.
    pub(super) fn keep(&mut self, text: String) -> String {
        let key = entropy();
        self.bytes += text.len();
        self.texts.insert(self.next, (key, text));
        self.next += 1;
        while self.bytes > self.bytes_max
            && let Some((_, (_, dropped))) = self.texts.pop_first()
        {
            self.bytes -= dropped.len();
        }
        cursor(key, 0)
    }

    /// Reads at most `bytes_max` bytes at a cursor; `None` if the cursor is wrong or its text was dropped.
    pub(super) fn read(&self, cursor_text: &str, bytes_max: usize) -> Option<Page> {
        let (key, offset) = cursor_text.split_once('-')?;
        let (key, offset) = (u128::from_str_radix(key, 16).ok()?, offset.parse::<usize>().ok()?);
        let (_, text) = self.texts.values().find(|(known, _)| *known == key)?;
        let rest = text.get(offset..)?;
        let end = rest.floor_char_boundary(bytes_max.max(4));
        let left = rest.len() - end;
        Some(Page { text: rest[..end].to_owned(), next: (left > 0).then(|| cursor(key, offset + end)), left })
    }
}

fn cursor(key: u128, offset: usize) -> String {
    format!("{key:032x}-{offset}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_texts_are_dropped_first() {
        let mut pages = Pages::new(10);
        let cursors = ["aaaa", "bbbb", "cccc"].map(|text| pages.keep(text.to_owned()));
        let read = |cursor: &str| pages.read(cursor, 100).map(|page| page.text);
        assert_eq!(cursors.map(|cursor| read(&cursor)), [None, Some("bbbb".to_owned()), Some("cccc".to_owned())]);
        assert_eq!(pages.bytes, 8);
    }

    #[test]
    fn a_text_longer_than_all_the_room_is_not_kept() {
        let mut pages = Pages::new(3);
        let cursor = pages.keep("aaaa".to_owned());
        assert!(pages.read(&cursor, 100).is_none() && pages.bytes == 0);
    }
}
