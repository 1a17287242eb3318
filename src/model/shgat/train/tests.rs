use super::*;
use crate::shgat::hypergraph::Node::{Capability, Tool};
use crate::shgat::measure::{measure, path_successes};
use crate::shgat::parameters::Shape;
use crate::shgat::sample::{Sample, Sizes};
use crate::shgat::trace::Trace;
use ndarray::Array2;

struct World {
    sample: Sample,
    intents: Array2<f32>,
    traces: Vec<Trace>,
}

impl World {
    fn new(traces: usize, seed: u64) -> Self {
        Self::with(Sizes { tools: 80, capabilities: 30, members: 4, dim: 32 }, traces, seed)
    }

    fn with(sizes: Sizes, traces: usize, seed: u64) -> Self {
        let sample = Sample::new(sizes, 5);
        let (intents, traces) = sample.traces(traces, seed);
        Self { sample, intents, traces }
    }

    fn part(&self) -> Part<'_> {
        let Sample { graph, vectors, features } = &self.sample;
        Part { graph, vectors, features, intents: &self.intents, traces: &self.traces }
    }
}

fn run(world: &World, validation: &[Part], settings: &Settings) -> (Trained, Priorities) {
    let mut priorities = Priorities::default();
    let start = Parameters::new(Shape::new(world.intents.ncols(), 4), 0);
    let trained = train(&[world.part()], validation, start, &mut priorities, settings, &mut |_| ControlFlow::Continue(()));
    (trained, priorities)
}

#[test]
fn training_ranks_unseen_traces_better_than_the_start() {
    let (world, unseen) = (World::new(300, 1), World::new(100, 2));
    let settings = Settings { epochs: 8, batch: 32, ..Settings::default() };
    let (trained, _) = run(&world, &[unseen.part()], &settings);
    let (before, after) = (trained.validations[0], trained.validations[trained.best_epoch.unwrap() + 1]);
    assert!(after > before + 0.1, "{:?}", trained.validations);
    assert!(trained.losses.last() < trained.losses.first(), "{:?}", trained.losses);
    let [tools, _] = measure(&unseen.part(), &trained.parameters, Switches::default(), 1);
    let start = Parameters::new(Shape::new(32, 4), 4);
    let [tools_before, _] = measure(&unseen.part(), &start, Switches::default(), 1);
    assert!(tools.recall_at_5 > tools_before.recall_at_5 + 0.1, "{tools:?} {tools_before:?}");
}

#[test]
fn the_same_seed_gives_the_same_bits_on_any_number_of_threads() {
    // Large enough for products to be shared out.
    let world = World::with(Sizes { tools: 600, capabilities: 60, members: 6, dim: 128 }, 150, 3);
    let settings = Settings { epochs: 2, ..Settings::default() };
    let (first, priorities) = run(&world, &[], &settings);
    for again in [settings, Settings { threads: 2, ..settings }] {
        let (second, again_priorities) = run(&world, &[], &again);
        assert_eq!((&second.parameters, &again_priorities), (&first.parameters, &priorities));
    }
    let (other, _) = run(&world, &[], &Settings { seed: 2, ..settings });
    assert_ne!(other.parameters, first.parameters);
}

#[test]
fn every_trace_is_learnt_from_or_counted() {
    let mut world = World::new(20, 4);
    world.traces[0].path = Vec::new();
    world.traces[1].path = vec![Tool(80)];
    world.traces[2].path.push(Capability(30));
    world.traces[3].intent = 20;
    world.intents.row_mut(4).fill(0.0);
    let examples: usize = world.traces[5..].iter().map(|trace| trace.path.len()).sum();
    let (trained, priorities) = run(&world, &[], &Settings { epochs: 1, ..Settings::default() });
    assert_eq!((trained.traces, trained.examples), (15, examples));
    assert_eq!(trained.refused, Refused { no_path: 1, unknown_node: 2, no_vector: 2 });
    assert_eq!(priorities.iter().count(), 15);
}

#[test]
fn priorities_are_the_surprises_of_the_new_parameters() {
    let world = World::new(60, 5);
    let (trained, priorities) = run(&world, &[], &Settings { epochs: 3, ..Settings::default() });
    let predicted = path_successes(&world.part(), &trained.parameters, Switches::default(), 1);
    for (trace, predicted) in world.traces.iter().zip(predicted) {
        let outcome = if trace.succeeded { 1.0 } else { 0.0_f32 };
        assert!((priorities.get(trace.id) - (outcome - predicted).abs().clamp(0.01, 1.0)).abs() < 1e-6);
    }
}

