//! The vectors of texts, by hash of the text, as part of the fold: which texts need one, and which model's vectors are served.
//!
//! A text is wanted while a tool, a capability or a remembered intent has it. The vectors of one model are served; those of another
//! model are collected beside them and take over at the record with which every wanted text has one. So a change of model happens at
//! one position in the log, the same in every process, and vectors of different models are never compared.

use std::fmt;
use std::sync::Arc;

use imbl::OrdMap;

use super::digest::{DigestWriter, Digestible};
use super::event::EmbeddingComputed;

/// The BLAKE3 hash of a text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextHash([u8; 32]);

impl std::hash::Hash for TextHash {
    /// A BLAKE3 hash needs no further hashing: its first 8 bytes do.
    fn hash<H: std::hash::Hasher>(&self, hasher: &mut H) {
        let [first, ..] = self.0.as_chunks::<8>().0 else { unreachable!("32 bytes are four times eight") };
        hasher.write_u64(u64::from_le_bytes(*first));
    }
}

impl TextHash {
    pub fn compute(text: &str) -> Self {
        Self(*blake3::hash(text.as_bytes()).as_bytes())
    }

    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Parses the hexadecimal form.
    pub fn parse(hex: &str) -> Option<Self> {
        blake3::Hash::from_hex(hex).ok().map(|hash| Self(*hash.as_bytes()))
    }
}

impl fmt::Display for TextHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TextHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text whose vector is needed.
#[derive(Clone, Debug)]
struct WantedText {
    text: Arc<str>,
    /// The number of tools, capabilities and intents that need it.
    times: u32,
}

/// The vectors of one model.
#[derive(Clone, Debug)]
pub struct VectorTable {
    pub model: Arc<str>,
    /// The number of dimensions.
    pub dim: usize,
    pub vectors: OrdMap<TextHash, Arc<[f32]>>,
}

impl VectorTable {
    fn new(event: &EmbeddingComputed) -> Self {
        Self { model: event.model.as_str().into(), dim: event.vector.len(), vectors: OrdMap::new() }
    }
}

/// `Vectors` holds the wanted texts and the vectors of at most two models: the one served and the one taking over.
#[derive(Clone, Debug, Default)]
pub struct Vectors {
    wanted: OrdMap<TextHash, WantedText>,
    /// The wanted texts that the serving model has no vector of yet.
    pending: OrdMap<TextHash, Arc<str>>,
    serving: Option<VectorTable>,
    /// The next model, until it has every wanted text.
    coming: Option<VectorTable>,
}

impl Vectors {
    /// Counts one more need of the vector of `text`.
    pub fn want(&mut self, text: &str) -> TextHash {
        let hash = TextHash::compute(text);
        if let Some(known) = self.wanted.get_mut(&hash) {
            known.times += 1;
            return hash;
        }
        let text: Arc<str> = text.into();
        self.wanted.insert(hash, WantedText { text: Arc::clone(&text), times: 1 });
        self.pending.insert(hash, text);
        hash
    }

    /// Counts one need less; the last one drops the text and its vectors.
    pub fn release(&mut self, hash: TextHash) {
        let Some(known) = self.wanted.get_mut(&hash) else { return };
        known.times -= 1;
        if known.times == 0 {
            self.wanted.remove(&hash);
            self.pending.remove(&hash);
            for table in [&mut self.serving, &mut self.coming].into_iter().flatten() {
                table.vectors.remove(&hash);
            }
        }
    }

    /// Adds a computed vector. One of a text that is not wanted, or of another length than the model's, is ignored.
    pub fn apply(&mut self, event: &EmbeddingComputed) {
        let Some(hash) = TextHash::parse(&event.text_hash).filter(|hash| self.wanted.contains_key(hash)) else { return };
        let serves = self.serving.as_ref().is_none_or(|serving| *serving.model == *event.model);
        let slot = if serves { &mut self.serving } else { &mut self.coming };
        if slot.as_ref().is_none_or(|table| *table.model != *event.model) {
            *slot = Some(VectorTable::new(event));
        }
        let table = slot.as_mut().expect("it was just made");
        if table.dim != event.vector.len() {
            return;
        }
        table.vectors.insert(hash, event.vector.as_slice().into());
        if serves {
            self.pending.remove(&hash);
        }
        if self.coming.as_ref().is_some_and(|coming| coming.vectors.len() == self.wanted.len()) {
            self.serving = self.coming.take();
            self.pending = OrdMap::new();
        }
    }

    /// The model whose vectors are served.
    pub fn model(&self) -> Option<&Arc<str>> {
        self.serving.as_ref().map(|serving| &serving.model)
    }

    /// The number of dimensions of the vectors served; 0 if there are none.
    pub fn dim(&self) -> usize {
        self.serving.as_ref().map_or(0, |serving| serving.dim)
    }

    /// The vector of a text by the serving model.
    pub fn get(&self, hash: TextHash) -> Option<&Arc<[f32]>> {
        self.serving.as_ref()?.vectors.get(&hash)
    }

