//! The loss of a batch of traces and its gradient: one forward and one backward pass over the hypergraph for all of them.

use std::collections::{BTreeMap, BTreeSet};

use ndarray::Array2;

use super::Switches;
use super::backward::{ByVector, Pass};
use super::features::{Features, HeadValues};
use super::forward::{Enriched, Tape, Vectors, forward, gather};
use super::hypergraph::{Hypergraph, Node, number};
use super::logits::{Candidates, Queries};
use super::loss::Question;
use super::parameters::{Group, Parameters};
use super::plan::Plan;
use super::real::Real;
use super::weights::ScoreWeights;
use crate::random::Random;

/// A hypergraph made ready for many passes.
#[derive(Clone, Debug)]
pub(crate) struct Ground<R> {
    plan: Plan,
    vectors: Vectors<R>,
    tools: HeadValues<R>,
    capabilities: HeadValues<R>,
    /// For every capability those with the same tools, itself included.
    equivalents: Vec<Vec<u32>>,
    /// For every tool the capabilities that come down to it.
    containing: Vec<Vec<u32>>,
}

/// What one trace asks of the candidates of one kind, by column.
#[derive(Debug, Default)]
struct Asked {
    targets: Vec<Vec<u32>>,
    named: Vec<u32>,
}

/// How a batch is turned into a loss.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) switches: Switches,
    pub(crate) failure_weight: f32,
    pub(crate) calibration: f32,
    pub(crate) threads: usize,
}

/// One trace of a batch.
#[derive(Clone, Debug)]
pub(crate) struct Row<'a> {
    pub(crate) path: &'a [Node],
    pub(crate) succeeded: bool,
    pub(crate) weight: f32,
}

/// The candidates of one kind that a batch is compared with.
#[derive(Clone, Debug)]
pub(crate) enum Choice {
    All,
    /// Some, ascending, each with minus the logarithm of the chance with which it was drawn.
    Drawn {
        rows: Vec<u32>,
        corrections: Vec<f64>,
    },
}

/// Traces with their intents and the candidates they are compared with: tools, then capabilities.
#[derive(Debug)]
pub(crate) struct Batch<'a, R> {
    pub(crate) intents: Array2<R>,
    pub(crate) rows: Vec<Row<'a>>,
    pub(crate) choices: [Choice; 2],
}

impl<R: Real> Ground<R> {
    pub(crate) fn new(graph: &Hypergraph, vectors: Vectors<R>, features: &Features) -> Self {
        Self {
            plan: Plan::full(graph),
            vectors,
            tools: features.of_tools(graph.tools()),
            capabilities: features.of_capabilities(graph.capabilities()),
            equivalents: equivalents(graph),
            containing: containing(graph),
        }
    }

    pub(crate) fn enrich(
        &self,
        parameters: &Parameters<R>,
        switches: Switches,
        threads: usize,
        tape: Option<&mut Tape<R>>,
    ) -> Enriched<R> {
        if switches.message_passing {
            forward(&self.plan, &self.vectors, parameters, threads, tape)
        } else {
            Enriched::start(&self.vectors)
        }
    }

    /// The candidates of both kinds from enriched vectors.
    pub(crate) fn candidates(&self, enriched: &Enriched<R>) -> [Candidates<R>; 2] {
        [
            Candidates::new(enriched.tools.clone(), self.tools.clone()),
            Candidates::new(enriched.capabilities.clone(), self.capabilities.clone()),
        ]
    }