#[test]
fn a_callback_sees_progress_and_ends_training() {
    let world = World::new(100, 6);
    let settings = Settings { batch: 20, ..Settings::default() };
    let mut seen = Vec::new();
    let mut stop = |progress: Progress| {
        seen.push((progress.epoch, progress.batch, progress.batches));
        if seen.len() < 8 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let start = Parameters::new(Shape::new(world.intents.ncols(), 4), 0);
    let trained = train(&[world.part()], &[], start, &mut Priorities::default(), &settings, &mut stop);
    assert!(trained.interrupted && trained.losses.len() == 1 && trained.best_epoch == Some(0));
    // Five batches, the end of the epoch, and two batches of the next.
    assert_eq!(seen[4..], [(0, 5, 5), (0, 5, 5), (1, 1, 5), (1, 2, 5)]);
}

#[test]
fn training_ends_when_validation_gets_no_better() {
    let (world, mut unseen) = (World::new(100, 7), World::new(60, 8));
    // Labels that nothing can be learnt for.
    let mut random = Random::new(1);
    unseen.traces.iter_mut().for_each(|trace| trace.path = vec![Tool(random.below(80))]);
    let settings = Settings { epochs: 40, patience: 3, ..Settings::default() };
    let (trained, _) = run(&world, &[unseen.part()], &settings);
    assert!(trained.losses.len() < 40, "{}", trained.losses.len());
    let best = trained.validations.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let of_result = trained.best_epoch.map_or(trained.validations[0], |epoch| trained.validations[epoch + 1]);
    assert_eq!(of_result, best);
}

#[test]
fn a_rate_that_is_far_too_high_is_noticed_or_harmless() {
    let (world, unseen) = (World::new(100, 9), World::new(60, 10));
    let settings = Settings { learning_rate: 1e6, epochs: 5, ..Settings::default() };
    let (trained, _) = run(&world, &[unseen.part()], &settings);
    assert!(trained.parameters.is_finite());
    let best = trained.best_epoch.map_or(trained.validations[0], |epoch| trained.validations[epoch + 1]);
    assert!(best >= trained.validations[0]);
}

/// Traces that succeed with one half of the tools and fail with the other: the failures are pushed down.
#[test]
fn failures_lower_the_prediction_of_their_nodes() {
    let mut world = World::new(200, 11);
    for trace in &mut world.traces {
        trace.path.truncate(1);
        let Capability(row) = trace.path[0] else { panic!("a capability comes first") };
        trace.succeeded = row % 2 == 0;
    }
    let settings = Settings { epochs: 20, batch: 32, learning_rate: 2e-3, ..Settings::default() };
    let (trained, _) = run(&world, &[], &settings);
    let predicted = path_successes(&world.part(), &trained.parameters, Switches::default(), 1);
    let mean = |succeeded: bool| {
        let of = world.traces.iter().zip(&predicted).filter(|(trace, _)| trace.succeeded == succeeded);
        let (sum, count) = of.fold((0.0, 0.0_f32), |(sum, count), (_, predicted)| (sum + predicted, count + 1.0));
        sum / count
    };
    assert!(mean(true) > mean(false) + 0.2, "{} {}", mean(true), mean(false));
}

#[test]
fn each_part_of_the_network_can_be_switched_off() {
    let world = World::new(60, 12);
    let all = Switches::default();
    let mut results = Vec::new();
    for switches in [
        all,
        Switches { message_passing: false, ..all },
        Switches { semantic: false, ..all },
        Switches { structure: false, ..all },
        Switches { temporal: false, ..all },
        Switches { priorities: false, ..all },
    ] {
        // Two runs: the second one starts from the priorities of the first, which PER then follows.
        let settings = Settings { epochs: 2, batch: 16, switches, ..Settings::default() };
        let (first, mut priorities) = run(&world, &[], &settings);
        let parts = [world.part()];
        let trained = train(&parts, &[], first.parameters, &mut priorities, &settings, &mut |_| ControlFlow::Continue(()));
        assert!(results.iter().all(|other| *other != trained.parameters), "{switches:?} changes nothing");
        results.push(trained.parameters);
    }
}

#[test]
fn no_traces_leave_the_start() {
    let world = World::new(0, 13);
    let (trained, _) = run(&world, &[], &Settings { epochs: 2, ..Settings::default() });
    assert_eq!(trained.parameters, Parameters::new(Shape::new(32, 4), world.sample.graph.level_count()));
    assert_eq!(trained.losses, [0.0, 0.0]);
}