    /// The wanted texts that `model` has no vector of yet, at most `limit`, in the order of the hashes.
    pub fn lacking(&self, model: &str, limit: usize) -> Vec<(TextHash, Arc<str>)> {
        let owned = |(hash, text): (&TextHash, &Arc<str>)| (*hash, Arc::clone(text));
        if self.model().is_none_or(|serving| **serving == *model) {
            return self.pending.iter().map(owned).take(limit).collect();
        }
        let coming = self.coming.as_ref().filter(|coming| *coming.model == *model);
        let has = |hash: &TextHash| coming.is_some_and(|coming| coming.vectors.contains_key(hash));
        let lacking = self.wanted.iter().filter(|(hash, _)| !has(hash));
        lacking.map(|(hash, wanted)| (*hash, Arc::clone(&wanted.text))).take(limit).collect()
    }

    /// Every wanted text by hash, with the number of needs.
    pub fn texts(&self) -> impl ExactSizeIterator<Item = (TextHash, &Arc<str>, u32)> {
        self.wanted.iter().map(|(hash, wanted)| (*hash, &wanted.text, wanted.times))
    }

    /// The vectors served, and those of the model that is to take over.
    pub fn tables(&self) -> [Option<&VectorTable>; 2] {
        [self.serving.as_ref(), self.coming.as_ref()]
    }

    /// Restores what [`Self::texts`] and [`Self::tables`] gave; pending are the wanted texts without a served vector.
    pub fn from_rows(
        texts: impl IntoIterator<Item = (TextHash, Arc<str>, u32)>,
        [serving, coming]: [Option<VectorTable>; 2],
    ) -> Self {
        let wanted: OrdMap<TextHash, WantedText> =
            texts.into_iter().map(|(hash, text, times)| (hash, WantedText { text, times })).collect();
        let served = |hash: &TextHash| serving.as_ref().is_some_and(|serving| serving.vectors.contains_key(hash));
        let pending = wanted.iter().filter(|(hash, _)| !served(hash));
        let pending = pending.map(|(hash, wanted)| (*hash, Arc::clone(&wanted.text))).collect();
        Self { wanted, pending, serving, coming }
    }

    /// The number of wanted texts with a served vector, and of all wanted texts.
    pub fn coverage(&self) -> (usize, usize) {
        (self.wanted.len() - self.pending.len(), self.wanted.len())
    }
}

impl Digestible for Vectors {
    fn digest(&self, writer: &mut DigestWriter) {
        writer.len(self.wanted.len());
        for (hash, wanted) in &self.wanted {
            writer.text(&wanted.text).u32(wanted.times).bool(self.pending.contains_key(hash));
        }
        for table in [&self.serving, &self.coming] {
            writer.optional(table.as_ref(), |writer, table| {
                writer.text(&table.model).len(table.dim).len(table.vectors.len());
                for (hash, vector) in &table.vectors {
                    writer.text(&hash.to_string());
                    for value in vector.iter() {
                        writer.u32(value.to_bits());
                    }
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn computed(model: &str, text: &str, vector: &[f32]) -> EmbeddingComputed {
        EmbeddingComputed { text_hash: TextHash::compute(text).to_string(), model: model.to_owned(), vector: vector.to_vec() }
    }

    fn lacking(vectors: &Vectors, model: &str) -> Vec<String> {
        let mut texts: Vec<String> = vectors.lacking(model, 10).into_iter().map(|(_, text)| text.to_string()).collect();
        texts.sort();
        texts
    }

    #[test]
    fn a_text_is_wanted_until_its_last_user_releases_it() {
        let mut vectors = Vectors::default();
        let read = vectors.want("read");
        vectors.want("read");
        vectors.want("write");
        assert_eq!(lacking(&vectors, "m"), ["read", "write"]);
        vectors.apply(&computed("m", "read", &[1.0, 0.0]));
        assert_eq!(lacking(&vectors, "m"), ["write"]);
        vectors.release(read);
        assert!(vectors.get(read).is_some());
        vectors.release(read);
        assert!(vectors.get(read).is_none());
        vectors.apply(&computed("m", "read", &[1.0, 0.0]));
        assert!(vectors.get(read).is_none(), "nobody wants it");
    }

    #[test]
    fn another_model_takes_over_when_it_has_everything() {
        let mut vectors = Vectors::default();
        let hashes = ["read", "write"].map(|text| vectors.want(text));
        vectors.apply(&computed("old", "read", &[1.0, 0.0]));
        vectors.apply(&computed("old", "write", &[0.0, 1.0]));
        vectors.apply(&computed("new", "read", &[1.0, 0.0, 0.0]));
        assert_eq!(vectors.model().map(|model| &**model), Some("old"));
        assert_eq!(lacking(&vectors, "new"), ["write"]);
        vectors.apply(&computed("new", "write", &[0.0, 0.0, 1.0]));
        assert_eq!(vectors.model().map(|model| &**model), Some("new"));
        assert_eq!(vectors.get(hashes[1]).map(|vector| vector.len()), Some(3));
        assert_eq!(vectors.coverage(), (2, 2));
    }

    #[test]
    fn a_vector_of_another_length_is_left_alone() {
        let mut vectors = Vectors::default();
        let read = vectors.want("read");
        vectors.want("write");
        vectors.apply(&computed("m", "write", &[1.0, 0.0]));
        vectors.apply(&computed("m", "read", &[1.0]));
        assert!(vectors.get(read).is_none());
    }
}
