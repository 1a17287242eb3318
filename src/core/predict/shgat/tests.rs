use pml_model::random::Random;
use pml_model::shgat::sample::{Sample, Sizes};
use pml_model::shgat::{Node as Row, Part, Shape, Trace, path_successes};

use super::bytes::rounded;
use super::*;
use crate::given::History;
use crate::train::tool_rows;

const DIM: usize = 12;

fn model() -> (ShgatModel, Array2<f32>) {
    let Sample { graph, mut vectors, mut features } =
        Sample::new(Sizes { tools: 30, capabilities: 40, members: 3, dim: DIM }, 7);
    vectors.capabilities.mapv_inplace(rounded);
    for tool in &mut features.tools {
        (tool.page_rank, tool.adamic_adar) = (rounded(tool.page_rank), rounded(tool.adamic_adar));
        (tool.cooccurrence, tool.recency) = (rounded(tool.cooccurrence), rounded(tool.recency));
    }
    for capability in &mut features.capabilities {
        capability.hypergraph_page_rank = rounded(capability.hypergraph_page_rank);
        capability.adamic_adar = rounded(capability.adamic_adar);
        (capability.recency, capability.heat) = (rounded(capability.recency), rounded(capability.heat));
    }
    let tools = vectors.tools.clone();
    let positions = (0..40).map(|position| vec![position, position + 100]).collect();
    let graph = CapabilityGraph { graph, vectors, features, positions };
    let parameters = Parameters::new(Shape::new(DIM, 4), graph.graph.level_count());
    let switches = Switches { temporal: false, ..Switches::default() };
    let priorities = [(7, rounded(0.3)), (u128::from(u64::MAX), 1.0)].into_iter().collect();
    (ShgatModel { parameters, switches, graph, priorities }, tools)
}

fn intent(seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..DIM).map(|_| f32::from(u16::try_from(random.below(1000)).unwrap()) / 500.0 - 1.0).collect()
}

#[test]
fn bytes_convert_back_to_the_same_scores_and_damage_is_noticed() {
    let (model, tools) = model();
    let bytes = model.to_bytes();
    let again = ShgatModel::from_bytes(&bytes).unwrap();
    assert_eq!(again.to_bytes(), bytes);
    assert_eq!(again.priorities, model.priorities);
    let (before, after) = (scorer(&model.graph, &model.parameters, model.switches), again.scorer(&tools));
    for seed in 0..5 {
        let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        assert_eq!(bits(before.tool_scores(&intent(seed))), bits(after.tool_scores(&intent(seed))));
        assert_eq!(bits(before.target_shares(&intent(seed))), bits(after.target_shares(&intent(seed))));
    }
    for length in (0..bytes.len()).step_by(97) {
        assert!(ShgatModel::from_bytes(&bytes[..length]).is_none(), "cut at {length}");
    }
}

/// The bytes of a model in an earlier layout, from those of today's.
fn in_layout(format: u8, model: &ShgatModel) -> Vec<u8> {
    let CapabilityGraph { graph, features, .. } = &model.graph;
    let mut bytes = model.to_bytes();
    let traces = 4 + model.priorities.iter().count() * 10;
    if format < 2 {
        bytes.truncate(bytes.len() - traces);
    }
    // From the back, so that the places before stay: by capability its vector, then the features.
    let mut at = model.to_bytes().len() - traces;
    for row in (0..graph.capabilities()).rev() {
        at -= 2 * DIM + 8;
        bytes.drain(at + 6..at + 8);
        bytes.drain(at + 2..at + 4);
        let lists = [model.graph.positions[row].len(), graph.member_tools(row).len(), graph.member_capabilities(row).len()];
        at -= lists.iter().map(|length| 4 + 4 * length).sum::<usize>();
    }
    at -= 4;
    for _ in &features.tools {
        at -= 8;
        bytes.drain(at + 2..at + 4);
    }
    bytes[0] = format;
    bytes
}

#[test]
fn earlier_layouts_are_still_read() {
    let (model, _) = model();
    let layout_2 = ShgatModel::from_bytes(&in_layout(2, &model)).unwrap();
    assert_eq!((&layout_2.priorities, &layout_2.graph.positions), (&model.priorities, &model.graph.positions));
    assert_eq!(layout_2.graph.vectors.capabilities, model.graph.vectors.capabilities);
    let (tool, was) = (layout_2.graph.features.tools[7], model.graph.features.tools[7]);
    assert_eq!(tool, pml_model::shgat::ToolFeatures { adamic_adar: 0.0, ..was });
    let (capability, was) = (layout_2.graph.features.capabilities[7], model.graph.features.capabilities[7]);
    assert_eq!(capability, pml_model::shgat::CapabilityFeatures { adamic_adar: 0.0, heat: 0.0, ..was });
    let layout_1 = ShgatModel::from_bytes(&in_layout(1, &model)).unwrap();
    assert_eq!((layout_1.priorities, layout_1.graph.features), (Priorities::default(), layout_2.graph.features));
    assert!(ShgatModel::from_bytes(&in_layout(4, &model)).is_none());
}

