//! Which capability has which program: derived from the table, so that a run that names its program counts for that capability.

use imbl::OrdSet;

use crate::id::CapabilityId;

/// The capability that a run names instead of a program: `capability:<id>`.
pub(super) fn named(code: &str) -> Option<CapabilityId> {
    code.strip_prefix("capability:")?.parse().ok()
}

/// Hashes of programs with the positions of their capabilities.
#[derive(Clone, Debug, Default)]
pub(super) struct Programs(OrdSet<(u128, u32)>);

impl Programs {
    /// The first capability with this program.
    pub(super) fn find(&self, code: &str) -> Option<u32> {
        let hash = hash(code);
        self.0.range((hash, 0)..=(hash, u32::MAX)).next().map(|(_, position)| *position)
    }

    /// The capability at `position` has another program than before.
    pub(super) fn replace(&mut self, position: u32, before: Option<&str>, now: Option<&str>) {
        if let Some(before) = before {
            self.0.remove(&(hash(before), position));
        }
        if let Some(now) = now {
            self.0.insert((hash(now), position));
        }
    }
}

fn hash(code: &str) -> u128 {
    let mut bits = [0; 16];
    bits.copy_from_slice(&blake3::hash(code.as_bytes()).as_bytes()[..16]);
    u128::from_be_bytes(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_until_it_is_replaced() {
        let mut programs = Programs::default();
        programs.replace(3, None, Some("a"));
        programs.replace(2, None, Some("a"));
        assert_eq!(programs.find("a"), Some(2), "the first one");
        programs.replace(2, Some("a"), Some("b"));
        assert_eq!((programs.find("a"), programs.find("b"), programs.find("c")), (Some(3), Some(2), None));
    }
}
