//! `pml eval`: evaluation of the answers against plain baselines, on traces that pml has not learnt.

mod ablation;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde_json::{Map, Value, json};

use super::Outcome;
use super::embed::EmbedderArguments;
use super::output::Output;
use super::prequential;
use crate::clock::Clock;
use crate::config::Config;
use crate::core::event::{ModelTrained, NewRecord};
use crate::core::graph::measures::{Measures, tool_vectors};
use crate::core::intake::Limits;
use crate::core::rank::Index;
use crate::core::suggest::planner::Planner;
use crate::core::train::{TrainSettings, TrainedPart};
use crate::dataset::{Dataset, TEST, TRAIN, TraceLine};
use crate::embed::{self, Embedder};
use crate::eval::ablation::{Variant, Without};
use crate::eval::learn::{Learner, START};
use crate::eval::metrics::DiscoverScores;
use crate::eval::next::{self, NextScores, next};
use crate::eval::next_rankers::NextRanker;
use crate::eval::plan::{self, PLANNERS, PlanScores, plan};
use crate::eval::rankers::Ranker;
use crate::eval::{Split, discover, mean};
use crate::templates;

#[derive(Args)]
pub(super) struct Arguments {
    /// Directory with tools.jsonl and traces
    #[arg(required_unless_present = "url")]
    directory: Option<PathBuf>,
    /// Traces to learn from
    #[arg(long, default_value = TRAIN, value_name = "FILE")]
    train: String,
    /// Traces to test with
    #[arg(long, default_value = TEST, value_name = "FILE")]
    test: String,
    /// Cross-validate over the traces of this file, by their field `fold`, instead of using --train and --test
    #[arg(long, value_name = "FILE", conflicts_with_all = ["train", "test"])]
    folds: Option<String>,
    /// Leave a trained part out (`head`, `encoder`, `shgat`), or a part of SHGAT (`message_passing`, `priorities`, `semantic`,
    /// `structure`, `temporal`), or the signal `hyperpath`; may be given several times
    #[arg(long, value_name = "PART")]
    without: Vec<Without>,
    /// Answer without training the model
    #[arg(long, conflicts_with = "without")]
    untrained: bool,
    /// Train and answer once with everything and once without each part, and print one table
    #[arg(long, conflicts_with_all = ["without", "untrained", "prequential"])]
    ablation: bool,
    #[command(flatten)]
    prequential: prequential::CurveArguments,
    #[command(flatten)]
    embedder: EmbedderArguments,
}

pub(super) async fn run(arguments: Arguments, mut config: Config, output: &Output) -> Outcome {
    let Arguments { directory, train, test, folds, without, untrained, ablation, prequential, embedder } = arguments;
    embedder.apply(&mut config);
    let directory = directory.unwrap_or_default();
    if prequential.prequential {
        return prequential::run(prequential, &directory, &config, output).await;
    }
    let clock = Clock::system();
    let began = clock.now();
    let load = |file: &str| -> anyhow::Result<Dataset> { Ok(Dataset::load(&directory, file, START)?.complete()?) };
    let learnt_from = load(folds.as_deref().unwrap_or(&train))?;
    let tools = learnt_from.tools;
    let splits = match &folds {
        Some(_) => Split::folds(&learnt_from.traces),
        None => vec![Split { train: learnt_from.traces, test: load(&test)?.traces }],
    };
    if splits.is_empty() {
        return Err(anyhow::anyhow!("no trace of {} has a field `fold`", folds.unwrap_or_default()).into());
    }
    let embedder = embed::open(&config.embedding)?;
    let dataset = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if ablation {
        return ablate(&dataset, &config, &*embedder, &tools, &splits, output);
    }
    let bar = output.progress("learning", splits.iter().map(|split| split.train.len() as u64).sum());
    let mut training = TrainSettings::default();
    for left_out in without {
        left_out.leave_out(&mut training);
    }
    let (mut scores, mut steps, mut plans) = (Vec::new(), Vec::new(), Vec::new());
    let (mut states, mut trained) = (Vec::new(), Vec::new());
    let (mut learn_ms, mut train_ms, mut answer_ms) = (0, 0, 0);
    for split in &splits {
        let start = clock.now();
        bar.set_message("learning");
        let mut learner = learn(&config, &*embedder, &tools, &split.train, || bar.inc(1))?;
        let learnt = clock.now();
        bar.set_message("training");
        if !untrained {
            trained.push(learner.train(&training));
        }
        let index = Arc::new(Index::default().update(Arc::new(learner.into_state())).calibrated());
        let planner = Planner::default().update(Arc::clone(&index));
        let ready = clock.now();
        bar.set_message("answering");
        states.push(index.state().digest().to_string());
        scores.push(discover(&index, &*embedder, &split.test, &Ranker::ALL)?);
        let measures = Measures::compute(index.state(), None, (&config.graph).into(), &tool_vectors(index.state()));
        steps.push(next(index.state(), &measures, &*embedder, split, &NextRanker::ALL)?);
        plans.push(plan(&planner, measures.adjacency(), &*embedder, split)?);
        learn_ms += learnt.millis_since(start);
        train_ms += ready.millis_since(learnt);
        answer_ms += clock.now().millis_since(ready);
    }
    bar.finish_and_clear();
    let report = EvalReport {
        dataset,
        model: embedder.model().to_string(),
        tools: tools.len(),
        train: splits.iter().map(|split| split.train.len()).sum::<usize>() / splits.len(),
        rankers: mean(&scores),
        next: next::mean(&steps),
        plans: plan::mean(&plans),
        states,
        trained,
        seconds: [("learn", learn_ms), ("train", train_ms), ("answer", answer_ms), ("all", clock.now().millis_since(began))],
    };
    output.json(&report.json());
    report.print(output);
    Ok(0)
}

