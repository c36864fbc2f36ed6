//! Ids of clients with a label scope: two tenants never share an id or an idempotency key.
//!
//! Records with one id are one record, and merges keep one of them. Clients influence ids: by the idempotency key and content of
//! a batch, and by the ids of the framed protocol. Without more, a tenant that knows or guesses the ids of another could
//! suppress its records, and two tenants that send the same body with the same key would have one record between them. So
//! the labels of the scope are a part of what producers and keys are derived from. The hash is a cryptographic one, because a
//! client chooses the other part.

use bucksaw_record::{LabelScope, Producer};
use sha2::{Digest as _, Sha256};

/// Derives ids and keys that only clients with one label scope have. Equal on all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopedIds {
    /// A hash of the labels.
    seed: [u8; 32],
}

/// What a number is, so that a key and a producer with equal bits have unrelated results.
const KEY: u8 = 1;
const PRODUCER: u8 = 2;

impl ScopedIds {
    /// For clients with this scope; `None` if it has no labels, as its clients then are no tenant.
    #[must_use]
    pub fn new(scope: &LabelScope) -> Option<Self> {
        let mut bytes = Vec::new();
        scope.labels().encode(&mut bytes);
        (!bytes.is_empty()).then(|| Self { seed: Sha256::digest(&bytes).into() })
    }

    /// The producer that the records get for one that a client chose. Producers that differ have results that differ, but for
    /// one in 2^47.
    #[must_use]
    pub fn producer(&self, chosen: Producer) -> Producer {
        chosen.with_random_bits(self.hash(PRODUCER, chosen.bits()))
    }

    /// The number of an idempotency key.
    pub(crate) fn key(&self, key: u64) -> u64 {
        self.hash(KEY, key)
    }

    fn hash(&self, kind: u8, number: u64) -> u64 {
        let digest = Sha256::new().chain_update(self.seed).chain_update([kind]).chain_update(number.to_le_bytes());
        digest.finalize().first_chunk().copied().map(u64::from_le_bytes).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_record::Labels;

    use super::*;

    fn ids(labels: &str) -> Option<ScopedIds> {
        ScopedIds::new(&LabelScope::new(Labels::parse(labels).unwrap()))
    }

    #[test]
    fn tenants_share_no_producer_and_no_key() {
        let (a, b) = (ids("tenant=a").unwrap(), ids("tenant=b").unwrap());
        assert_eq!(a, ids("tenant=a").unwrap());
        assert_eq!(ids(""), None);
        for bits in [0, 1, 7 << 40, u64::MAX] {
            let chosen = Producer::new(bits);
            let producers = [chosen, a.producer(chosen), b.producer(chosen)];
            assert!(producers.windows(2).all(|pair| pair[0] != pair[1]) && producers[0] != producers[2]);
            assert!(producers.iter().all(|producer| producer.is_keyed() == chosen.is_keyed()));
            assert!(a.key(bits) != b.key(bits) && a.key(bits) != bits);
        }
    }

    /// The ids of a retry must be the same in every version.
    #[test]
    fn the_results_never_change() {
        let a = ids("tenant=a").unwrap();
        assert_eq!((a.key(5), a.producer(Producer::new(5)).bits()), (0xd2c6_42c3_795f_4c8a, 0x4b4c_8fb1_3cb1));
    }
}
