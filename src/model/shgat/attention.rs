//! Attention of receiving rows over projected rows, forward and backward.
//!
//! For a receiver j and a head: `s_i = a . LeakyReLU([z_i || z_j])`, `alpha = softmax over i`, `message = ELU(sum_i alpha_i z_i)`, where
//! z are projected vectors. `LeakyReLU` acts on each half of the joined vector by itself, so `s_i = a_1 . LeakyReLU(z_i) + a_2 .
//! LeakyReLU(z_j)`, and the second term, being the same for every i, falls out of the softmax. It is therefore not computed and has no
//! parameters: its gradient would be zero. What remains of a row is one number per head, its salience, computed once per row instead of
//! once per pair.

use ndarray::{Array2, ArrayView2, ArrayViewMut2};

use super::plan::Links;
use super::real::{Real, add_scaled, dot};

/// The slope of `LeakyReLU` below zero.
const LEAK: f64 = 0.2;

/// What the receiving rows of some links get, kept for the backward function.
#[derive(Clone, Debug)]
pub(crate) struct Attended<R> {
    /// The attention of every link, one number per head.
    pub(crate) shares: Vec<R>,
    /// The message to every receiving row.
    pub(crate) messages: Array2<R>,
}

/// Writes the salience of every projected row: one number per head.
pub(crate) fn salience<R: Real>(projected: ArrayView2<R>, attention: &[R], mut salience: ArrayViewMut2<R>) {
    let (leak, size) = (R::from_f64(LEAK), attention.len() / salience.ncols());
    let mut leaked = vec![R::ZERO; attention.len()];
    for (row, mut to) in projected.rows().into_iter().zip(salience.rows_mut()) {
        for (leaked, value) in leaked.iter_mut().zip(row) {
            *leaked = if *value > R::ZERO { *value } else { leak * *value };
        }
        for (to, (leaked, attention)) in to.iter_mut().zip(leaked.chunks(size).zip(attention.chunks(size))) {
            *to = dot(leaked, attention);
        }
    }
}

/// Calls `deliver` with every receiving row, the number of rows it receives from and its message. Returns what the backward function
/// needs if `keep` says so.
pub(crate) fn attend<R: Real>(
    links: &Links,
    (projected, salience): (&Array2<R>, &Array2<R>),
    keep: bool,
    mut deliver: impl FnMut(usize, usize, &[R]),
) -> Option<Attended<R>> {
    let (heads, dim) = (salience.ncols(), projected.ncols());
    let mut kept = keep.then(|| Attended {
        shares: Vec::with_capacity(links.entries() * heads),
        messages: Array2::from_elem((links.len(), dim), R::ZERO),
    });
    let (mut shares, mut message) = (Vec::new(), vec![R::ZERO; dim]);
    for (index, (target, _, sources)) in links.iter().enumerate() {
        shares.clear();
        shares.resize(sources.len() * heads, R::ZERO);
        softmax_by_head(sources, salience, &mut shares);
        message.fill(R::ZERO);
        for (source, shares) in sources.iter().zip(shares.chunks_exact(heads)) {
            let row = projected.row(*source as usize);
            let row = row.to_slice().expect("a row of a product").chunks_exact(dim / heads);
            for ((to, row), share) in message.chunks_exact_mut(dim / heads).zip(row).zip(shares) {
                add_scaled(to, *share, row);
            }
        }
        R::elu(&mut message);
        if let Some(kept) = &mut kept {
            kept.shares.extend_from_slice(&shares);
            kept.messages.row_mut(index).as_slice_mut().expect("a row of a new array").copy_from_slice(&message);
        }
        deliver(target, sources.len(), &message);
    }
    kept
}

fn softmax_by_head<R: Real>(sources: &[u32], salience: &Array2<R>, shares: &mut [R]) {
    let heads = salience.ncols();
    for head in 0..heads {
        let of = |source: &u32| salience[[*source as usize, head]];
        let highest =
            sources.iter().map(of).fold(of(&sources[0]), |highest, value| if value > highest { value } else { highest });
        let mut total = R::ZERO;
        for (source, share) in sources.iter().zip(shares.iter_mut().skip(head).step_by(heads)) {
            *share = (of(source) - highest).exp();
            total += *share;
        }
        shares.iter_mut().skip(head).step_by(heads).for_each(|share| *share = *share / total);
    }
}

/// The derivative of ELU from its result.
fn elu_slope<R: Real>(result: R) -> R {
    if result > R::ZERO { R::ONE } else { result + R::ONE }
}

/// Adds the gradients by the projected rows and their salience, from those by the messages.
pub(crate) fn attend_backward<R: Real>(
    links: &Links,
    attended: &Attended<R>,
    projected: &Array2<R>,
    by_message: &Array2<R>,
    (by_projected, by_salience): (&mut Array2<R>, &mut Array2<R>),
) {
    let (heads, dim) = (by_salience.ncols(), projected.ncols());
    let mut by_sum = vec![R::ZERO; dim];
    let mut by_share = Vec::new();
    for (index, (_, start, sources)) in links.iter().enumerate() {
        let (message, by_message) = (attended.messages.row(index), by_message.row(index));
        for ((by_sum, message), by_message) in by_sum.iter_mut().zip(message).zip(by_message) {
            *by_sum = *by_message * elu_slope(*message);
        }
        let shares = &attended.shares[start * heads..(start + sources.len()) * heads];
        by_share.clear();
        for (source, shares) in sources.iter().zip(shares.chunks(heads)) {
            let row = projected.row(*source as usize);
            let row = row.to_slice().expect("a row of a product");
            let mut to = by_projected.row_mut(*source as usize);
            let to = to.as_slice_mut().expect("a row of a new array");
            for (head, share) in shares.iter().enumerate() {
                let part = head * dim / heads..(head + 1) * dim / heads;
                by_share.push(dot(&by_sum[part.clone()], &row[part.clone()]));
                add_scaled(&mut to[part.clone()], *share, &by_sum[part]);
            }
        }
        for head in 0..heads {
            let pairs = shares.iter().zip(&by_share).skip(head).step_by(heads);
            let mean = pairs.clone().map(|(share, by_share)| *share * *by_share).sum::<R>();
            for (source, (share, by_share)) in sources.iter().zip(pairs) {
                by_salience[[*source as usize, head]] += *share * (*by_share - mean);
            }
        }
    }
}

/// Adds the gradients by the projected rows and the attention vector, from those by the salience.
pub(crate) fn salience_backward<R: Real>(
    projected: &Array2<R>,
    attention: &[R],
    by_salience: &Array2<R>,
    by_projected: &mut Array2<R>,
    by_attention: &mut [R],
) {
    let (leak, size) = (R::from_f64(LEAK), attention.len() / by_salience.ncols());
    for ((row, by_salience), mut to) in projected.rows().into_iter().zip(by_salience.rows()).zip(by_projected.rows_mut()) {
        let (row, to) = (row.to_slice().expect("a row of a product"), to.as_slice_mut().expect("a row of a new array"));
        for (head, by_salience) in by_salience.iter().enumerate() {
            let part = head * size..(head + 1) * size;
            let values = row[part.clone()].iter().zip(&attention[part.clone()]);
            let gradients = to[part.clone()].iter_mut().zip(&mut by_attention[part]);
            for ((value, attention), (to, by_attention)) in values.zip(gradients) {
                let slope = if *value > R::ZERO { R::ONE } else { leak };
                *to += *by_salience * *attention * slope;
                *by_attention += *by_salience * *value * slope;
            }
        }
    }
}
