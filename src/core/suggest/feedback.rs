//! What users and agents said about suggested plans. A plan is named by its tools and the intent it was suggested for, so feedback says
//! what it is about without the suggestion having been recorded.
//!
//! Part of the fold. It moves the confidence of the same plan for the same intent, and a little for other intents.

use imbl::OrdMap;

use crate::digest::{DigestWriter, Digestible};
use crate::event::FeedbackVerdict;
use crate::hash::fnv1a;
use crate::id::{Callee, RecordId, Seq};

/// Plans remembered; the one judged longest ago goes first. Constant, because the fold depends on it.
pub const PLANS_KEPT: usize = 4_096;
/// What the confidence itself counts, in verdicts.
const CONFIDENCE: f64 = 2.0;
/// What a verdict about the same tools for another intent counts.
const OTHER_INTENT: f64 = 0.25;
/// The top bit of an id says how it is printed.
const TOOLS_MASK: u64 = u64::MAX >> 1;

/// The verdicts about one plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    pub accepted: u32,
    pub rejected: u32,
    /// The latest record with a verdict.
    pub seq: Seq,
}

/// The verdicts by plan. The first half of an id stands for the tools, the second for the intent.
#[derive(Clone, Debug, Default)]
pub struct PlanFeedback {
    plans: OrdMap<u128, Judged>,
}

/// The id of a plan with these tools, in any order, for an intent.
pub fn plan_id<'a>(intent: &str, tools: impl Iterator<Item = &'a Callee>) -> RecordId {
    let mut names: Vec<String> = tools.map(ToString::to_string).collect();
    names.sort_unstable();
    let tools = fnv1a(names.join("\n").as_bytes()) & TOOLS_MASK;
    RecordId::from_bits((u128::from(tools) << 64) | u128::from(fnv1a(intent.trim().as_bytes())))
}

impl PlanFeedback {
    /// Adds a verdict. `Ignored` changes nothing: what the agent does instead says more.
    pub fn observe(&mut self, plan: RecordId, verdict: FeedbackVerdict, seq: Seq) {
        let known = self.plans.get(&plan.to_bits()).copied();
        let mut judged = known.unwrap_or_default();
        match verdict {
            FeedbackVerdict::Accepted => judged.accepted = judged.accepted.saturating_add(1),
            FeedbackVerdict::Rejected => judged.rejected = judged.rejected.saturating_add(1),
            FeedbackVerdict::Ignored => return,
        }
        if known.is_none() && self.plans.len() >= PLANS_KEPT {
            let oldest = self.plans.iter().min_by_key(|(_, judged)| judged.seq).map(|(plan, _)| *plan);
            oldest.and_then(|plan| self.plans.remove(&plan));
        }
        self.plans.insert(plan.to_bits(), Judged { seq, ..judged });
    }

    /// A confidence with the verdicts about the plan: its share of acceptance, with the confidence as what was known before.
    pub fn adjusted(&self, plan: RecordId, confidence: f64) -> f64 {
        let plan = plan.to_bits();
        let same_tools = plan & !u128::from(u64::MAX)..=plan | u128::from(u64::MAX);
        let (mut accepted, mut all) = (CONFIDENCE * confidence, CONFIDENCE);
        for (other, judged) in self.plans.range(same_tools) {
            let weight = if *other == plan { 1.0 } else { OTHER_INTENT };
            accepted += weight * f64::from(judged.accepted);
            all += weight * (f64::from(judged.accepted) + f64::from(judged.rejected));
        }
        accepted / all
    }

    /// Every plan with its verdicts, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (RecordId, Judged)> {
        self.plans.iter().map(|(plan, judged)| (RecordId::from_bits(*plan), *judged))
    }

    /// Restores what [`Self::iter`] gave.
    pub fn from_rows(rows: impl IntoIterator<Item = (RecordId, Judged)>) -> Self {
        Self { plans: rows.into_iter().map(|(plan, judged)| (plan.to_bits(), judged)).collect() }
    }
}

impl Digestible for PlanFeedback {
    fn digest(&self, writer: &mut DigestWriter) {
        writer.u64(self.plans.len() as u64);
        for (plan, judged) in self.iter() {
            let bits = plan.to_bits();
            #[expect(clippy::cast_possible_truncation, reason = "both halves are written")]
            writer.u64((bits >> 64) as u64).u64(bits as u64);
            writer.u64(judged.accepted.into()).u64(judged.rejected.into()).u64(judged.seq.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(intent: &str, tools: &[&str]) -> RecordId {
        let tools: Vec<Callee> = tools.iter().map(|tool| tool.parse().unwrap()).collect();
        plan_id(intent, tools.iter())
    }

    #[test]
    fn verdicts_move_the_confidence_of_the_same_tools() {
        let mut feedback = PlanFeedback::default();
        let plan = id("back up", &["fs:read", "zip:pack"]);
        assert_eq!(plan, id(" back up ", &["zip:pack", "fs:read"]));
        assert_eq!(plan.to_string().parse::<RecordId>().unwrap(), plan);
        feedback.observe(plan, FeedbackVerdict::Ignored, Seq(1));
        let close = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-12, "{value} {expected}");
        close(feedback.adjusted(plan, 0.6), 0.6);
        feedback.observe(plan, FeedbackVerdict::Rejected, Seq(2));
        close(feedback.adjusted(plan, 0.6), 0.4);
        feedback.observe(plan, FeedbackVerdict::Accepted, Seq(3));
        feedback.observe(plan, FeedbackVerdict::Accepted, Seq(4));
        close(feedback.adjusted(plan, 0.6), 3.2 / 5.0);
        close(feedback.adjusted(id("another", &["fs:read", "zip:pack"]), 0.6), (1.2 + 0.5) / 2.75);
        close(feedback.adjusted(id("back up", &["fs:read"]), 0.6), 0.6);
    }

    #[test]
    fn the_plan_judged_longest_ago_is_forgotten() {
        let mut feedback = PlanFeedback::default();
        let plan = |number: usize| id(&number.to_string(), &["fs:read"]);
        for number in 0..=PLANS_KEPT {
            feedback.observe(plan(number), FeedbackVerdict::Accepted, Seq(number as u64));
        }
        assert_eq!(feedback.iter().count(), PLANS_KEPT);
        assert!(feedback.iter().all(|(kept, _)| kept != plan(0)));
        assert!(PlanFeedback::from_rows(feedback.iter()).iter().eq(feedback.iter()));
    }
}
