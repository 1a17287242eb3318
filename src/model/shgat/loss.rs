//! The loss of one intent against the candidates of one kind.
//!
//! Every example has a set T of right candidates: a node of the path and what is equivalent to it, or the capabilities that contain a
//! tool of the path. With p the softmax over all candidates, a success costs `-ln p(T)` and a failure `-ln (1 - p(T))`: a failure pushes
//! away what a success draws near, for every logit. To make `sigmoid(logit + offset)` a probability, a second term counts each candidate
//! as a yes-or-no question: the nodes of a successful path are a yes and the other candidates a no, the nodes of a failed path are a no
//! and the others are not asked.

use super::real::Real;

/// What the loss of one intent is made of.
#[derive(Clone, Debug)]
pub(crate) struct Question<'a, R> {
    /// The right candidates of every example, by column.
    pub(crate) targets: &'a [Vec<u32>],
    /// The candidates that the path names, by column: a yes or a no of their own.
    pub(crate) named: &'a [u32],
    pub(crate) succeeded: bool,
    /// What multiplies the whole loss.
    pub(crate) weight: R,
    /// What multiplies the term of yes-or-no questions.
    pub(crate) calibration: R,
    pub(crate) offset: R,
    /// Minus the logarithm of the chance with which a candidate was drawn; empty if all candidates are there.
    pub(crate) corrections: &'a [R],
}

/// A loss with its gradient by the offset; that by the logits is written to the row it was asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Loss<R> {
    pub(crate) value: R,
    pub(crate) by_offset: R,
}

impl<R: Real> Question<'_, R> {
    /// The loss of a row of logits; the row becomes the gradient.
    pub(crate) fn answer(&self, row: &mut [R]) -> Loss<R> {
        let mut by_logit = vec![R::ZERO; row.len()];
        let value = self.rank(row, &mut by_logit);
        let (calibration, by_offset) = self.calibrate(row, &mut by_logit);
        for (to, by_logit) in row.iter_mut().zip(by_logit) {
            *to = self.weight * by_logit;
        }
        Loss { value: self.weight * (value + calibration), by_offset: self.weight * by_offset }
    }

    /// The softmax term: its mean over the examples.
    fn rank(&self, row: &[R], by_logit: &mut [R]) -> R {
        // The exponentials of all logits, divided by the largest.
        let mut grown = row.to_vec();
        for (logit, correction) in grown.iter_mut().zip(self.corrections) {
            *logit += *correction;
        }
        let highest = grown.iter().copied().fold(grown[0], |highest, logit| if logit > highest { logit } else { highest });
        for logit in &mut grown {
            *logit -= highest;
        }
        R::exp_of_negatives(&mut grown);
        let all: R = grown.iter().copied().sum();
        for (to, grown) in by_logit.iter_mut().zip(&grown) {
            *to = *grown / all;
        }
        let share = R::ONE / count(self.targets.len());
        let mut value = R::ZERO;
        for right in self.targets {
            let wanted: R = right.iter().map(|at| grown[*at as usize]).sum();
            if self.succeeded {
                value += share * (all / wanted).ln();
                for at in right {
                    by_logit[*at as usize] -= share * grown[*at as usize] / wanted;
                }
            } else if right.len() < grown.len() {
                value += share * repel(right, &grown, all, share, by_logit);
            } else {
                // Without other candidates there is nothing to prefer.
                by_logit.fill(R::ZERO);
            }
        }
        value
    }

    /// The term of yes-or-no questions and its gradient by the offset.
    fn calibrate(&self, row: &[R], by_logit: &mut [R]) -> (R, R) {
        if self.calibration == R::ZERO || self.named.is_empty() {
            return (R::ZERO, R::ZERO);
        }
        let mut named = vec![false; row.len()];
        self.named.iter().for_each(|at| named[*at as usize] = true);
        // e^-|x|, from which both the cost of an answer x and its derivative follow.
        let mut fallen: Vec<R> =
            row.iter().map(|logit| *logit + self.offset).map(|x| if x > R::ZERO { -x } else { x }).collect();
        R::exp_of_negatives(&mut fallen);
        let share = self.calibration / count(self.named.len());
        let (mut value, mut by_offset) = (R::ZERO, R::ZERO);
        for (at, ((logit, fallen), to)) in row.iter().zip(fallen).zip(by_logit).enumerate() {
            let answer = *logit + self.offset;
            let weight = match (named[at], self.succeeded) {
                (true, _) => share,
                (false, true) => self.corrections.get(at).map_or(share, |correction| share * correction.exp()),
                (false, false) => continue,
            };
            let yes = if answer > R::ZERO { R::ONE / (R::ONE + fallen) } else { fallen / (R::ONE + fallen) };
            let wanted = named[at] && self.succeeded;
            let wrong_side = if wanted { -answer } else { answer };
            value += weight * (ln_1p(fallen) + if wrong_side > R::ZERO { wrong_side } else { R::ZERO });
            let by = weight * if wanted { yes - R::ONE } else { yes };
            *to += by;
            by_offset += by;
        }
        (value, by_offset)
    }
}