/// Evaluates every variant of the ablation.
fn ablate(
    dataset: &str,
    config: &Config,
    embedder: &dyn Embedder,
    tools: &[NewRecord],
    splits: &[Split],
    output: &Output,
) -> Outcome {
    let bar = output.progress("training and answering", (splits.len() * Variant::all().len()) as u64);
    let learner = |split| -> anyhow::Result<(Learner<'_>, &Split)> {
        let split: &Split = split;
        Ok((learn(config, embedder, tools, &split.train, || {})?, split))
    };
    let learnt = splits.iter().map(learner).collect::<anyhow::Result<Vec<_>>>()?;
    let rows = crate::eval::ablation::ablation(&learnt, embedder, (&config.graph).into(), || bar.inc(1))?;
    bar.finish_and_clear();
    ablation::report(dataset, embedder.model().as_str(), &rows, output);
    Ok(0)
}

/// Learns tools and training traces in the canonical order.
fn learn<'a>(
    config: &Config,
    embedder: &'a dyn Embedder,
    tools: &[NewRecord],
    train: &[TraceLine],
    learnt: impl Fn(),
) -> anyhow::Result<Learner<'a>> {
    let mut learner = Learner::new(embedder, Limits::from(config));
    learner.load_templates(templates::load(&config.templates.path)?);
    learner.register_tools(tools)?;
    for trace in train {
        learner.learn_trace(trace)?;
        learnt();
    }
    Ok(learner)
}

