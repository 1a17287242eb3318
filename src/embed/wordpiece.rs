//! `WordPiece` tokenizer as in BERT: it normalises a text, splits it into words, and cuts each word greedily into the longest pieces
//! of a vocabulary.
//!
//! Texts are mostly ASCII, which is handled byte by byte. All other characters are normalised in full: control characters are
//! dropped, CJK characters become words of their own, accents are stripped (canonical decomposition without marks), letters are
//! lower-cased. An ASCII character never combines with the character before it, so a text can be split where ASCII begins and ends.
//!
//! A word without a match, or longer than [`WORD_CHARS_MAX`], gives no token: the table has no row for unknown words.

use unicode_general_category::{GeneralCategory, get_general_category};
use unicode_normalization::UnicodeNormalization;

use crate::core::hash::fnv1a;

/// Longer words are dropped, as by BERT's own tokenizer.
const WORD_CHARS_MAX: usize = 100;
/// Prefix of pieces that continue a word.
const CONTINUES: &[u8] = b"##";
/// Longest piece. The bound lets the hashes of all prefixes fit on the stack.
const PIECE_BYTES_MAX: usize = 32;

/// Slots of the hash table, a power of two. It is less than half full, so most lookups touch one slot.
const SLOTS: usize = 1 << 16;
const EMPTY: u16 = u16::MAX;

/// The pieces of a vocabulary in a hash table, which refers to their bytes without copying them.
pub(super) struct Vocabulary {
    /// Piece by token, without the prefix [`CONTINUES`].
    pieces: Vec<&'static [u8]>,
    slots: Vec<Slot>,
    longest: usize,
}

#[derive(Clone, Copy)]
struct Slot {
    /// Upper bits of the hash: most other pieces are told apart without comparing bytes.
    tag: u16,
    token: u16,
    position: WordPosition,
}

/// Where in a word a piece may occur. The same letters are different pieces at the two positions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WordPosition {
    Start,
    Inside,
}

impl WordPosition {
    /// Initial value of the hash of a piece; it only has to differ between the two positions.
    fn seed(self) -> u64 {
        match self {
            Self::Start => fnv1a(b""),
            Self::Inside => fnv1a(CONTINUES),
        }
    }
}

impl Vocabulary {
    /// Builds the table from pieces separated by newlines, in the order of their tokens.
    pub(super) fn new(lines: &'static [u8]) -> Self {
        let empty = Slot { tag: 0, token: EMPTY, position: WordPosition::Start };
        let mut vocabulary = Self { pieces: Vec::new(), slots: vec![empty; SLOTS], longest: 0 };
        for line in lines.split(|byte| *byte == b'\n') {
            let inside = line.strip_prefix(CONTINUES).filter(|piece| !piece.is_empty());
            let (piece, position) = inside.map_or((line, WordPosition::Start), |piece| (piece, WordPosition::Inside));
            vocabulary.insert(piece, position);
        }
        vocabulary
    }

    pub(super) fn len(&self) -> usize {
        self.pieces.len()
    }

    fn insert(&mut self, piece: &'static [u8], position: WordPosition) {
        assert!(piece.len() <= PIECE_BYTES_MAX && self.pieces.len() < SLOTS / 2, "the vocabulary is within its limits");
        let token = u16::try_from(self.pieces.len()).expect("tokens are fewer than slots");
        let hash = piece.iter().fold(position.seed(), |hash, byte| step(hash, *byte));
        let (mut at, tag) = slot(hash);
        while self.slots[at].token != EMPTY {
            at = (at + 1) % SLOTS;
        }
        self.slots[at] = Slot { tag, token, position };
        self.pieces.push(piece);
        self.longest = self.longest.max(piece.len());
    }

    fn find(&self, piece: &[u8], hash: u64, position: WordPosition) -> Option<u16> {
        let (mut at, tag) = slot(hash);
        loop {
            let found = self.slots[at];
            if found.token == EMPTY {
                return None;
            }
            if found.tag == tag && found.position == position && self.pieces[usize::from(found.token)] == piece {
                return Some(found.token);
            }
            at = (at + 1) % SLOTS;
        }
    }