    /// The mean loss of a batch; its gradient is added to `gradient`.
    pub(crate) fn loss(&self, parameters: &Parameters<R>, terms: &Terms, batch: Batch<R>, gradient: &mut [R]) -> R {
        let threads = terms.threads;
        let weights = ScoreWeights::new(parameters, terms.switches);
        let mut tape = Tape::default();
        let enriched = self.enrich(parameters, terms.switches, threads, Some(&mut tape));
        let mut queries = Queries::new(batch.intents, &weights, threads);
        let (mut value, mut by_factor) = (R::ZERO, [R::ZERO; 3]);
        let kinds = [(&enriched.tools, &self.tools), (&enriched.capabilities, &self.capabilities)];
        let mut by_vector = Vec::new();
        for (kind, ((vectors, heads), choice)) in kinds.into_iter().zip(&batch.choices).enumerate() {
            let asked: Vec<Asked> = batch.rows.iter().map(|row| self.asked(kind, row.path, choice)).collect();
            if asked.iter().all(|asked| asked.targets.is_empty()) {
                by_vector.push(Array2::from_elem(vectors.raw_dim(), R::ZERO));
                continue;
            }
            let candidates = match choice {
                Choice::All => Candidates::new(vectors.clone(), heads.clone()),
                Choice::Drawn { rows, .. } => Candidates::new(gather(&[(vectors, rows)]), heads.select(rows)),
            };
            let logits = candidates.logits(&queries, &weights, threads);
            let mut by_logit = logits.values.clone();
            value += ask(&mut by_logit, &asked, &batch.rows, choice, (terms, weights.offset), |by_offset| {
                gradient[parameters.range(Group::Offset).start] += by_offset;
            });
            let by_candidate = candidates.backward(&logits, by_logit.view(), (&weights, &mut by_factor), &mut queries, threads);
            by_vector.push(scatter(by_candidate, choice, vectors.nrows()));
        }
        weights.backward(by_factor, parameters, gradient);
        queries.backward(parameters, gradient, threads);
        if terms.switches.message_passing {
            let capabilities = by_vector.pop().expect("two kinds");
            let by = ByVector { tools: by_vector.pop().expect("two kinds"), capabilities };
            let pass = Pass { plan: &self.plan, vectors: &self.vectors, parameters, enriched: &enriched, tape: &tape, threads };
            pass.backward(by, gradient);
        }
        value
    }

    /// The right candidates of every node of one kind on a path, by row: the node and what is equivalent to it.
    pub(crate) fn targets(&self, kind: usize, path: &[Node]) -> Vec<Vec<u32>> {
        let rows = |node: &Node| match (kind, node) {
            (0, Node::Tool(tool)) => Some(vec![number(*tool)]),
            (1, Node::Capability(capability)) => Some(self.equivalents[*capability].clone()),
            _ => None,
        };
        path.iter().filter_map(rows).collect()
    }

    /// What a trace asks. A tool of its path asks for the capabilities that contain it as well as for itself: so a trace teaches which
    /// capabilities are near its intent even if none has just its tools.
    fn asked(&self, kind: usize, path: &[Node], choice: &Choice) -> Asked {
        let column = |row: &u32| match choice {
            Choice::All => Some(*row),
            Choice::Drawn { rows, .. } => rows.binary_search(row).ok().map(number),
        };
        let columns = |rows: &[u32]| rows.iter().filter_map(column).collect::<Vec<u32>>();
        let mut targets: Vec<Vec<u32>> = self.targets(kind, path).iter().map(|right| columns(right)).collect();
        let mut named: Vec<u32> = targets.iter().flatten().copied().collect();
        named.sort_unstable();
        named.dedup();
        if kind == 1 {
            for node in path {
                if let Node::Tool(tool) = node {
                    targets.push(columns(&self.containing[*tool]));
                }
            }
            targets.retain(|right| !right.is_empty());
        }
        Asked { targets, named }
    }

    /// The candidates for a batch: all of a kind, or above `all_max` its targets and `drawn` others.
    pub(crate) fn choose(&self, paths: &[&[Node]], (all_max, drawn): (usize, usize), random: &mut Random) -> [Choice; 2] {
        [self.vectors.tools.nrows(), self.vectors.capabilities.nrows()]
            .into_iter()
            .enumerate()
            .map(|(kind, count)| {
                if count <= all_max {
                    return Choice::All;
                }
                let targets: BTreeSet<u32> = paths.iter().flat_map(|path| self.targets(kind, path)).flatten().collect();
                draw(count, targets, drawn, random)
            })
            .collect::<Vec<_>>()
            .try_into()
            .expect("two kinds")
    }
}

