//! Trained parameters: the pieces that records carry, put together, read, and asked for a prediction.

use std::ops::ControlFlow;
use std::sync::Arc;

use ndarray::Array2;
use pml::core::event::{Event, ModelParameters, ModelPart, ModelPromoted, ModelTrained, NewRecord, Record};
use pml::core::hash::fnv1a;
use pml::core::id::{Callee, RecordId};
use pml::core::predict::evidence::Evidence;
use pml::core::predict::ranker::{NextWeights, RankerWeights};
use pml::core::predict::signals::SIGNALS;
use pml::core::predict::threshold::Mode;
use pml::core::predict::{PredictionQuery, predict};
use pml::core::rank::Question;
use pml::core::state::State;
use pml_fuzzer::{Form, Target};
use pml_model::shgat::{Parameters, Shape};
use pml_model::{Encoder, EncoderSettings, HeadSettings, IntentHead, Progress, Run, TrainingSet};

use super::target;
use crate::samples;

/// The dimensions of the vectors in the samples.
const DIM: usize = 8;
const SUM_BYTES: usize = 8;

/// Two runs on three tools: too few to train, so what comes out is what training begins with.
fn training_set() -> TrainingSet {
    let run =
        |intent, calls: &[usize]| Run { intent, clauses: Vec::new(), calls: calls.to_vec(), ended: true, succeeded: true };
    let vectors = |rows: usize| {
        Array2::from_shape_fn((rows, DIM), |(row, column)| if (row + column).is_multiple_of(3) { 0.5 } else { -0.25 })
    };
    TrainingSet { tools: vectors(3), texts: vectors(2), runs: vec![run(0, &[0, 1]), run(1, &[0, 1, 2])] }
}

/// SHGAT for three tools and one capability of two of them, in its stored form.
fn shgat() -> Vec<u8> {
    let parameters = Parameters::<f32>::new(Shape::new(DIM, 2), 1).to_bytes();
    let number = |number: u32| number.to_le_bytes();
    let mut bytes = vec![3, 0b1_1111];
    bytes.extend(number(u32::try_from(parameters.len()).unwrap()));
    bytes.extend(parameters);
    bytes.extend(number(3));
    bytes.extend([0_u8; 3 * 4 * 2]);
    bytes.extend(number(1));
    for list in [&[0_u32][..], &[0, 1], &[]] {
        bytes.extend(number(u32::try_from(list.len()).unwrap()));
        bytes.extend(list.iter().flat_map(|value| number(*value)));
    }
    bytes.extend([0_u8; 4 * 2 + DIM * 2]);
    bytes.extend(number(1));
    bytes.extend(7_u64.to_le_bytes());
    bytes.extend([0_u8; 2]);
    bytes
}

/// The stored form of each part.
fn stored() -> [(ModelPart, Vec<u8>); 4] {
    let (set, mut observer) = (training_set(), |_: Progress| ControlFlow::Continue(()));
    let (head, _) = IntentHead::train(&set, &HeadSettings::default(), 1, &mut observer).unwrap();
    let (encoder, _) = Encoder::train(&set, &EncoderSettings::default(), 1, &mut observer).unwrap();
    let next = NextWeights { first: [0.1; SIGNALS], later: [0.2; SIGNALS] };
    let ranker = RankerWeights { requires: Vec::new(), next: Some(next), discover: None, plan: None };
    [
        (ModelPart::Head, head.to_bytes()),
        (ModelPart::Encoder, encoder.to_bytes()),
        (ModelPart::Shgat, shgat()),
        (ModelPart::Ranker, ranker.to_bytes()),
    ]
}

/// Writes the right checksum over the last bytes.
fn seal(bytes: &mut [u8]) {
    if let Some((content, sum)) = bytes.split_last_chunk_mut::<SUM_BYTES>() {
        *sum = fnv1a(content).to_le_bytes();
    }
}