    /// The longest piece that is a prefix of `rest`, and its length.
    fn longest(&self, rest: &[u8], position: WordPosition) -> Option<(u16, usize)> {
        let mut hashes = [0; PIECE_BYTES_MAX];
        let mut hash = position.seed();
        let prefixes = rest.len().min(self.longest);
        for (prefix, byte) in hashes.iter_mut().zip(&rest[..prefixes]) {
            hash = step(hash, *byte);
            *prefix = hash;
        }
        (1..=prefixes).rev().find_map(|len| Some((self.find(&rest[..len], hashes[len - 1], position)?, len)))
    }

    /// Appends the tokens of `text`.
    pub(super) fn encode(&self, text: &str, tokens: &mut Vec<u16>) {
        let mut word = Word { vocabulary: self, bytes: Vec::with_capacity(PIECE_BYTES_MAX), chars: 0, tokens };
        let mut rest = text;
        while !rest.is_empty() {
            let ascii = rest.bytes().position(|byte| !byte.is_ascii()).unwrap_or(rest.len());
            rest[..ascii].bytes().for_each(|byte| word.push_ascii(byte));
            rest = &rest[ascii..];
            let other = rest.bytes().position(|byte| byte.is_ascii()).unwrap_or(rest.len());
            normalised(&rest[..other]).for_each(|c| word.push(c));
            rest = &rest[other..];
        }
        word.end();
    }
}

/// One step of FNV-1a. Steps are separate so that one pass over a word gives the hashes of all its prefixes.
fn step(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
}

fn slot(hash: u64) -> (usize, u16) {
    let [low, high, .., tag_low, tag_high] = (hash ^ (hash >> 24)).to_le_bytes();
    (usize::from(u16::from_le_bytes([low, high])), u16::from_le_bytes([tag_low, tag_high]))
}

/// The word being read; [`end`](Self::end) appends its tokens.
struct Word<'a> {
    vocabulary: &'a Vocabulary,
    bytes: Vec<u8>,
    chars: usize,
    tokens: &'a mut Vec<u16>,
}

impl Word<'_> {
    fn push_ascii(&mut self, byte: u8) {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' => self.add(byte),
            b'A'..=b'Z' => self.add(byte | 0x20),
            b' ' | b'\t' | b'\n' | b'\r' => self.end(),
            _ if byte.is_ascii_punctuation() => {
                self.end();
                self.add(byte);
                self.end();
            }
            _ => {}
        }
    }

    fn add(&mut self, byte: u8) {
        self.bytes.push(byte);
        self.chars += 1;
    }

    /// Adds a normalised character.
    fn push(&mut self, c: char) {
        if c.is_ascii() {
            return self.push_ascii(u8::try_from(c).expect("an ASCII character is one byte"));
        }
        let alone = is_punctuation(c);
        if alone {
            self.end();
        }
        self.bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        self.chars += 1;
        if alone {
            self.end();
        }
    }

    fn end(&mut self) {
        if self.chars <= WORD_CHARS_MAX {
            let before = self.tokens.len();
            let mut rest = self.bytes.as_slice();
            let mut position = WordPosition::Start;
            while !rest.is_empty() {
                let Some((token, len)) = self.vocabulary.longest(rest, position) else {
                    self.tokens.truncate(before);
                    break;
                };
                self.tokens.push(token);
                rest = &rest[len..];
                position = WordPosition::Inside;
            }
        }
        self.bytes.clear();
        self.chars = 0;
    }
}

/// Normalises characters that are not ASCII; the result may contain ASCII.
fn normalised(text: &str) -> impl Iterator<Item = char> {
    let kept = |c: &char| *c != char::REPLACEMENT_CHARACTER && !is_control(*c);
    let spaced = |c: char| {
        let space = |wanted: bool| wanted.then_some(' ');
        let apart = is_cjk(c);
        let c = if c.is_whitespace() { ' ' } else { c };
        [space(apart), Some(c), space(apart)].into_iter().flatten()
    };
    let accent = |c: &char| get_general_category(*c) == GeneralCategory::NonspacingMark;
    text.chars().filter(kept).flat_map(spaced).nfd().filter(move |c| !accent(c)).flat_map(char::to_lowercase)
}

