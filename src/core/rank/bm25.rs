//! BM25 index over texts (Robertson, Zaragoza: The Probabilistic Relevance Framework, 2009): of the items that `discover` searches
//! and of the tools that `predict` ranks. Replacing a document takes O(postings of its words), a question O(postings of its words).

use std::collections::{BTreeMap, BTreeSet};

use crate::text::words;

/// Saturation of repeated words (k1) and weight of the document's length (b): the usual values.
const K1: f32 = 1.2;
const B: f32 = 0.75;

/// Postings and document lengths.
#[derive(Clone, Debug, Default)]
pub struct Bm25 {
    /// Word -> documents that contain it, with the number of occurrences.
    postings: BTreeMap<String, Vec<(u32, u32)>>,
    /// Words per document; 0 for none.
    lengths: Vec<u32>,
    length_total: u64,
    documents: u32,
}

impl Bm25 {
    /// Replaces the text `before` of `document`, if it had one, by `text`.
    pub fn replace(&mut self, document: u32, before: Option<&str>, text: Option<&str>) {
        if self.lengths.len() <= document as usize {
            self.lengths.resize(document as usize + 1, 0);
        }
        if let Some(before) = before {
            for word in words(before).into_iter().collect::<BTreeSet<_>>() {
                if let Some(documents) = self.postings.get_mut(&word) {
                    documents.retain(|(other, _)| *other != document);
                }
            }
            self.length_total -= u64::from(self.lengths[document as usize]);
            self.lengths[document as usize] = 0;
            self.documents -= 1;
        }
        let Some(text) = text else { return };
        let mut times: BTreeMap<String, u32> = BTreeMap::new();
        let mut length = 0;
        for word in words(text) {
            *times.entry(word).or_default() += 1;
            length += 1;
        }
        for (word, times) in times {
            self.postings.entry(word).or_default().push((document, times));
        }
        self.lengths[document as usize] = length;
        self.length_total += u64::from(length);
        self.documents += 1;
    }

    /// The score of every document, by number.
    pub fn scores(&self, question: &str) -> Vec<f32> {
        let mut scores = vec![0.0; self.lengths.len()];
        self.add_scores(&distinct_words(question), &mut scores);
        scores
    }

    /// Adds the score of every document for a question of these words to `scores`, which is indexed by document.
    #[expect(clippy::cast_precision_loss, reason = "counts of words and documents stay far below 2^24, where f32 is exact")]
    pub fn add_scores(&self, question: &BTreeSet<String>, scores: &mut [f32]) {
        let mean = (self.length_total as f32 / self.documents.max(1) as f32).max(1.0);
        let per_word = K1 * B / mean;
        for word in question {
            let Some(documents) = self.postings.get(word).filter(|documents| !documents.is_empty()) else { continue };
            let having = documents.len() as f32;
            let rarity = (K1 + 1.0) * libm::logf(1.0 + (self.documents as f32 - having + 0.5) / (having + 0.5));
            for &(document, times) in documents {
                let length_norm = K1 * (1.0 - B) + per_word * self.lengths[document as usize] as f32;
                let times = times as f32;
                scores[document as usize] += rarity * times / (times + length_norm);
            }
        }
    }
}

/// The words of a question, each once. Sorted, because float sums depend on the order.
pub fn distinct_words(question: &str) -> BTreeSet<String> {
    words(question).into_iter().collect()
}

/// Scales values of at least 0 so that the largest is 1; all zeros stay.
pub(crate) fn divide_by_largest(values: &mut [f32]) {
    let largest = values.iter().copied().fold(0.0, f32::max);
    if largest > 0.0 {
        for value in values {
            *value /= largest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(texts: &[&str]) -> Bm25 {
        let mut index = Bm25::default();
        for (document, text) in (0..).zip(texts) {
            index.replace(document, None, Some(text));
        }
        index
    }

    fn scores(index: &Bm25, question: &str) -> [f32; 3] {
        let mut scores = [0.0; 3];
        index.add_scores(&distinct_words(question), &mut scores);
        scores
    }

    fn check(index: &Bm25, question: &str, expected: [f32; 3]) {
        let scores = scores(index, question);
        assert_eq!(scores.map(f32::to_bits), expected.map(f32::to_bits), "{question}: {scores:?} {expected:?}");
    }

    /// Numbers by hand: three documents of lengths 2, 1, 3; `cat` is in two of them.
    #[test]
    fn scores_follow_the_formula() {
        let index = index(&["cat dog", "cat", "bird fish cow"]);
        let rarity = (1.0_f32 + (3.0 - 2.0 + 0.5) / 2.5).ln();
        let score = |length: f32| rarity * 2.2 / (1.0 + 1.2 * (0.25 + 0.75 * length / 2.0));
        let scores = scores(&index, "the cats");
        assert!((scores[0] - score(2.0)).abs() < 1e-6);
        assert!((scores[1] - score(1.0)).abs() < 1e-6);
        assert!(scores[2].abs() < 1e-6);
    }

    #[test]
    fn a_replaced_document_leaves_nothing_behind() {
        let mut changed = index(&["cat dog dog", "cat"]);
        changed.replace(0, Some("cat dog dog"), Some("bird"));
        let fresh = index(&["bird", "cat"]);
        for question in ["cat", "dog", "bird"] {
            check(&changed, question, scores(&fresh, question));
        }
        changed.replace(1, Some("cat"), None);
        check(&changed, "cat", [0.0; 3]);
    }

    /// French, German and Chinese: the document whose words were asked for, with or without accents, scores highest.
    #[test]
    fn words_of_any_language_are_found() {
        let index = index(&[
            "R\u{e9}server une chambre d'h\u{f4}tel",
            "Eine \u{dc}berweisung an die Bank schicken",
            "\u{53d1}\u{9001}\u{7535}\u{5b50}\u{90ae}\u{4ef6}",
        ]);
        let questions = ["reserver un hotel", "h\u{f4}tels", "\u{fc}berweisung schicken", "\u{90ae}\u{4ef6}"];
        for (question, wanted) in questions.into_iter().zip([0, 0, 1, 2]) {
            let scores = scores(&index, question);
            let best = (0..3).max_by(|&one, &other| scores[one].total_cmp(&scores[other]));
            assert!(best == Some(wanted) && scores[wanted] > 0.0, "{question}: {scores:?}");
        }
    }
}
