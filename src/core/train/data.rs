//! The training data: the remembered intents of a state as rows of vectors.

use std::collections::BTreeMap;

use ndarray::Array2;
use pml_model::{Run, TrainingSet};

use crate::graph::NodeKind;
use crate::memory::{CallSequence, PastIntent};
use crate::state::State;
use crate::text::clauses;
use crate::tool::Tool;
use crate::vectors::TextHash;

/// The runs of all remembered intents.
pub struct TrainingData {
    pub set: TrainingSet,
    /// By run: the number of its intent in the memory.
    pub numbers: Vec<u64>,
}

/// Collects distinct texts as rows.
struct TextRows<'a> {
    state: &'a State,
    rows: BTreeMap<TextHash, usize>,
    values: Vec<f32>,
}

impl TextRows<'_> {
    /// The row of a text; one without a vector is a row of zeros.
    fn row(&mut self, hash: TextHash) -> usize {
        if let Some(row) = self.rows.get(&hash) {
            return *row;
        }
        let row = self.rows.len();
        let dim = self.state.vectors.dim();
        match self.state.vectors.get(hash).filter(|vector| vector.len() == dim) {
            Some(vector) => self.values.extend_from_slice(vector),
            None => self.values.extend(std::iter::repeat_n(0.0, dim)),
        }
        self.rows.insert(hash, row);
        row
    }
}

impl TrainingData {
    /// Takes every kept call sequence of every remembered intent, the oldest intent first.
    pub fn new(state: &State) -> Self {
        let mut texts = TextRows { state, rows: BTreeMap::new(), values: Vec::new() };
        let (mut runs, mut numbers) = (Vec::new(), Vec::new());
        for (number, entry) in state.memory.iter() {
            let intent = texts.row(entry.hash);
            let clauses: Vec<usize> = clause_hashes(entry).into_iter().map(|hash| texts.row(hash)).collect();
            for sequence in &entry.sequences {
                runs.push(run(intent, &clauses, sequence));
                numbers.push(number);
            }
        }
        let dim = state.vectors.dim();
        let texts = Array2::from_shape_vec((texts.rows.len(), dim), texts.values).expect("every row has `dim` values");
        Self { set: TrainingSet { tools: tool_rows(state), texts, runs }, numbers }
    }
}

fn clause_hashes(entry: &PastIntent) -> Vec<TextHash> {
    clauses(&entry.intent).into_iter().map(TextHash::compute).collect()
}

fn run(intent: usize, clauses: &[usize], sequence: &CallSequence) -> Run {
    let tool = |kind: NodeKind| match kind {
        NodeKind::Tool(position) => Some(position as usize),
        NodeKind::Capability(_) => None,
    };
    Run {
        intent,
        clauses: clauses.to_vec(),
        calls: sequence.calls.iter().filter_map(|call| tool(call.kind())).collect(),
        ended: sequence.ended,
        succeeded: sequence.succeeded * 2 >= sequence.times,
    }
}

/// One row per tool, by position: the vector of its text, or zeros.
pub(crate) fn tool_rows(state: &State) -> Array2<f32> {
    let dim = state.vectors.dim();
    let mut rows = Array2::zeros((state.tools.len(), dim));
    for position in state.tools.positions() {
        let text = Tool::text(state.tools.at(position));
        let vector = text.and_then(|text| state.vectors.get(TextHash::compute(&text)));
        if let Some(vector) = vector.filter(|vector| vector.len() == dim) {
            rows.row_mut(position as usize).assign(&ndarray::aview1(vector));
        }
    }
    rows
}
