//! A fuzzer: it changes samples of a format, feeds them to a decoder, and watches for panics, memory and time.
//!
//! A [`Target`] is a decoder with samples. [`run`] derives every input from a seed: it changes samples as bytes, text, JSON or
//! protobuf (`mutate`), and keeps inputs that the decoder answers in a new way as further samples, so that it gets beyond the first check of a
//! decoder. Equal seeds give equal inputs. A failing input is made smaller before it is reported.

mod meter;
mod mutate;
mod protobuf;
mod run;

pub use meter::{Meter, Usage, asked_here, measure};
pub use mutate::{Form, Mutator};
pub use run::{Read, Report, Share, Target, run};
