use super::*;
use crate::shgat::hypergraph::Node::{Capability, Tool};
use crate::shgat::parameters::Shape;
use crate::shgat::sample::{Sample, Sizes};

/// A hypergraph with three levels, a mixed and a skip-level member, two equivalent capabilities and one without members.
fn ground() -> (Hypergraph, Ground<f64>) {
    let sample = Sample::new(Sizes { tools: 9, capabilities: 7, members: 1, dim: 8 }, 3);
    let mut graph = Hypergraph::new(9);
    let members: [&[Node]; 7] = [
        &[Tool(0), Tool(1), Tool(2)],
        &[Tool(2), Tool(3)],
        &[Tool(2), Tool(3)],
        &[Capability(0), Tool(4), Tool(2)],
        &[Capability(3), Capability(1), Tool(5)],
        &[],
        &[Capability(1), Capability(0)],
    ];
    for members in members {
        graph.add_capability(members).unwrap();
    }
    let wide = |matrix: Array2<f32>| matrix.mapv(|value| 2.0 * f64::from(value));
    let vectors = Vectors { tools: wide(sample.vectors.tools), capabilities: wide(sample.vectors.capabilities) };
    let ground = Ground::new(&graph, vectors, &sample.features);
    (graph, ground)
}

fn parameters() -> Parameters<f64> {
    let mut parameters = Parameters::new(Shape::new(8, 2), 3);
    let mut random = Random::new(17);
    parameters.values.iter_mut().for_each(|value| *value += 0.3 * f64::from(random.normal()));
    parameters
}

const PATHS: [&[Node]; 5] = [
    &[Tool(0), Capability(0), Tool(3)],
    &[Capability(2)],
    &[Tool(7), Tool(7), Capability(4)],
    &[Capability(5), Tool(6)],
    &[Tool(2), Capability(6), Capability(1)],
];

fn batch(rows: &[(usize, bool, f32)]) -> Batch<'static, f64> {
    let mut random = Random::new(23);
    Batch {
        intents: Array2::from_shape_simple_fn((rows.len(), 8), || f64::from(random.normal())),
        rows: rows
            .iter()
            .map(|(path, succeeded, weight)| Row { path: PATHS[*path], succeeded: *succeeded, weight: *weight })
            .collect(),
        choices: [Choice::All, Choice::All],
    }
}

fn terms() -> Terms {
    Terms { switches: Switches::default(), failure_weight: 0.5, calibration: 0.3, threads: 1 }
}

fn gradient_of(parameters: &Parameters<f64>, terms: &Terms, batch: impl Fn() -> Batch<'static, f64>) -> (f64, Vec<f64>) {
    let mut gradient = vec![0.0; parameters.values.len()];
    let loss = ground().1.loss(parameters, terms, batch(), &mut gradient);
    (loss, gradient)
}

/// The largest relative error of a gradient against central differences, over all values of a group.
fn error_of(group: Group, terms: &Terms, batch: impl Fn() -> Batch<'static, f64>) -> f64 {
    const STEP: f64 = 1e-5;
    let (parameters, ground) = (parameters(), ground().1);
    let (_, gradient) = gradient_of(&parameters, terms, &batch);
    let mut nothing = vec![0.0; gradient.len()];
    let mut loss_at = |at: usize, by: f64| {
        let mut moved = parameters.clone();
        moved.values[at] += by;
        ground.loss(&moved, terms, batch(), &mut nothing)
    };
    let range = parameters.range(group);
    let largest = gradient[range.clone()].iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    let mut worst = 0.0_f64;
    for at in range {
        let numeric = (loss_at(at, STEP) - loss_at(at, -STEP)) / (2.0 * STEP);
        // Relative to the value itself, unless it is a thousand times smaller than the largest: there rounding decides.
        let scale = numeric.abs().max(gradient[at].abs()).max(1e-3 * largest);
        worst = worst.max((numeric - gradient[at]).abs() / scale);
    }
    assert!(largest > 0.0, "{group:?} has no gradient");
    worst
}

const ALL: [(usize, bool, f32); 5] = [(0, true, 1.0), (1, false, 0.8), (2, true, 0.5), (3, true, 0.9), (4, false, 1.0)];

#[test]
fn gradients_of_every_group_agree_with_finite_differences() {
    // Nothing contains the capabilities of the highest level, so they receive nothing.
    for group in parameters().groups().into_iter().filter(|group| *group != Group::DownGate(2)) {
        let error = error_of(group, &terms(), || batch(&ALL));
        assert!(error < 1e-4, "{group:?}: {error:e}");
    }
}