/// `-ln (1 - p(T))` from the exponentials of the logits and their sum.
fn repel<R: Real>(right: &[u32], grown: &[R], all: R, share: R, by_logit: &mut [R]) -> R {
    let is_right = |at: usize| right.iter().any(|right| *right as usize == at);
    let others: R = grown.iter().enumerate().filter(|(at, _)| !is_right(*at)).map(|(_, grown)| *grown).sum();
    for (at, (to, grown)) in by_logit.iter_mut().zip(grown).enumerate() {
        if !is_right(at) {
            *to -= share * *grown / others;
        }
    }
    (all / others).ln()
}

/// ln(1 + x) for x from 0 to 1. Most candidates are far from being an answer, where three terms of the series are exact enough.
fn ln_1p<R: Real>(x: R) -> R {
    if x < R::from_f64(1e-4) { x * (R::ONE - x * (R::from_f64(0.5) - x * R::from_f64(1.0 / 3.0))) } else { (R::ONE + x).ln() }
}

#[expect(clippy::cast_precision_loss, reason = "fewer than 2^52 nodes")]
fn count<R: Real>(items: usize) -> R {
    R::from_f64(items.max(1) as f64)
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "exact values are expected")]
mod tests {
    use super::*;

    fn question(targets: &[Vec<u32>], succeeded: bool) -> Question<'_, f64> {
        Question {
            targets,
            named: targets.first().map_or(&[], |right| right),
            succeeded,
            weight: 0.7,
            calibration: 0.5,
            offset: -0.4,
            corrections: &[],
        }
    }

    const ROW: [f64; 5] = [0.3, -1.2, 2.0, 0.1, 0.9];

    fn loss_at(question: &Question<'_, f64>, change: impl Fn(&mut [f64])) -> f64 {
        let mut row = ROW;
        change(&mut row);
        question.answer(&mut row).value
    }

    #[test]
    fn gradients_by_logits_and_offset_are_those_of_the_loss() {
        let targets = [vec![1], vec![2, 3]];
        let corrections = [0.0, 0.4, 0.0, 0.9, 1.5];
        for succeeded in [true, false] {
            for corrections in [&[][..], &corrections] {
                let question = Question { corrections, ..question(&targets, succeeded) };
                let mut gradient = ROW;
                let loss = question.answer(&mut gradient);
                for at in 0..ROW.len() {
                    let numeric =
                        (loss_at(&question, |row| row[at] += 1e-6) - loss_at(&question, |row| row[at] -= 1e-6)) / 2e-6;
                    assert!((numeric - gradient[at]).abs() < 1e-8, "{succeeded} {at}: {numeric} {}", gradient[at]);
                }
                let at = |offset| loss_at(&Question { offset, ..question.clone() }, |_| ());
                assert!(((at(-0.4 + 1e-6) - at(-0.4 - 1e-6)) / 2e-6 - loss.by_offset).abs() < 1e-8);
            }
        }
    }

    #[test]
    fn a_failure_turns_the_gradient_of_every_logit_round() {
        for targets in [vec![vec![1]], vec![vec![2, 3]]] {
            let (mut success, mut failure) = (ROW, ROW);
            question(&targets, true).answer(&mut success);
            question(&targets, false).answer(&mut failure);
            for (success, failure) in success.iter().zip(&failure) {
                assert!(success * failure < 0.0, "{success} {failure}");
            }
        }
    }

    #[test]
    fn equivalent_candidates_share_one_target() {
        let (alone, both) = ([vec![2]], [vec![2, 4]]);
        let apart = Question { calibration: 0.0, ..question(&alone, true) };
        let together = Question { targets: &both, ..apart.clone() };
        assert!(loss_at(&together, |_| ()) < loss_at(&apart, |_| ()));
        let mut gradient = ROW;
        together.answer(&mut gradient);
        assert!(gradient[2] < 0.0 && gradient[4] < 0.0, "both are drawn near: {gradient:?}");
    }

    #[test]
    fn a_failure_with_nothing_else_to_prefer_costs_nothing() {
        let mut row = [0.5];
        let question = Question { calibration: 0.0, ..question(&[], false) };
        let targets = [vec![0]];
        assert_eq!(Question { targets: &targets, ..question }.answer(&mut row).value, 0.0);
        assert_eq!(row, [0.0]);
    }
}
