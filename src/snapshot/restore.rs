//! Restores a state from the files of a snapshot.
//!
//! [`restore`] checks the hash of every file and builds the state; record ids and vectors are built on threads of their own. It does
//! not compute the digest, which would make every start slower: unchanged files restore the state that was written, as property
//! tests and `pml snapshot verify` show. Traces stay packed.

use super::error::Unusable;
use super::fetched::FetchedSnapshot;
use super::tables::counters::{self, CounterTable};
use super::tables::{capabilities, graph, intents, models, open, predictions, quality, templates, tools, traces, vectors};
use super::take::joined;
use crate::core::predict::Predictor;
use crate::core::predict::corpus::Corpus;
use crate::core::predict::lesson::LessonSchedule;
use crate::core::predict::parts::Parts;
use crate::core::state::State;
use crate::core::trace::Executions;
use crate::core::vectors::Vectors;
use crate::files::guarded;

/// The state, without its digest being checked. One of another fold version is refused: folding on from it would give a state that no
/// fold of the log gives.
pub fn restore(fetched: &FetchedSnapshot) -> Result<State, Unusable> {
    guarded(|| build(fetched)).unwrap_or_else(|source| Err(Unusable::Parquet { file: "a table".to_owned(), source }))
}

fn build(fetched: &FetchedSnapshot) -> Result<State, Unusable> {
    fetched.manifest.check_fold()?;
    let numbers = CounterTable::read(&fetched.rows(counters::COUNTERS, &[])?)?;
    let (ids, vectors, parts) = std::thread::scope(|scope| {
        let vectors = scope.spawn(|| vectors(fetched));
        let ids = scope.spawn(|| counters::read_record_ids(&fetched.open_in_place(counters::RECORD_IDS)?));
        let parts = parts(fetched, &numbers);
        (joined(ids), joined(vectors), parts)
    });
    let mut state = parts?;
    state.vectors = vectors?;
    state.predictor = predictor(fetched, &numbers, &state)?;
    Ok(State::from_rows(numbers.counters()?, ids?, state))
}

fn vectors(fetched: &FetchedSnapshot) -> Result<Vectors, Unusable> {
    let open = |table| fetched.has_table(table).then(|| fetched.open_in_place(table)).transpose();
    let [serving, coming] = vectors::EMBEDDINGS.map(open);
    let (texts, models) = (fetched.rows(vectors::TEXTS, &[])?, fetched.rows(vectors::MODELS, &[])?);
    vectors::read_vectors(&texts, &models, [serving?, coming?])
}

/// A state without the counters, the record ids, the vectors and what is derived from them.
fn parts(fetched: &FetchedSnapshot, numbers: &CounterTable) -> Result<State, Unusable> {
    let members = fetched.rows(capabilities::MEMBERS, &capabilities::MEMBER_NODES)?;
    let (executions, steps) = (fetched.rows(open::OPEN_EXECUTIONS, &[])?, fetched.rows(open::OPEN_STEPS, &[])?);
    let closed = traces::pack(fetched.open_in_memory(traces::TRACES)?, fetched.open_in_memory(traces::STEPS)?)?;
    let mut state = State::default();
    state.tools = tools::read_tools(&fetched.rows(tools::TOOLS, &[])?)?;
    state.executions = Executions::from_rows(open::read_open(&executions, &steps)?, closed);
    state.graph = graph::read_edges(&fetched.rows(graph::EDGES, &graph::EDGE_COLUMNS)?)?;
    let totals = (numbers.get("transitions.calls")?, numbers.get("transitions.ends")?);
    state.transitions = graph::read_transitions(&fetched.rows(graph::TRANSITIONS, &graph::TRANSITION_COLUMNS)?, totals)?;
    state.capabilities = capabilities::read_capabilities(&fetched.rows(capabilities::CAPABILITIES, &[])?, &members)?;
    state.templates = templates::read_templates(&fetched.rows(templates::TEMPLATES, &[])?)?;
    state.trained =
        models::read_models(&fetched.rows(models::TRAINING_RUNS, &[])?, &fetched.rows(models::MODEL_PARAMETERS, &[])?)?;
    let remembered = fetched.rows(intents::INTENTS, &intents::INTENT_COLUMNS)?;
    let ways = fetched.rows(intents::WAYS, &intents::WAY_COLUMNS)?;
    state.memory = intents::read_intents(&remembered, &ways, numbers.get("next_intent")?)?;
    Ok(state)
}

/// The predictor of `state`, whose tools, memory and vectors are already restored.
fn predictor(fetched: &FetchedSnapshot, numbers: &CounterTable, state: &State) -> Result<Predictor, Unusable> {
    let parameters = fetched.rows(predictions::PARAMETERS, &[])?;
    let served = fetched.rows(predictions::PREDICTIONS, &[])?;
    let (open, scored) = (fetched.rows(predictions::OPEN_PREDICTIONS, &[])?, fetched.rows(predictions::SCORES, &[])?);
    let [traces, due, taken, next] = ["traces", "due", "taken", "next"].map(|name| numbers.get(&format!("lessons.{name}")));
    let examples = [numbers.get("logit.first_examples")?, numbers.get("logit.later_examples")?];
    let quality = quality::read_quality(&fetched.rows(quality::QUALITY, &[])?)?;
    Ok(Predictor {
        corpus: Corpus::rebuild(&state.tools, &state.memory, &state.vectors),
        parts: Parts::new(&state.trained, state.vectors.model()),
        logit: predictions::read_parameters(&parameters, examples)?,
        lessons: LessonSchedule::from_numbers([traces?, due?, taken?, next?]),
        thresholds: predictions::read_thresholds(&fetched.rows(predictions::THRESHOLDS, &[])?)?,
        scores: predictions::read_scores(&served, &open, &scored, numbers.get("predictions.scored")?, quality)?,
        feedback: predictions::read_plan_feedback(&fetched.rows(predictions::PLAN_FEEDBACK, &[])?)?,
    })
}

/// Restores, unpacks every trace, and compares the digest with the manifest's. Of a snapshot of another fold version only the files
/// can be checked: damage comes first, then that it is of another version.
pub fn verify(fetched: &FetchedSnapshot) -> Result<State, Unusable> {
    if fetched.manifest.check_fold().is_err() {
        for file in &fetched.manifest.files {
            fetched.read_checked(file)?;
        }
    }
    let state = restore(fetched)?;
    traces::all(&state)?;
    let found = state.digest();
    if found.to_string() != fetched.manifest.digest {
        return Err(Unusable::Digest { expected: fetched.manifest.digest.clone(), found });
    }
    Ok(state)
}
