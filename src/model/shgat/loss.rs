//! The loss of one intent against the candidates of one kind.
//!
//! Every node of the path is an example with a set T of right candidates: itself and what is equivalent to it. With p the softmax over all
//! candidates, a success costs `-ln p(T)` and a failure `-ln (1 - p(T))`: a failure pushes away what a success draws near, for every
//! logit. To make `sigmoid(logit + offset)` a probability, a second term counts each candidate as a yes-or-no question: the nodes of a
//! successful path are a yes and the other candidates a no, the nodes of a failed path are a no and the others are not asked.

use super::real::Real;

/// What the loss of one intent is made of.
#[derive(Clone, Debug)]
pub(crate) struct Question<'a, R> {
    /// The right candidates of every node of the path, by column.
    pub(crate) targets: &'a [Vec<u32>],
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

    /// The softmax term: its mean over the nodes of the path.
    fn rank(&self, row: &[R], by_logit: &mut [R]) -> R {
        let corrected: Vec<R> = match self.corrections {
            [] => row.to_vec(),
            corrections => row.iter().zip(corrections).map(|(logit, correction)| *logit + *correction).collect(),
        };
        let all = log_sum_exp(corrected.iter().copied());
        for (to, logit) in by_logit.iter_mut().zip(&corrected) {
            *to = (*logit - all).exp();
        }
        let share = R::ONE / count(self.targets.len());
        let mut value = R::ZERO;
        for right in self.targets {
            if self.succeeded {
                let wanted = log_sum_exp(right.iter().map(|at| corrected[*at as usize]));
                value += share * (all - wanted);
                for at in right {
                    by_logit[*at as usize] -= share * (corrected[*at as usize] - wanted).exp();
                }
            } else {
                value += share * repel(right, &corrected, all, share, by_logit);
            }
        }
        value
    }

    /// The term of yes-or-no questions and its gradient by the offset.
    fn calibrate(&self, row: &[R], by_logit: &mut [R]) -> (R, R) {
        if self.calibration == R::ZERO {
            return (R::ZERO, R::ZERO);
        }
        let mut named = vec![false; row.len()];
        self.targets.iter().flatten().for_each(|at| named[*at as usize] = true);
        let share = self.calibration / count(self.targets.len());
        let (mut value, mut by_offset) = (R::ZERO, R::ZERO);
        for (at, (logit, to)) in row.iter().zip(by_logit).enumerate() {
            let answer = *logit + self.offset;
            let by = match (named[at], self.succeeded) {
                (true, true) => {
                    value += share * (-answer).softplus();
                    share * (answer.sigmoid() - R::ONE)
                }
                (true, false) => {
                    value += share * answer.softplus();
                    share * answer.sigmoid()
                }
                (false, true) => {
                    let times = self.corrections.get(at).map_or(R::ONE, |correction| correction.exp());
                    value += share * times * answer.softplus();
                    share * times * answer.sigmoid()
                }
                (false, false) => continue,
            };
            *to += by;
            by_offset += by;
        }
        (value, by_offset)
    }
}

/// `-ln (1 - p(T))`; without other candidates there is nothing to prefer.
fn repel<R: Real>(right: &[u32], corrected: &[R], all: R, share: R, by_logit: &mut [R]) -> R {
    let is_right = |at: usize| right.iter().any(|right| *right as usize == at);
    if right.len() == corrected.len() {
        by_logit.fill(R::ZERO);
        return R::ZERO;
    }
    let others = log_sum_exp(corrected.iter().enumerate().filter(|(at, _)| !is_right(*at)).map(|(_, logit)| *logit));
    for (at, (to, logit)) in by_logit.iter_mut().zip(corrected).enumerate() {
        if !is_right(at) {
            *to -= share * (*logit - others).exp();
        }
    }
    all - others
}

fn log_sum_exp<R: Real>(values: impl Iterator<Item = R> + Clone) -> R {
    let Some(highest) = values.clone().reduce(|highest, value| if value > highest { value } else { highest }) else {
        return R::ZERO;
    };
    highest + values.map(|value| (value - highest).exp()).sum::<R>().ln()
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
        Question { targets, succeeded, weight: 0.7, calibration: 0.5, offset: -0.4, corrections: &[] }
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
