//! Measures of a ranking, by which the number of epochs is chosen.

/// NDCG of the first five places with `wanted` items; ties go to the smaller index.
#[expect(clippy::cast_precision_loss, reason = "places and counts")]
pub(crate) fn ndcg_at_5(scores: &[f32], wanted: &[usize]) -> f32 {
    const PLACES: usize = 5;
    let gain = |place: usize| 1.0 / libm::log2f(place as f32 + 2.0);
    let ideal: f32 = (0..wanted.len().min(PLACES)).map(gain).sum();
    let places = wanted.iter().map(|item| place_of(scores, *item));
    places.filter(|place| *place < PLACES).map(gain).sum::<f32>() / ideal.max(f32::MIN_POSITIVE)
}

/// How many items come before `item`.
#[expect(clippy::float_cmp, reason = "a tie is an equal score")]
pub(crate) fn place_of(scores: &[f32], item: usize) -> usize {
    let score = scores[item];
    let before = |(index, other): (usize, &f32)| *other > score || (*other == score && index < item);
    scores.iter().enumerate().filter(|pair| before(*pair)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_places_count_most() {
        let scores = [0.1, 0.9, 0.5, 0.5, 0.4, 0.3, 0.2];
        assert!((ndcg_at_5(&scores, &[1, 2]) - 1.0).abs() < 1e-6);
        assert!((ndcg_at_5(&scores, &[3]) - 0.5).abs() < 1e-6);
        assert!(ndcg_at_5(&scores, &[0]).abs() < 1e-6);
    }
}