#[test]
fn gradients_agree_with_finite_differences_when_candidates_are_drawn() {
    let drawn = || {
        let (mut random, ground) = (Random::new(2), ground().1);
        Batch { choices: ground.choose(&PATHS, (5, 2), &mut random), ..batch(&ALL) }
    };
    assert!(matches!(&drawn().choices[0], Choice::Drawn { rows, .. } if rows.len() < 9), "{:?}", drawn().choices);
    for group in [Group::Projection, Group::Offset, Group::Features, Group::UpMatrix(0), Group::DownGate(1)] {
        let error = error_of(group, &terms(), drawn);
        assert!(error < 1e-4, "{group:?}: {error:e}");
    }
}

#[test]
fn switched_off_parts_have_no_gradient_and_the_others_a_right_one() {
    let off = Switches { message_passing: false, structure: false, ..Switches::default() };
    let terms = Terms { switches: off, ..terms() };
    let parameters = parameters();
    let (_, gradient) = gradient_of(&parameters, &terms, || batch(&ALL));
    for level in 0..3 {
        for group in [Group::UpMatrix(level), Group::DownAttention(level), Group::UpGate(level)] {
            assert!(gradient[parameters.range(group)].iter().all(|value| *value == 0.0), "{group:?}");
        }
    }
    assert_eq!(gradient[parameters.range(Group::Features).start + 1], 0.0);
    for group in [Group::Projection, Group::Features, Group::Fusion, Group::Offset] {
        let error = error_of(group, &terms, || batch(&ALL));
        assert!(error < 1e-4, "{group:?}: {error:e}");
    }
}

/// The same trace, once as a success and once as a failure. With one example and without the yes-or-no term the gradients point exactly
/// apart; several terms are scaled differently, so their sums need not.
#[test]
fn flipping_the_outcome_flips_the_gradient() {
    const ONE_NODE: &[Node] = &[Capability(2)];
    for (path, calibration, most) in [(ONE_NODE, 0.0, -0.999_999), (ONE_NODE, 0.3, -0.5), (&PATHS[0][..1], 0.3, -0.5)] {
        let terms = Terms { calibration, ..terms() };
        let one = |succeeded| Batch { rows: vec![Row { path, succeeded, weight: 1.0 }], ..batch(&ALL[..1]) };
        let (_, success) = gradient_of(&parameters(), &terms, || one(true));
        let (_, failure) = gradient_of(&parameters(), &terms, || one(false));
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let cosine = dot(&success, &failure) / libm::sqrt(dot(&success, &success) * dot(&failure, &failure));
        assert!(cosine < most, "{path:?}, calibration {calibration}: {cosine}");
    }
}

/// A tool of a path asks for the capabilities that contain it, of all levels, but does not name them.
#[test]
fn tools_ask_for_the_capabilities_that_contain_them() {
    let (_, ground) = ground();
    let asked = ground.asked(1, &[Tool(4), Capability(1), Tool(8)], &Choice::All);
    assert_eq!((&asked.targets[..], &asked.named[..]), (&[vec![1, 2], vec![3, 4]][..], &[1, 2][..]));
    let drawn = Choice::Drawn { rows: vec![1, 2, 4], corrections: vec![0.0; 3] };
    assert_eq!(ground.asked(1, &[Tool(4)], &drawn).targets, [vec![2]]);
}

#[test]
fn capabilities_with_the_same_tools_are_one_target() {
    let (graph, ground) = ground();
    // Capability 3 is {2, 4} and capability 0, so 0, 1, 2 and 4; no other has just these.
    assert_eq!(tools_below(&graph)[3], [0, 1, 2, 4]);
    assert_eq!(ground.targets(1, &[Capability(1), Tool(0), Capability(3), Capability(5)]), [vec![1, 2], vec![3], vec![5]]);
    let (first, second) = (Row { path: &[Capability(1)], succeeded: true, weight: 1.0 }, &[Capability(2)]);
    let loss =
        |row: Row<'static>| gradient_of(&parameters(), &terms(), || Batch { rows: vec![row.clone()], ..batch(&ALL[..1]) });
    assert_eq!(loss(first.clone()), loss(Row { path: second, ..first }));
}

/// The sum over drawn candidates, each divided by the chance of being drawn, is that over all, in the mean.
#[test]
fn drawn_candidates_stand_for_all() {
    let mut random = Random::new(40);
    let logits: Vec<f64> = (0..400).map(|_| f64::from(random.normal())).collect();
    let all: f64 = logits.iter().map(|logit| libm::exp(*logit)).sum();
    let mut mean = 0.0;
    for _ in 0..400 {
        let Choice::Drawn { rows, corrections } = draw(400, [3, 77, 200].into(), 40, &mut random) else { panic!("not drawn") };
        assert!(rows.len() == 43 && rows.is_sorted() && corrections[rows.binary_search(&77).unwrap()] == 0.0);
        let terms = rows.iter().zip(&corrections).map(|(row, correction)| libm::exp(logits[*row as usize] + correction));
        mean += terms.sum::<f64>() / 400.0;
    }
    assert!((mean / all - 1.0).abs() < 0.02, "{mean} {all}");
}