fn is_control(c: char) -> bool {
    matches!(get_general_category(c), GeneralCategory::Control | GeneralCategory::Format | GeneralCategory::PrivateUse)
}

fn is_punctuation(c: char) -> bool {
    use GeneralCategory as Category;
    matches!(
        get_general_category(c),
        Category::ConnectorPunctuation
            | Category::DashPunctuation
            | Category::ClosePunctuation
            | Category::FinalPunctuation
            | Category::InitialPunctuation
            | Category::OtherPunctuation
            | Category::OpenPunctuation
    )
}

/// Whether BERT treats the character as a word of its own. Kana and Hangul are not among these blocks: they are written as words.
fn is_cjk(c: char) -> bool {
    matches!(
        u32::from(c),
        0x4E00..=0x9FFF
            | 0x3400..=0x4DBF
            | 0x2_0000..=0x2_A6DF
            | 0x2_A700..=0x2_B73F
            | 0x2_B740..=0x2_B81F
            | 0x2_B920..=0x2_CEAF
            | 0xF900..=0xFAFF
            | 0x2_F800..=0x2_FA1F
    )
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;
    use tokenizers::Tokenizer;
    use tokenizers::models::wordpiece::WordPiece;
    use tokenizers::normalizers::BertNormalizer;
    use tokenizers::pre_tokenizers::bert::BertPreTokenizer;

    use super::*;

    /// The unknown token is number 0: our tokenizer never returns it, and it is removed from the reference's result.
    const PIECES: &str =
        "[UNK]\n!\n-\n_\n1\na\nb\ncd\ni\nss\n##a\n##b\n##cd\n##1\n\u{4e2d}\n\u{3b1}\n##\u{3b1}\n\u{2014}\nabcabcab";
    static OURS: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::new(PIECES.as_bytes()));
    static THEIRS: LazyLock<Tokenizer> = LazyLock::new(|| {
        let model = WordPiece::builder().vocab(WordPiece::read_bytes(PIECES.as_bytes()).unwrap());
        let mut tokenizer = Tokenizer::new(model.build().unwrap());
        tokenizer.with_normalizer(Some(BertNormalizer::default())).unwrap();
        tokenizer.with_pre_tokenizer(Some(BertPreTokenizer));
        tokenizer
    });

    fn ours(text: &str) -> Vec<u32> {
        let mut tokens = Vec::new();
        OURS.encode(text, &mut tokens);
        tokens.into_iter().map(u32::from).collect()
    }

    fn theirs(text: &str) -> Vec<u32> {
        let encoding = THEIRS.encode_fast(text, false).unwrap();
        encoding.get_ids().iter().copied().filter(|token| *token != 0).collect()
    }

    #[test]
    fn the_longest_piece_wins_and_a_word_that_does_not_fit_is_dropped() {
        assert_eq!(ours("ABcd"), [5, 11, 12]);
        assert_eq!(ours("aXb cd"), [7]);
        assert_eq!(ours("##, [unk]"), [0_u32; 0]);
    }

    #[test]
    fn words_of_more_than_a_hundred_characters_are_dropped() {
        assert_eq!(ours(&"a".repeat(100)).len(), 100);
        assert_eq!(ours(&"a".repeat(101)), [0_u32; 0]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// Letters that match, marks that combine, spaces and signs of all kinds.
        #[test]
        fn any_text_gives_the_tokens_of_the_reference_implementation(
            text in "([abcd1]{1,6}|[A-D \t\r\n!_#-]|[\u{0}-\u{24F}]|[\u{300}-\u{36F}]|[\u{370}-\u{3FF}]|[\u{2000}-\u{206F}]|[\u{3000}-\u{3100}]|[\u{4e2d}-\u{4e30}]|[\u{ac00}-\u{ac10}]|[\u{e000}\u{f900}\u{fb01}\u{feff}\u{fffd}]){0,24}"
        ) {
            prop_assert_eq!(ours(&text), theirs(&text));
        }
    }
}