/// The parameters with the right checksums, so that what is behind them is reached.
fn sealed(part: ModelPart, mut bytes: Vec<u8>) -> Vec<u8> {
    match part {
        ModelPart::Head | ModelPart::Encoder => seal(&mut bytes),
        ModelPart::Shgat => {
            let length = bytes.get(2..6).map_or(0, |length| u32::from_le_bytes(length.try_into().unwrap()) as usize);
            if let Some(parameters) = length.checked_add(6).and_then(|end| bytes.get_mut(6..end)) {
                seal(parameters);
            }
        }
        ModelPart::Ranker => {}
    }
    bytes
}

/// Folds the records with which a version of a part begins to serve.
fn serve(state: &mut State, part: ModelPart, bytes: &[u8], example: &ModelTrained) {
    let digest = blake3::hash(bytes).to_hex().to_string();
    let version: pml::core::event::ModelVersion = format!("{}-{}", part.name(), &digest[..12]).parse().unwrap();
    let size = bytes.len() as u64;
    let trained = ModelTrained {
        version: version.clone(),
        parent: None,
        embedding_model: None,
        accepted: true,
        digest,
        size,
        ..example.clone()
    };
    let piece = ModelParameters { version: version.clone(), piece: 0, pieces: 1, bytes: bytes.into() };
    let events = [
        Event::ModelTrained(trained),
        Event::ModelParameters(piece),
        Event::ModelPromoted(ModelPromoted { version, reason: String::new() }),
    ];
    for event in events {
        let (seq, time) = (state.applied().next(), samples::noon());
        let id = RecordId::from_parts(time, seq.0.into());
        let fact = Arc::new(NewRecord { id, time, source: "fuzz".into(), causation: None, envelope: None, event });
        state.apply(&Record { seq, recorded_at: time, fact });
    }
}

pub(super) fn parameters() -> Target {
    let trained = samples::facts().into_iter().find_map(|fact| match fact.event {
        Event::ModelTrained(trained) => Some(trained),
        _ => None,
    });
    let (example, stored) = (trained.unwrap(), stored());
    let mut base = samples::state();
    for (part, bytes) in &stored {
        serve(&mut base, *part, bytes, &example);
    }
    let tools: Vec<Callee> = base.tools.iter().take(2).map(|tool| Callee::Tool(tool.id.clone())).collect();
    let question = Question { intent: "read a file".to_owned(), vector: Some(vec![0.25; DIM]), clauses: Vec::new() };
    let samples = (0_u8..).zip(&stored).map(|(part, (_, bytes))| [&[part], bytes.as_slice()].concat()).collect();
    let mut target = target("parameters", Form::Bytes, samples, &[], move |input| {
        let Some((&part, bytes)) = input.split_first() else { return Err("nothing".to_owned()) };
        let part = ModelPart::ALL[usize::from(part) % ModelPart::ALL.len()];
        let mut state = base.clone();
        serve(&mut state, part, &sealed(part, bytes.to_vec()), &example);
        let query =
            PredictionQuery { context: &tools, k: 5, mode: Mode::Asked, seed: RecordId::from_parts(samples::noon(), 1) };
        let prediction = predict(&state, &question, &query);
        assert!(prediction.ranked.iter().all(|ranked| ranked.p.is_finite()), "a probability is a number");
        if is_read(&state, &question, part) { Ok(()) } else { Err("damaged".to_owned()) }
    });
    // The rows of all tools are computed anew, for every part.
    target.memory_fixed = 8 << 20;
    target
}

/// Whether the version of the part that serves could be read.
fn is_read(state: &State, question: &Question, part: ModelPart) -> bool {
    let (parts, evidence) = (&state.predictor.parts, Evidence::for_question(state, question));
    match part {
        ModelPart::Head => evidence.has_head(),
        ModelPart::Encoder => parts.next(state, question.vectors().as_ref(), &[]).is_some(),
        ModelPart::Shgat => evidence.has_target(),
        ModelPart::Ranker => parts.ranker().is_some(),
    }
}
