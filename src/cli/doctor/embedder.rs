//! A trial of the embedder: whether it works, how fast it is, and whether its vectors mean anything.

use super::Finding;
use crate::clock::Clock;
use crate::embed::{EmbedError, SharedEmbedder};

/// Two texts that mean the same, and one that does not.
const SAME: [&str; 2] = ["copy a file to another folder", "copy the files into a different directory"];
const OTHER: &str = "what will the weather be like in Paris tomorrow";
/// Texts that are measured.
const MEASURED: u8 = 8;

/// Embeds some texts one by one, as questions are.
pub(super) fn try_out(embedder: &SharedEmbedder) -> Result<Finding, EmbedError> {
    let [one, same, other] = <[Vec<f32>; 3]>::try_from(embedder.embed(&[SAME[0], SAME[1], OTHER])?).unwrap_or_default();
    let clock = Clock::system();
    let begun = clock.uptime();
    for _ in 0..MEASURED {
        embedder.embed(&[SAME[0]])?;
    }
    let millis = clock.uptime().since(begun).as_secs_f64() * 1_000.0 / f64::from(MEASURED);
    let text = format!("{}, {} dimensions, {millis:.2} ms per text", embedder.model(), embedder.dim());
    let cosine = |other: &[f32]| one.iter().zip(other).map(|(a, b)| a * b).sum::<f32>();
    if cosine(&same) > cosine(&other) {
        return Ok(Finding::Good(text));
    }
    let hint =
        "texts that mean the same are not nearer than others: the pooling or the prefix may be wrong (docs/embedding.md)";
    Ok(Finding::Note(format!("{text}; {hint}")))
}
