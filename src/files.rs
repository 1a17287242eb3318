//! Parquet files: where they are kept ([`Place`]), and reading them although the Parquet library panics on some damaged ones.

mod place;
mod threads;

use std::panic::{AssertUnwindSafe, catch_unwind};

use parquet::errors::ParquetError;

pub use place::Place;
pub(crate) use threads::Threads;

/// Reads with the Parquet library. A panic of it, as some damaged files cause, is an error.
pub(crate) fn guarded<T>(read: impl FnOnce() -> T) -> Result<T, ParquetError> {
    catch_unwind(AssertUnwindSafe(read)).map_err(|_| ParquetError::General("the Parquet reader cannot read it".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_reader_is_an_error() {
        assert_eq!(guarded(|| 7).unwrap(), 7);
        let panicked = guarded(|| panic!("range end out of bounds")).unwrap_err();
        assert!(panicked.to_string().contains("the Parquet reader cannot read it"), "{panicked}");
    }
}