/// ALGORITHMS 9: what training predicts for a path is what is served for it.
#[test]
fn training_and_serving_score_alike() {
    let (model, tools) = model();
    let served = ShgatModel::from_bytes(&model.to_bytes()).unwrap().scorer(&tools);
    let intents = Array2::from_shape_vec((5, DIM), (0..5).flat_map(intent).collect()).unwrap();
    let paths = [vec![Row::Tool(3)], vec![Row::Capability(7)], vec![Row::Tool(1), Row::Tool(29), Row::Capability(39)]];
    let path = |intent: usize| paths[intent % paths.len()].clone();
    let traces: Vec<Trace> =
        (0..5).map(|intent| Trace { id: intent as u128, intent, path: path(intent), succeeded: true }).collect();
    let CapabilityGraph { graph, vectors, features, .. } = &model.graph;
    let part = Part { graph, vectors, features, intents: &intents, traces: &traces };
    let predicted = path_successes(&part, &model.parameters, model.switches, 1);
    for (trace, predicted) in traces.iter().zip(predicted) {
        let intent = intents.row(trace.intent).to_vec();
        assert!((served.predict_path_success(&intent, &trace.path) - predicted).abs() < 1e-4);
    }
}

#[test]
fn a_tool_registered_after_the_training_is_scored_by_its_text() {
    let (model, tools) = model();
    let new = intent(1);
    let mut more = tools.clone();
    more.push_row(ndarray::aview1(&new)).unwrap();
    let rows = OfferedRows { aims: vec![None; 40], counted_in: (0..40).map(Some).collect() };
    let scores = TargetScores::new(&model.scorer(&more), &rows, &new);
    assert_eq!((scores.tools.len(), scores.mass.len()), (31, 31));
    let before = TargetScores::new(&model.scorer(&tools), &rows, &new);
    assert_eq!(scores.tools[..30], before.tools[..]);
    assert!(scores.mass[30] < scores.mass[..30].iter().copied().fold(f32::MIN, f32::max), "no capability contains it");
}

#[test]
fn people_decide_which_capabilities_are_targets_also_of_a_network_that_was_trained_before() {
    let mut history = History::new(
        "run ok alpha: a:a, b:b < a:a
         run ok beta: c:c, d:d < c:c
         run ok gamma: e:e, f:f < e:e",
    );
    history.embed(|text| match text {
        "alpha" => vec![1.0, 0.0, 0.0],
        "beta" => vec![0.0, 1.0, 0.0],
        "gamma" => vec![0.0, 0.0, 1.0],
        _ => vec![0.5, 0.5, 0.5],
    });
    let tools = tool_rows(&history.state);
    let graph = CapabilityGraph::new(&history.state, &tools, &|_| true).unwrap();
    let parameters = Parameters::new(Shape::new(3, 1), graph.graph.level_count());
    let scorer = scorer(&graph, &parameters, Switches::default());
    let ask = |history: &History| {
        let targets = TargetScores::new(&scorer, &OfferedRows::new(&history.state, &graph.positions), &[1.0, 0.2, 0.1]);
        let aims: Vec<(Node, f32)> = targets.aims;
        (aims, targets.mass[history.node("a:a").to_bits() as usize])
    };
    let share = |aims: &[(Node, f32)], position: u32| {
        let own = aims.iter().filter(|(node, _)| *node == Node::capability(position));
        own.map(|(_, share)| *share).collect::<Vec<_>>()
    };
    let (before, mass) = ask(&history);
    assert_eq!(before[0].0, Node::capability(0));
    history.line("retire 0");
    let (retired, mass_retired) = ask(&history);
    assert!(share(&retired, 0).is_empty() && mass_retired < mass, "{retired:?}");
    assert!((retired.iter().map(|(_, share)| share).sum::<f32>() - 1.0).abs() < 1e-5, "{retired:?}");
    history.line("restore 0");
    history.line("merge 0 2");
    let (merged, _) = ask(&history);
    let [both] = share(&merged, 2)[..] else { panic!("{merged:?}") };
    assert!((both - share(&before, 0)[0] - share(&before, 2)[0]).abs() < 1e-6 && share(&merged, 0).is_empty(), "{merged:?}");
    // The next training counts the intents of the merged one for the other, which answers for both.
    let trained = CapabilityGraph::new(&history.state, &tools, &|_| true).unwrap();
    let row = trained.positions.iter().position(|positions| *positions == [2, 0]).unwrap();
    let vector: Vec<f32> = trained.vectors.capabilities.row(row).to_vec();
    assert!(vector[0] > 0.7 && vector[2] > 0.7 && vector[1] == 0.0, "{vector:?}");
    history.line("split 0");
    assert_eq!(ask(&history), (before, mass));
}