/// The result of an evaluation.
struct EvalReport {
    dataset: String,
    model: String,
    tools: usize,
    train: usize,
    rankers: BTreeMap<&'static str, DiscoverScores>,
    next: BTreeMap<&'static str, NextScores>,
    plans: BTreeMap<&'static str, PlanScores>,
    /// The digest of the learnt state, by split.
    states: Vec<String>,
    /// The trained parts with their verdicts, by split.
    trained: Vec<Vec<TrainedPart>>,
    seconds: [(&'static str, u64); 4],
}

impl EvalReport {
    fn tests(&self) -> usize {
        self.rankers.values().map(|discover| discover.n).max().unwrap_or(0)
    }

    fn json(&self) -> Value {
        let names: BTreeSet<&str> = self.rankers.keys().chain(self.next.keys()).chain(self.plans.keys()).copied().collect();
        let parts = |name: &str| {
            let mut parts = Map::new();
            parts.extend(self.rankers.get(name).map(|discover| ("discover".to_owned(), json!(discover))));
            parts.extend(self.next.get(name).map(|next| ("next".to_owned(), json!(next))));
            parts.extend(self.plans.get(name).map(|plan| ("plan".to_owned(), json!(plan))));
            Value::Object(parts)
        };
        let rankers: Value = names.into_iter().map(|name| (name.to_owned(), parts(name))).collect();
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of one run")]
        let seconds: Value = self.seconds.iter().map(|(what, ms)| ((*what).to_owned(), json!(*ms as f64 / 1000.0))).collect();
        let part = |part: &TrainedPart| {
            let ModelTrained { version, accepted, reason, size, .. } = &part.event;
            json!({"part": version.part().name(), "accepted": accepted, "reason": reason, "bytes": size})
        };
        let trained: Vec<Vec<Value>> = self.trained.iter().map(|parts| parts.iter().map(part).collect()).collect();
        json!({
            "trained": trained,
            "dataset": self.dataset, "model": self.model, "n_tools": self.tools, "n_train": self.train, "n_test": self.tests(),
            "rankers": rankers, "states": self.states, "seconds": seconds,
        })
    }

    fn print(&self, output: &Output) {
        output.say(format!(
            "{}: {} tools, {} training traces, {} test traces, embedding model {}",
            self.dataset,
            self.tools,
            self.train,
            self.tests(),
            self.model
        ));
        let percent = |value: f64| format!("{:.1}", value * 100.0);
        let row = |ranker: &Ranker| {
            let found = self.rankers.get(ranker.name())?;
            let values = [found.hit1, found.recall5, found.recall10, found.mrr, found.ndcg5].map(percent);
            Some([ranker.name().to_owned()].into_iter().chain(values).collect())
        };
        let header = ["discover, in %", "hit@1", "recall@5", "recall@10", "MRR", "NDCG@5"];
        output.table(&header, Ranker::ALL.iter().filter_map(row).collect::<Vec<_>>());
        self.print_next(output);
        self.print_plans(output);
        let verdict = |part: &TrainedPart| {
            let ModelTrained { version, accepted, reason, .. } = &part.event;
            vec![version.part().to_string(), if *accepted { "accepted" } else { "refused" }.to_owned(), reason.clone()]
        };
        for parts in &self.trained {
            output.table(&["trained", "verdict", "reason"], parts.iter().map(verdict).collect::<Vec<_>>());
        }
    }

    fn print_plans(&self, output: &Output) {
        let row = |name: &&'static str| {
            let found = self.plans.get(name)?;
            let values = [found.node_f1, found.edge_f1, found.exact].map(|value| format!("{:.1}", value * 100.0));
            Some([(*name).to_owned()].into_iter().chain(values).chain([format!("{:.1}", found.size)]).collect())
        };
        output.table(
            &["plan, in %", "node-F1", "edge-F1", "exact", "tools"],
            PLANNERS.iter().filter_map(row).collect::<Vec<_>>(),
        );
    }

    fn print_next(&self, output: &Output) {
        let percent = |value: f64| format!("{:.1}", value * 100.0);
        let with_interval = |value: f64, half: f64| format!("{:.1} \u{b1}{:.1}", value * 100.0, half * 100.0);
        let row = |ranker: &NextRanker| {
            let NextScores { all, first, unseen, .. } = self.next.get(ranker.name())?;
            let values = [
                ranker.name().to_owned(),
                with_interval(all.hit1, all.hit1_ci),
                percent(all.hit3),
                with_interval(all.mrr, all.mrr_ci),
                percent(all.ready1),
                percent(first.hit1),
                percent(unseen.hit1),
                percent(unseen.mrr),
            ];
            Some(values.to_vec())
        };
        let header = ["next, in %", "hit@1", "hit@3", "MRR", "ready@1", "first hit@1", "unseen hit@1", "unseen MRR"];
        output.table(&header, NextRanker::ALL.iter().filter_map(row).collect::<Vec<_>>());
        if let Some(NextScores { all, unseen, calibration: Some(calibration), .. }) = self.next.get(NextRanker::Pml.name()) {
            output.say(format!(
                "{} steps, {} of them in call sequences not among the training traces; calibration error of pml {:.3} over {} predictions",
                all.n, unseen.n, calibration.ece, calibration.n
            ));
        }
    }
}
