//! A cache from runs to the ids of their procedures. Most runs repeat an earlier one, and computing the canonical structure takes
//! longer than everything else learnt from a run. Entries depend on the run alone, so the cache is not part of the digest and may be
//! emptied at any time.

use std::hash::BuildHasherDefault;

use imbl::GenericHashMap;
use imbl::shared_ptr::DefaultSharedPtr;

use crate::graph::Node;
use crate::hash::{PrecomputedHash, fnv1a};
use crate::id::CapabilityId;

/// Distinct runs in the cache; it is emptied when one more comes.
const RUNS_KEPT: usize = 4_096;

/// Longest run that is remembered, in calls and flow together: longer ones are rare, hardly ever come again, and could together take
/// hundreds of megabytes.
const RUN_LEN_MAX: usize = 512;

/// The calls of a run and the data flow between their positions, as they came.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RunKey(Box<[u32]>);

impl RunKey {
    fn new(calls: &[Node], flow: &[(usize, usize)]) -> Option<Self> {
        if calls.len() + flow.len() > RUN_LEN_MAX {
            return None;
        }
        let mut run = Vec::with_capacity(1 + calls.len() + flow.len());
        run.push(u32::try_from(calls.len()).ok()?);
        run.extend(calls.iter().map(|call| call.to_bits()));
        for (from, to) in flow {
            run.push(u32::from(u16::try_from(*from).ok()?) << 16 | u32::from(u16::try_from(*to).ok()?));
        }
        Some(Self(run.into()))
    }
}

impl std::hash::Hash for RunKey {
    fn hash<H: std::hash::Hasher>(&self, hasher: &mut H) {
        let mix = |hash: u64, part: &u32| (hash.rotate_left(5) ^ u64::from(*part)).wrapping_mul(0x517c_c1b7_2722_0a95);
        hasher.write_u64(self.0.iter().fold(fnv1a(&[]), mix));
    }
}

/// The ids of recent runs.
#[derive(Clone, Debug, Default)]
pub(super) struct IdentityCache {
    identities: GenericHashMap<RunKey, CapabilityId, BuildHasherDefault<PrecomputedHash>, DefaultSharedPtr>,
}

impl IdentityCache {
    /// The id of a run, from the cache or computed by `canonical`.
    pub(super) fn identity(
        &mut self,
        calls: &[Node],
        flow: &[(usize, usize)],
        canonical: impl FnOnce() -> CapabilityId,
    ) -> CapabilityId {
        let Some(run) = RunKey::new(calls, flow) else { return canonical() };
        if let Some(id) = self.identities.get(&run) {
            return *id;
        }
        if self.identities.len() == RUNS_KEPT {
            self.identities.clear();
        }
        let id = canonical();
        self.identities.insert(run, id);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_differ_by_their_calls_the_order_and_the_flow() {
        let (a, b) = (Node::tool(0), Node::tool(1));
        let mut cache = IdentityCache::default();
        let runs = [(vec![a, b], vec![]), (vec![b, a], vec![]), (vec![a, b], vec![(0, 1)]), (vec![a], vec![])];
        for round in 0..2 {
            for (number, (calls, flow)) in (1..).zip(&runs) {
                let id = cache.identity(calls, flow, || {
                    assert_eq!(round, 0, "known by now");
                    CapabilityId::from_bits(number)
                });
                assert_eq!(id, CapabilityId::from_bits(number));
            }
        }
    }

    #[test]
    fn a_full_cache_is_emptied() {
        let mut cache = IdentityCache::default();
        for tool in 0..=u32::try_from(RUNS_KEPT).unwrap() {
            cache.identity(&[Node::tool(tool)], &[], || CapabilityId::from_bits(tool.into()));
        }
        assert_eq!(cache.identities.len(), 1);
        cache.identity(&[Node::tool(0); RUN_LEN_MAX + 1], &[], || CapabilityId::from_bits(1));
        assert_eq!(cache.identities.len(), 1, "a long run is not remembered");
    }
}