/// The targets, which are certain, and `drawn` of the others, each with the same chance.
#[expect(clippy::cast_precision_loss, reason = "fewer than 2^52 candidates")]
fn draw(count: usize, targets: BTreeSet<u32>, drawn: usize, random: &mut Random) -> Choice {
    let others = count - targets.len();
    let drawn = drawn.min(others);
    let correction = -libm::log(drawn as f64 / others.max(1) as f64);
    let mut rows: BTreeMap<u32, f64> = targets.into_iter().map(|row| (row, 0.0)).collect();
    let size = rows.len() + drawn;
    while rows.len() < size {
        rows.entry(number(random.below(count))).or_insert(correction);
    }
    let (rows, corrections) = rows.into_iter().unzip();
    Choice::Drawn { rows, corrections }
}

/// The mean loss of the rows of logits, which become its gradient.
fn ask<R: Real>(
    logits: &mut Array2<R>,
    asked: &[Asked],
    rows: &[Row],
    choice: &Choice,
    (terms, offset): (&Terms, R),
    mut add_by_offset: impl FnMut(R),
) -> R {
    let number = |value: f32| R::from_f64(f64::from(value));
    #[expect(clippy::cast_precision_loss, reason = "a batch is small")]
    let share = R::ONE / R::from_f64(rows.len() as f64);
    let corrections: Vec<R> = match choice {
        Choice::All => Vec::new(),
        Choice::Drawn { corrections, .. } => corrections.iter().map(|value| R::from_f64(*value)).collect(),
    };
    let mut value = R::ZERO;
    for ((mut logits, asked), row) in logits.rows_mut().into_iter().zip(asked).zip(rows) {
        let logits = logits.as_slice_mut().expect("rows in order");
        if asked.targets.is_empty() {
            logits.fill(R::ZERO);
            continue;
        }
        let weight = share * number(if row.succeeded { row.weight } else { row.weight * terms.failure_weight });
        let calibration = number(terms.calibration);
        let (succeeded, corrections) = (row.succeeded, &corrections[..]);
        let (targets, named) = (&asked.targets[..], &asked.named[..]);
        let loss = Question { targets, named, succeeded, weight, calibration, offset, corrections }.answer(logits);
        value += loss.value;
        add_by_offset(loss.by_offset);
    }
    value
}

fn scatter<R: Real>(by_candidate: Array2<R>, choice: &Choice, count: usize) -> Array2<R> {
    let Choice::Drawn { rows, .. } = choice else { return by_candidate };
    let mut by_vector = Array2::from_elem((count, by_candidate.ncols()), R::ZERO);
    for (row, by_candidate) in rows.iter().zip(by_candidate.rows()) {
        by_vector.row_mut(*row as usize).assign(&by_candidate);
    }
    by_vector
}

/// For every capability those that come down to the same tools. One without tools is equivalent to itself only.
fn equivalents(graph: &Hypergraph) -> Vec<Vec<u32>> {
    let tools = tools_below(graph);
    let mut classes: BTreeMap<&[u32], Vec<u32>> = BTreeMap::new();
    for (capability, tools) in tools.iter().enumerate() {
        classes.entry(tools).or_default().push(number(capability));
    }
    let class = |(capability, tools): (usize, &Vec<u32>)| match &tools[..] {
        [] => vec![number(capability)],
        tools => classes[tools].clone(),
    };
    tools.iter().enumerate().map(class).collect()
}

/// For every tool the capabilities that contain it, directly or through others, ascending.
fn containing(graph: &Hypergraph) -> Vec<Vec<u32>> {
    let mut containing = vec![Vec::new(); graph.tools()];
    for (capability, tools) in tools_below(graph).iter().enumerate() {
        for tool in tools {
            containing[*tool as usize].push(number(capability));
        }
    }
    containing
}

/// The tools that every capability contains, directly or through others, ascending.
pub(crate) fn tools_below(graph: &Hypergraph) -> Vec<Vec<u32>> {
    let mut below = vec![Vec::new(); graph.capabilities()];
    for level in 0..graph.level_count() {
        for capability in graph.at_level(level) {
            let members = graph.member_capabilities(capability).iter().flat_map(|member| below[*member as usize].iter());
            let tools: BTreeSet<u32> = graph.member_tools(capability).iter().chain(members).copied().collect();
            below[capability] = tools.into_iter().collect();
        }
    }
    below
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "exact values are expected")]
mod tests;
