use super::*;
use crate::random::Random;
use crate::shgat::batch::Ground;
use crate::shgat::hypergraph::Node::{Capability, Tool};
use crate::shgat::logits::Queries;
use crate::shgat::parameters::Shape;
use crate::shgat::sample::{Sample, Sizes};

fn trained(levels: usize) -> Parameters {
    let mut parameters = Parameters::new(Shape::new(48, 4), levels);
    let mut random = Random::new(6);
    parameters.values.iter_mut().for_each(|value| *value += 0.1 * random.normal());
    parameters
}

fn sample() -> (Sample, Parameters, Array2<f32>) {
    let sample = Sample::new(Sizes { tools: 60, capabilities: 25, members: 4, dim: 48 }, 2);
    let parameters = trained(sample.graph.level_count());
    let intents = sample.traces(6, 1).0;
    (sample, parameters, intents)
}

fn scorer(sample: &Sample, parameters: &Parameters, switches: Switches) -> Scorer {
    let enriched = if switches.message_passing {
        Enriched::new(&sample.graph, &sample.vectors, parameters, 1)
    } else {
        Enriched::unchanged(&sample.vectors)
    };
    Scorer::new(&sample.graph, &enriched, &sample.features, parameters, switches)
}

/// Golden: what training computes for an intent and a node is what serving answers, for every switch.
#[test]
fn the_logit_of_training_is_the_score_of_serving() {
    let (sample, parameters, intents) = sample();
    let all = Switches::default();
    for switches in [
        all,
        Switches { message_passing: false, ..all },
        Switches { semantic: false, ..all },
        Switches { structure: false, ..all },
        Switches { temporal: false, ..all },
    ] {
        let ground = Ground::new(&sample.graph, sample.vectors.clone(), &sample.features);
        let weights = ScoreWeights::new(&parameters, switches);
        let candidates = ground.candidates(&ground.enrich(&parameters, switches, 1, None));
        let queries = Queries::new(intents.clone(), &weights, 1);
        let logits = candidates.map(|candidates| candidates.logits(&queries, &weights, 1).values);
        let scorer = scorer(&sample, &parameters, switches);
        for (row, intent) in intents.rows().into_iter().enumerate() {
            let intent = intent.to_slice().unwrap();
            let served = [scorer.tool_scores(intent), scorer.capability_scores(intent)];
            for (logits, served) in logits.iter().zip(&served) {
                assert_eq!(served.len(), logits.ncols());
                for (logit, served) in logits.row(row).iter().zip(served) {
                    let expected = (logit + weights.offset).sigmoid();
                    assert!((expected - served).abs() < 1e-5, "{switches:?}: {expected} {served}");
                }
            }
        }
    }
}

#[test]
fn rankings_hold_all_nodes_of_their_level_in_order() {
    let (sample, parameters, intents) = sample();
    let scorer = scorer(&sample, &parameters, Switches::default());
    let intent = intents.row(0).to_slice().unwrap().to_vec();
    let (tools, by_row) = (scorer.score_all_tools(&intent), scorer.tool_scores(&intent));
    assert!(tools.is_sorted_by(|a, b| a.score >= b.score) && tools.len() == 60);
    for scored in &tools {
        let Tool(row) = scored.node else { panic!("a capability among tools") };
        assert_eq!((scored.score, scored.level), (by_row[row], sample.graph.tool_level(row)));
        let logit = scored.heads.iter().sum::<f32>() + scorer.weights.offset;
        assert!((logit.sigmoid() - scored.score).abs() < 1e-5, "the parts make the score");
    }
    let all = scorer.score_all_capabilities(&intent);
    let levels = sample.graph.level_count();
    assert!(levels > 1 && all.len() == 25);
    let by_level: Vec<Vec<Scored>> = (0..levels).map(|level| scorer.score_meta_capabilities(&intent, level)).collect();
    assert_eq!(by_level.iter().map(Vec::len).sum::<usize>(), 25);
    assert_eq!(scorer.score_leaf_capabilities(&intent), by_level[0]);
    assert!(scorer.score_meta_capabilities(&intent, levels).is_empty());
    for (level, top) in scorer.top_by_level(&intent, 2) {
        assert_eq!(top, by_level[level][..by_level[level].len().min(2)]);
    }
    assert!(scorer.has(Capability(24)) && !scorer.has(Capability(25)) && !scorer.has(Tool(60)));
}

#[test]
fn the_best_few_are_the_first_of_all() {
    let (sample, parameters, intents) = sample();
    let scorer = scorer(&sample, &parameters, Switches::default());
    let intent = intents.row(2).to_slice().unwrap();
    let all = scorer.score_all_tools(intent);
    for count in [0, 1, 7, 59, 60, 100] {
        assert_eq!(scorer.score_top_tools(intent, count), all[..count.min(60)]);
    }
    // Equal logits: by semantic part, then by row; the cut does not divide them.
    let (rows, logits, semantic) = ([0, 1, 2, 3, 4], [0.5, 1.0, 0.5, 0.5, -2.0], [0.1, 0.0, 0.4, 0.1, 0.0]);
    for (count, expected) in [(0, 0), (1, 1), (2, 4), (3, 4), (4, 4), (5, 5)] {
        assert_eq!(best(&rows, &logits, count, |row| semantic[row]), [1, 2, 0, 3, 4][..expected]);
    }
}

#[test]
fn the_success_of_a_path_weighs_later_nodes_more() {
    assert!((path_success([0.2, 0.8].into_iter()) - 0.56).abs() < 1e-6);
    assert_eq!(path_success(std::iter::empty()), 0.5);
    let (sample, parameters, intents) = sample();
    let scorer = scorer(&sample, &parameters, Switches::default());
    let intent = intents.row(3).to_slice().unwrap();
    assert_eq!(scorer.predict_path_success(intent, &[]), 0.5);
    assert_eq!(scorer.predict_path_success(intent, &[Tool(99)]), 0.5);
    let (tools, capabilities) = (scorer.tool_scores(intent), scorer.capability_scores(intent));
    let expected = (tools[4] + 1.5 * 0.5 + 2.0 * capabilities[7]) / 4.5;
    assert!((scorer.predict_path_success(intent, &[Tool(4), Capability(99), Capability(7)]) - expected).abs() < 1e-6);
}

#[test]
fn target_mass_is_the_chance_that_the_target_contains_a_tool() {
    let (sample, parameters, intents) = sample();
    let scorer = scorer(&sample, &parameters, Switches::default());
    let mass = scorer.target_mass(&scorer.target_shares(intents.row(0).to_slice().unwrap()));
    assert!(mass.iter().all(|mass| (0.0..=1.0 + 1e-5).contains(mass)));
    let alone = (0..60).find(|tool| sample.graph.parents(Tool(*tool)).is_empty()).unwrap();
    assert_eq!(mass[alone], 0.0);
}

#[test]
fn a_tool_without_a_vector_is_scored_by_the_other_heads() {
    let (mut sample, parameters, intents) = sample();
    sample.vectors.tools.row_mut(0).fill(0.0);
    let scorer = scorer(&sample, &parameters, Switches { message_passing: false, ..Switches::default() });
    let tools = scorer.score_all_tools(intents.row(0).to_slice().unwrap());
    let first = tools.iter().find(|scored| scored.node == Tool(0)).unwrap();
    assert!(first.heads[0] == 0.0 && first.score.is_finite());
}
