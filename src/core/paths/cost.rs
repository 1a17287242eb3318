//! The cost of a hyperedge, computed in the same way when it is inserted and when it changes (ALGORITHMS 7).

/// Units of cost per unit of -ln p.
const PER_NAT: f64 = 1e6;
/// Cost of a step that never fails: every step costs something, so of two equally reliable paths the shorter one wins. It also keeps
/// costs above zero, which the incremental update needs.
const STEP: f64 = 1_000.0;

/// The cost of something that succeeded in `successes` of `observations` runs, for an edge of this weight (kind x source, above 0).
/// It falls with every success and rises with every failure; it is finite without any success and never 0.
pub fn reliability_cost(successes: u64, observations: u64, weight: f64) -> u64 {
    debug_assert!(weight > 0.0 && successes <= observations);
    let p = (count(successes) + 1.0) / (count(observations) + 2.0);
    whole(((PER_NAT * -libm::log(p)).round() + STEP) / weight)
}

#[expect(clippy::cast_precision_loss, reason = "counts of runs stay far below 2^52")]
fn count(value: u64) -> f64 {
    value as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive, at most 1e6 * ln(2^64) / smallest weight"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_cost_is_that_of_the_smoothed_success_rate() {
        // p = 1/2 before anything was observed: 1e6 * ln 2 + 1000.
        assert_eq!(reliability_cost(0, 0, 1.0), 694_147);
        assert_eq!(reliability_cost(0, 0, 0.5), 1_388_294);
        assert_eq!(reliability_cost(98, 98, 1.0), 11_050);
    }

    proptest! {
        #[test]
        fn a_success_never_costs_more_and_a_failure_never_less(runs in 0_u64..1_000_000, share in 0.0_f64..=1.0, weight in 0.05_f64..=1.0) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "at most runs")]
            let successes = (runs as f64 * share) as u64;
            let cost = reliability_cost(successes, runs, weight);
            prop_assert!(cost > 0);
            prop_assert!(reliability_cost(successes + 1, runs + 1, weight) <= cost);
            prop_assert!(reliability_cost(successes, runs + 1, weight) >= cost);
            prop_assert!(reliability_cost(successes, runs, weight / 2.0) >= cost);
        }
    }
}
