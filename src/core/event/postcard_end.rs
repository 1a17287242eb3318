//! Writing postcard at the end of a vector. `postcard::to_extend` does the same byte by byte, which takes several times as long.

use postcard::ser_flavors::Flavor;
use serde::Serialize;

/// Appends `value` to `bytes`.
pub(super) fn append<T: Serialize>(value: &T, bytes: Vec<u8>) -> Vec<u8> {
    postcard::serialize_with_flavor(value, End(bytes)).expect("writing to memory cannot fail, and events are plain data")
}

struct End(Vec<u8>);

impl Flavor for End {
    type Output = Vec<u8>;

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<Vec<u8>> {
        Ok(self.0)
    }
}
