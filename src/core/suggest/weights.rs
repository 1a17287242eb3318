//! The fitted numbers of suggestions: how far each signal of a tool is trusted, how large sets are best, in which order tools run, which
//! feed each other, and how good a plan will be.

use super::probability::{TOOL_FEATURES, TOOL_NAMES, TOOL_PRIOR};
use super::quality::{QUALITY_FEATURES, QUALITY_NAMES, QUALITY_PRIOR};
use super::regression::Linear;
use super::wiring::{FLOW_NAMES, FlowModel, FlowRule, ORDER_FEATURES, ORDER_NAMES, ORDER_PRIOR};

/// Named numbers, as they are stored.
pub(crate) type NamedTable = Vec<(String, f64)>;

/// The fitted numbers. The priors until there are enough past intents.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanWeights {
    pub(super) tools: Linear<TOOL_FEATURES>,
    /// How many more right tools are expected than the probabilities say; larger sets if above 1.
    pub(super) caution: f64,
    pub(super) order: Linear<ORDER_FEATURES>,
    /// `None` until it was fitted.
    pub(super) flow: Option<FlowModel>,
    /// The expected F1 of a plan's tools, and of its data flow if that was fitted.
    pub(super) nodes: Linear<QUALITY_FEATURES>,
    pub(super) edges: Option<Linear<QUALITY_FEATURES>>,
    /// The similarity of the nearest past intent from which the examples speak for a question.
    pub(super) familiar: f64,
}

impl Default for PlanWeights {
    fn default() -> Self {
        Self {
            tools: TOOL_PRIOR,
            caution: 1.0,
            order: ORDER_PRIOR,
            flow: None,
            nodes: QUALITY_PRIOR,
            edges: None,
            familiar: 0.0,
        }
    }
}

impl PlanWeights {
    /// The expected F1 score of the tools of a plan with these features. The examples say nothing about questions that are less
    /// familiar than they are, so there the confidence falls with the familiarity.
    pub(super) fn confidence(&self, features: &[f64; QUALITY_FEATURES], familiarity: f64) -> f64 {
        let known = if familiarity < self.familiar { familiarity / self.familiar } else { 1.0 };
        (self.nodes.value(features).clamp(0.0, 1.0) * known).clamp(0.01, 0.99)
    }

    /// What candidates are chosen by: the expected F1 of the tools plus that of the data flow.
    pub(super) fn merit(&self, features: &[f64; QUALITY_FEATURES]) -> f64 {
        let edges = self.edges.map_or(0.0, |edges| edges.value(features).clamp(0.0, 1.0));
        self.nodes.value(features).clamp(0.0, 1.0) + edges
    }

    /// The weights as tables of named numbers, for storing.
    pub(crate) fn to_tables(self) -> Vec<NamedTable> {
        let mut rules = vec![("caution".to_owned(), self.caution), ("familiar".to_owned(), self.familiar)];
        if let Some(flow) = self.flow {
            rules.push(("keeps_copied_order".to_owned(), f64::from(u8::from(flow.keeps_copied_order))));
            rules.push(("keeps_beam_order".to_owned(), f64::from(u8::from(flow.keeps_beam_order))));
            rules.extend(match flow.rule {
                FlowRule::Above(least) => Some(("flow_least".to_owned(), least)),
                FlowRule::Chain => None,
            });
        }
        let flow = self.flow.map(|flow| table(FLOW_NAMES, flow.probability)).unwrap_or_default();
        let edges = self.edges.map(|edges| table(QUALITY_NAMES, edges)).unwrap_or_default();
        vec![
            table(TOOL_NAMES, self.tools),
            table(ORDER_NAMES, self.order),
            flow,
            table(QUALITY_NAMES, self.nodes),
            edges,
            rules,
        ]
    }

    /// Reads what [`Self::to_tables`] gave; `None` if there is a name that this program does not know.
    pub(crate) fn from_tables(tables: &[NamedTable]) -> Option<Self> {
        let [tools, order, flow, nodes, edges, rules] = tables else { return None };
        let rule = |name: &str| rules.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
        let flow = if flow.is_empty() {
            None
        } else {
            Some(FlowModel {
                probability: linear(FLOW_NAMES, flow)?,
                rule: rule("flow_least").map_or(FlowRule::Chain, FlowRule::Above),
                keeps_copied_order: rule("keeps_copied_order")? > 0.5,
                keeps_beam_order: rule("keeps_beam_order")? > 0.5,
            })
        };
        Some(Self {
            tools: linear(TOOL_NAMES, tools)?,
            caution: rule("caution")?,
            order: linear(ORDER_NAMES, order)?,
            flow,
            nodes: linear(QUALITY_NAMES, nodes)?,
            edges: if edges.is_empty() { None } else { Some(linear(QUALITY_NAMES, edges)?) },
            familiar: rule("familiar")?,
        })
    }
}

fn table<const N: usize>(names: [&str; N], weights: Linear<N>) -> NamedTable {
    names.iter().map(|name| (*name).to_owned()).zip(weights.0).collect()
}

fn linear<const N: usize>(names: [&str; N], table: &NamedTable) -> Option<Linear<N>> {
    let mut weights = Linear([0.0; N]);
    for (name, weight) in table {
        weights.0[names.iter().position(|known| known == name)?] = *weight;
    }
    Some(weights)
}

#[cfg(test)]
mod tests {
    use super::super::wiring::FLOW_PRIOR;
    use super::*;

    #[test]
    fn tables_convert_back_and_unknown_names_are_noticed() {
        let flow = FlowModel {
            probability: FLOW_PRIOR,
            rule: FlowRule::Above(0.4),
            keeps_copied_order: true,
            keeps_beam_order: false,
        };
        let fitted = PlanWeights { caution: 1.3, flow: Some(flow), edges: Some(QUALITY_PRIOR), ..PlanWeights::default() };
        let chain = PlanWeights { flow: Some(FlowModel { rule: FlowRule::Chain, ..flow }), ..fitted };
        for weights in [PlanWeights::default(), fitted, chain] {
            assert_eq!(PlanWeights::from_tables(&weights.to_tables()), Some(weights));
        }
        let mut tables = fitted.to_tables();
        tables[0][0].0 = "elsewhere".to_owned();
        assert_eq!(PlanWeights::from_tables(&tables), None);
        assert_eq!(PlanWeights::from_tables(&tables[1..]), None);
    }
}
