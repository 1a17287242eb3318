//! Out-of-fold measuring: every example is measured by what was fitted without its fold.

use pml_model::TrainError;

/// Parts into which the examples are divided.
const FOLDS: usize = 4;

/// By example: what `measure` says about it, given what `fit` made of the examples of the other folds.
pub(super) fn out_of_fold<Example, Fitted, Measured: Clone + Default>(
    examples: &[Example],
    mut fit: impl FnMut(Vec<&Example>) -> Result<Fitted, TrainError>,
    measure: impl Fn(&Fitted, &Example) -> Measured,
) -> Result<Vec<Measured>, TrainError> {
    let mut measured = vec![Measured::default(); examples.len()];
    for fold in 0..FOLDS.min(examples.len()) {
        let is_own = |at: usize| at % FOLDS == fold;
        let others = examples.iter().enumerate().filter(|(at, _)| !is_own(*at)).map(|(_, example)| example);
        let fitted = fit(others.collect())?;
        for (at, example) in examples.iter().enumerate().filter(|(at, _)| is_own(*at)) {
            measured[at] = measure(&fitted, example);
        }
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_measured_by_what_was_fitted_to_it() {
        let examples: Vec<usize> = (0..10).collect();
        let fit = |others: Vec<&usize>| Ok(others.into_iter().copied().collect::<Vec<_>>());
        let seen = out_of_fold(&examples, fit, |others, own| (others.contains(own), others.len())).unwrap();
        assert!(seen.iter().all(|(own, others)| !own && (7..=8).contains(others)), "{seen:?}");
        let stopped = out_of_fold(&examples, |_| Err::<(), _>(TrainError::Stopped), |(), _| 0);
        assert!(matches!(stopped, Err(TrainError::Stopped)));
    }
}
