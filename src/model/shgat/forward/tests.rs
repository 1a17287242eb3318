use super::*;
use crate::random::Random;
use crate::shgat::hypergraph::Node::{Capability, Tool};
use crate::shgat::hypergraph::{HypergraphError, Node};
use crate::shgat::parameters::Shape;
use crate::shgat::sample::{Sample, Sizes};

/// Parameters as if trained: every value away from its start.
fn trained(shape: Shape, levels: usize, seed: u64) -> Parameters {
    let mut parameters = Parameters::new(shape, levels);
    let mut random = Random::new(seed);
    parameters.values.iter_mut().for_each(|value| *value += 0.2 * random.normal());
    parameters
}

fn push_row(matrix: &mut Array2<f32>, random: &mut Random) {
    let row: Vec<f32> = (0..matrix.ncols()).map(|_| random.normal()).collect();
    matrix.push_row(ndarray::ArrayView1::from(&row)).unwrap();
}

fn random_members(graph: &Hypergraph, random: &mut Random) -> Vec<Node> {
    let node = |random: &mut Random| {
        if random.below(3) == 0 && graph.capabilities() > 0 {
            Capability(random.below(graph.capabilities()))
        } else {
            Tool(random.below(graph.tools()))
        }
    };
    (0..random.below(5)).map(|_| node(random)).collect()
}

/// Makes one random change and says what it changed.
fn change(sample: &mut Sample, random: &mut Random) -> Changes {
    let Sample { graph, vectors, .. } = sample;
    let mut changes = Changes::default();
    match random.below(5) {
        0 => {
            push_row(&mut vectors.tools, random);
            changes = graph.add_tool().1;
        }
        1 => {
            push_row(&mut vectors.capabilities, random);
            changes = graph.add_capability(&random_members(graph, random)).unwrap().1;
        }
        2 => {
            let tool = random.below(graph.tools());
            vectors.tools.row_mut(tool).map_inplace(|value| *value += 0.1);
            changes.tools.insert(tool);
        }
        3 => {
            let capability = random.below(graph.capabilities());
            vectors.capabilities.row_mut(capability).map_inplace(|value| *value -= 0.1);
            changes.capabilities.insert(capability);
        }
        _ => match graph.set_members(random.below(graph.capabilities()), &random_members(graph, random)) {
            Ok(of_members) => changes = of_members,
            Err(HypergraphError::Cycle { .. }) => {}
            Err(other) => panic!("{other}"),
        },
    }
    changes
}

/// Property: whatever changes, and however many changes are taken together, the recomputed part has the bits of a full computation.
#[test]
fn a_recomputed_neighbourhood_has_the_bits_of_a_full_pass() {
    let mut random = Random::new(21);
    for round in 0..30 {
        let mut sample = Sample::new(Sizes { tools: 30, capabilities: 12, members: 3, dim: 24 }, round);
        let shape = Shape::new(24, 4);
        let mut parameters = trained(shape, sample.graph.level_count(), round);
        let mut enriched = Enriched::new(&sample.graph, &sample.vectors, &parameters, 1);
        for _ in 0..12 {
            let mut changes = change(&mut sample, &mut random);
            for _ in 0..random.below(3) {
                changes.merge(change(&mut sample, &mut random));
            }
            parameters.grow(sample.graph.level_count());
            enriched.refresh(&sample.graph, &sample.vectors, &parameters, &changes, 1);
            assert_eq!(enriched, Enriched::new(&sample.graph, &sample.vectors, &parameters, 1), "round {round}");
        }
    }
}

#[test]
fn a_small_change_leaves_what_it_does_not_reach() {
    let mut graph = Hypergraph::new(6);
    graph.add_capability(&[Tool(0), Tool(1)]).unwrap();
    graph.add_capability(&[Tool(2), Tool(3)]).unwrap();
    graph.add_capability(&[Capability(1), Tool(4)]).unwrap();
    let changes = Changes { capabilities: [1].into(), ..Changes::default() };
    let plan = Plan::around(&graph, &changes);
    assert_eq!((&plan.up_rows[..], &plan.capability_rows[..], &plan.tool_rows[..]), (&[1, 2][..], &[1, 2][..], &[2, 3, 4][..]));
}

#[test]
fn two_threads_give_the_bits_of_one() {
    let sample = Sample::new(Sizes { tools: 600, capabilities: 120, members: 8, dim: 128 }, 4);
    let parameters = trained(Shape::new(128, 4), sample.graph.level_count(), 4);
    let of = |threads| Enriched::new(&sample.graph, &sample.vectors, &parameters, threads);
    assert_eq!(of(1), of(2));
}

