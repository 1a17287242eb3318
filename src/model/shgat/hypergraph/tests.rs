use super::Node::{Capability, Tool};
use super::*;
use crate::random::Random;

fn levels(graph: &Hypergraph) -> Vec<usize> {
    (0..graph.capabilities()).map(|capability| graph.level(capability)).collect()
}

#[test]
fn levels_follow_the_deepest_member() {
    let mut graph = Hypergraph::new(3);
    graph.add_capability(&[Tool(0), Tool(1)]).unwrap();
    graph.add_capability(&[Capability(0)]).unwrap();
    // A mixed capability: a tool, a level 0 and a level 1 capability.
    graph.add_capability(&[Tool(2), Capability(0), Capability(1)]).unwrap();
    graph.add_capability(&[]).unwrap();
    assert_eq!(levels(&graph), [0, 1, 2, 0]);
    assert_eq!(graph.members(2).collect::<Vec<_>>(), [Tool(2), Capability(0), Capability(1)]);
    assert_eq!((graph.parents(Capability(0)), graph.parents(Tool(2))), (&[1, 2][..], &[2][..]));
    assert_eq!((graph.tool_level(2), graph.tool_level(0), graph.level_count()), (Some(2), Some(0), 3));
    assert_eq!(graph.at_level(0).collect::<Vec<_>>(), [0, 3]);
}

#[test]
fn a_cycle_is_refused_with_its_path() {
    let mut graph = Hypergraph::new(1);
    graph.add_capability(&[Tool(0)]).unwrap();
    graph.add_capability(&[Capability(0)]).unwrap();
    graph.add_capability(&[Capability(1)]).unwrap();
    let before = graph.clone();
    let refused = graph.set_members(0, &[Tool(0), Capability(2)]).unwrap_err();
    assert_eq!(refused, HypergraphError::Cycle { path: vec![0, 2, 1, 0] });
    assert_eq!(refused.to_string(), "capabilities contain each other: 0 -> 2 -> 1 -> 0");
    assert_eq!(graph.set_members(0, &[Capability(0)]), Err(HypergraphError::Cycle { path: vec![0, 0] }));
    assert_eq!(graph.add_capability(&[Tool(1)]).unwrap_err(), HypergraphError::Unknown(Tool(1)));
    assert_eq!(graph.set_members(3, &[]).unwrap_err(), HypergraphError::Unknown(Capability(3)));
    assert_eq!(graph, before);
}

#[test]
fn a_change_of_members_moves_what_contains_them() {
    let mut graph = Hypergraph::new(2);
    for members in [&[Tool(0)][..], &[Tool(1)], &[Capability(0)], &[Capability(2)]] {
        graph.add_capability(members).unwrap();
    }
    assert_eq!(levels(&graph), [0, 0, 1, 2]);
    let changes = graph.set_members(0, &[Tool(0), Capability(1)]).unwrap();
    assert_eq!(levels(&graph), [1, 0, 2, 3]);
    assert_eq!(changes.capabilities, BTreeSet::from([0, 2, 3]));
    assert_eq!(changes.children, BTreeSet::from([Capability(1)]));
    graph.set_members(2, &[]).unwrap();
    assert_eq!((levels(&graph), graph.level_count()), (vec![1, 0, 0, 1], 2));
}

/// Any sequence of changes leaves the structure that building it anew gives.
#[test]
fn changes_in_any_order_equal_building_anew() {
    let mut random = Random::new(11);
    for _ in 0..60 {
        let mut graph = Hypergraph::new(4);
        for _ in 0..40 {
            let capabilities = graph.capabilities();
            let drawn = random.below(5);
            let members: Vec<Node> = (0..drawn)
                .map(|_| match capabilities {
                    0 => Tool(random.below(graph.tools())),
                    _ if random.below(2) == 0 => Tool(random.below(graph.tools())),
                    _ => Capability(random.below(capabilities)),
                })
                .collect();
            match random.below(4) {
                0 => drop(graph.add_tool()),
                1 | 2 if capabilities > 0 => match graph.set_members(random.below(capabilities), &members) {
                    Ok(_) | Err(HypergraphError::Cycle { .. }) => {}
                    Err(other) => panic!("{other}"),
                },
                _ => drop(graph.add_capability(&members).unwrap()),
            }
        }
        let mut anew = Hypergraph::new(graph.tools());
        for _ in 0..graph.capabilities() {
            anew.add_capability(&[]).unwrap();
        }
        for capability in (0..graph.capabilities()).rev() {
            anew.set_members(capability, &graph.members(capability).collect::<Vec<_>>()).unwrap();
        }
        assert_eq!(graph, anew);
    }
}
