//! Prioritised replay: traces whose outcome surprised the network are drawn more often, and weigh less when they are.
//!
//! The priority of a trace is how far its outcome was from what the network predicted, between 0.01 and 1; 0.5 if it was never asked.
//! A trace is drawn with `P(i)` in proportion to `priority^0.6` and weighs `(N P(i))^-beta`, divided by the largest such weight. The lower
//! end keeps every trace in reach.

use std::collections::BTreeMap;

use crate::random::Random;

const LOWEST: f32 = 0.01;
const HIGHEST: f32 = 1.0;
const UNKNOWN: f32 = 0.5;
/// How much priorities matter: 0 draws all traces alike, 1 in proportion to their priority.
const SHARPNESS: f64 = 0.6;
/// How much of the unevenness the weights undo, at the first and at the last epoch.
const BETA: (f64, f64) = (0.4, 1.0);

/// `Priorities` holds the priority of every trace that the network was asked about, by a stable number of the trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Priorities(BTreeMap<u128, f32>);

/// One drawn trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// Its place in the list that was drawn from.
    pub index: usize,
    /// What its loss is multiplied by, at most 1.
    pub weight: f32,
}

impl Priorities {
    /// The priority of a trace.
    pub fn get(&self, trace: u128) -> f32 {
        self.0.get(&trace).copied().unwrap_or(UNKNOWN)
    }

    /// Sets the priority of a trace from its outcome and the prediction of its success.
    pub fn refresh(&mut self, trace: u128, succeeded: bool, predicted: f32) {
        let outcome = if succeeded { 1.0 } else { 0.0 };
        let surprise = (outcome - predicted).abs();
        let priority = if surprise.is_finite() { surprise.clamp(LOWEST, HIGHEST) } else { UNKNOWN };
        self.0.insert(trace, priority);
    }

    /// Forgets all traces but these.
    pub fn retain(&mut self, keep: impl Fn(u128) -> bool) {
        self.0.retain(|trace, _| keep(*trace));
    }

    /// The traces with their priorities, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u128, f32)> {
        self.0.iter().map(|(trace, priority)| (*trace, *priority))
    }

    /// How much the weights undo after `done` of the training, from 0 to 1.
    pub fn beta(done: f64) -> f64 {
        BETA.0 + (BETA.1 - BETA.0) * done.clamp(0.0, 1.0)
    }

    /// Draws `count` of the traces, with replacement. The draws lie at equal distances along the summed chances, from a random start: a
    /// trace whose expected number of draws is n is drawn n times, rounded up or down.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "fewer than 2^52 traces; weights are rounded"
    )]
    pub fn draw(&self, traces: &[u128], count: usize, beta: f64, random: &mut Random) -> Vec<Draw> {
        let chances: Vec<f64> = traces.iter().map(|trace| libm::pow(f64::from(self.get(*trace)), SHARPNESS)).collect();
        let total: f64 = chances.iter().sum();
        let weight = |chance: f64| libm::pow(traces.len() as f64 * chance / total, -beta);
        let largest = chances.iter().copied().fold(f64::INFINITY, f64::min);
        let mut drawn = Vec::with_capacity(count);
        let (mut index, mut passed) = (0, chances.first().copied().unwrap_or(0.0));
        let start = f64::from(random.uniform());
        for draw in 0..if traces.is_empty() { 0 } else { count } {
            let at = (draw as f64 + start) / count as f64 * total;
            while passed <= at && index + 1 < chances.len() {
                index += 1;
                passed += chances[index];
            }
            drawn.push(Draw { index, weight: (weight(chances[index]) / weight(largest)) as f32 });
        }
        drawn
    }
}

impl FromIterator<(u128, f32)> for Priorities {
    /// Priorities that were kept. One that is not a number is forgotten.
    fn from_iter<T: IntoIterator<Item = (u128, f32)>>(kept: T) -> Self {
        let known = kept.into_iter().filter(|(_, priority)| priority.is_finite());
        Self(known.map(|(trace, priority)| (trace, priority.clamp(LOWEST, HIGHEST))).collect())
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "exact values are expected")]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_surprises_within_limits() {
        let mut priorities = Priorities::default();
        assert_eq!(priorities.get(9), 0.5);
        for (succeeded, predicted, priority) in
            [(true, 0.3, 0.7), (false, 0.3, 0.3), (true, 0.999, 0.01), (false, 1.5, 1.0), (true, f32::NAN, 0.5)]
        {
            priorities.refresh(9, succeeded, predicted);
            assert!((priorities.get(9) - priority).abs() < 1e-6, "{succeeded} {predicted}");
        }
        assert_eq!(priorities.iter().collect::<Priorities>(), priorities);
    }

    #[test]
    fn draws_follow_the_chances_and_weights_undo_them() {
        let priorities: Priorities = [(1, 1.0), (2, 0.01), (3, 0.2)].into_iter().collect();
        let traces = [1, 2, 3, 4];
        let mut random = Random::new(3);
        let mut times = [0_u32; 4];
        let mut weights = [0.0; 4];
        for draw in (0..500).flat_map(|_| priorities.draw(&traces, 40, 0.4, &mut random)) {
            times[draw.index] += 1;
            weights[draw.index] = draw.weight;
        }
        let powers = traces.map(|trace| libm::powf(priorities.get(trace), 0.6));
        let total: f32 = powers.iter().sum();
        for index in 0..4 {
            let expected = 20_000.0 * powers[index] / total;
            assert!((f64::from(times[index]) - f64::from(expected)).abs() < 200.0, "{times:?}");
            let weight = libm::powf(powers[index] / powers[1], -0.4);
            assert!((weights[index] - weight).abs() < 1e-4, "{weights:?}");
        }
        assert!(times[1] > 0, "nothing starves");
    }

    #[test]
    fn equal_priorities_draw_every_trace_once() {
        let traces: Vec<u128> = (0..17).collect();
        let drawn = Priorities::default().draw(&traces, 17, 1.0, &mut Random::new(1));
        assert_eq!(drawn.iter().map(|draw| draw.index).collect::<Vec<_>>(), (0..17).collect::<Vec<_>>());
        assert!(drawn.iter().all(|draw| draw.weight == 1.0));
        assert!(Priorities::default().draw(&[], 5, 1.0, &mut Random::new(1)).is_empty());
        assert_eq!((Priorities::beta(0.0), Priorities::beta(1.0)), (0.4, 1.0));
    }
}