/// The equations of the module, written out for one capability of two tools inside another, with one head of two dimensions.
#[test]
fn a_small_hypergraph_is_enriched_as_the_equations_say() {
    let mut graph = Hypergraph::new(2);
    graph.add_capability(&[Tool(0), Tool(1)]).unwrap();
    graph.add_capability(&[Capability(0), Tool(1)]).unwrap();
    let vectors =
        Vectors { tools: ndarray::array![[1.0_f64, 0.0], [-0.5, 0.8]], capabilities: ndarray::array![[0.6, -0.3], [0.2, 0.9]] };
    let parameters = trained(Shape::new(2, 1), 2, 8).to_f64();
    let enriched = forward(&Plan::full(&graph), &vectors, &parameters, 1, None);

    let weights = parameters.weights();
    let project = |row: [f64; 2], matrix: &Array2<f64>| -> [f64; 2] {
        std::array::from_fn(|column| row[0] * matrix[[0, column]] + row[1] * matrix[[1, column]])
    };
    let leaky = |value: f64| if value > 0.0 { value } else { 0.2 * value };
    let message = |rows: &[[f64; 2]], attention: &[f64]| -> [f64; 2] {
        let grown: Vec<f64> = rows.iter().map(|z| libm::exp(attention[0] * leaky(z[0]) + attention[1] * leaky(z[1]))).collect();
        let total: f64 = grown.iter().sum();
        std::array::from_fn(|at| {
            let sum: f64 = rows.iter().zip(&grown).map(|(z, grown)| grown / total * z[at]).sum();
            if sum > 0.0 { sum } else { libm::exp(sum) - 1.0 }
        })
    };
    let row = |matrix: &Array2<f64>, row: usize| [matrix[[row, 0]], matrix[[row, 1]]];
    let [first, second] = [0, 1].map(|tool| row(&vectors.tools, tool));
    let levels = &weights.levels;
    let keep = |own: [f64; 2], message: [f64; 2], gate: f64| -> [f64; 2] {
        std::array::from_fn(|at| (1.0 - gate) * message[at] + gate * own[at])
    };
    let lower = message(&[first, second].map(|x| project(x, &levels[0].up)), &levels[0].up_attention);
    let lower = keep(row(&vectors.capabilities, 0), lower, levels[0].up_gate.open(2));
    let upper = message(&[second, lower].map(|x| project(x, &levels[1].up)), &levels[1].up_attention);
    let upper = keep(row(&vectors.capabilities, 1), upper, levels[1].up_gate.open(2));
    let add =
        |own: [f64; 2], message: [f64; 2], gate: f64| -> [f64; 2] { std::array::from_fn(|at| own[at] + gate * message[at]) };
    let from_upper = project(upper, &levels[1].down);
    let lower_final = add(lower, message(&[from_upper], &levels[1].down_attention), levels[0].down_gate.open(1));
    let from_lower = project(lower_final, &levels[0].down);
    let only_lower = message(&[from_lower], &levels[0].down_attention);
    let first_final = add(first, only_lower, weights.tool_gate.open(1));

    let close = |got: [f64; 2], expected: [f64; 2]| (0..2).all(|at| (got[at] - expected[at]).abs() < 1e-12);
    assert!(close(row(&enriched.capabilities, 1), upper), "{enriched:?} {upper:?}");
    assert!(close(row(&enriched.capabilities, 0), lower_final), "{enriched:?} {lower_final:?}");
    assert!(close(row(&enriched.tools, 0), first_final), "{enriched:?} {first_final:?}");
}

#[test]
fn an_untrained_network_stays_near_the_vectors() {
    let sample = Sample::new(Sizes { tools: 50, capabilities: 10, members: 4, dim: 32 }, 9);
    let parameters = Parameters::new(Shape::new(32, 4), sample.graph.level_count());
    let enriched = Enriched::new(&sample.graph, &sample.vectors, &parameters, 1);
    for (own, enriched) in sample.vectors.capabilities.rows().into_iter().zip(enriched.capabilities.rows()) {
        let cosine = own.dot(&enriched) / libm::sqrtf(own.dot(&own) * enriched.dot(&enriched));
        assert!(cosine > 0.95, "{cosine}");
    }
    // A capability without members and a tool that no capability contains keep their vectors.
    let mut graph = Hypergraph::new(1);
    graph.add_capability(&[]).unwrap();
    let vectors = Vectors { tools: ndarray::array![[0.5, 0.5]], capabilities: ndarray::array![[0.1, -0.7]] };
    let enriched = Enriched::new(&graph, &vectors, &trained(Shape::new(2, 1), 1, 1), 1);
    assert_eq!((enriched.tools, enriched.capabilities), (vectors.tools, vectors.capabilities));
}
