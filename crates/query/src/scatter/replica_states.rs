//! The call by which a node learns what replicated records the stores hold, and its reply as bytes.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU64;

use bucksaw_binary::{ByteReader, put_varint};
use bucksaw_record::Id;
use bucksaw_rpc::{MalformedMessage, decode_versioned};
use bucksaw_segment::stored::{IdSum, Interval, ReplicaGroup};
use bucksaw_store::ReplicaState;
use serde::{Deserialize, Serialize};

/// The call for the state of a store.
pub(crate) const REPLICAS: &str = "query/replicas";

/// The version of requests and replies.
const VERSION: u32 = 1;

/// Maximum bytes of a request, and of a reply.
pub(super) const REPLICAS_REQUEST_BYTES_MAX: usize = 4 << 10;
pub(super) const REPLICAS_REPLY_BYTES_MAX: usize = 1 << 20;

/// Bytes of a token that are taken from a reply.
const TOKEN_BYTES_MAX: u64 = 200;

/// A request for the state of a store.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ReplicasRequest {
    version: u32,
    /// The lowest id, inclusive.
    from: Id,
    /// The highest id, exclusive.
    to: Id,
}

impl ReplicasRequest {
    /// For the records of a range of ids.
    pub(super) fn encode((from, to): (Id, Id)) -> Vec<u8> {
        // Writing to memory cannot fail, and every key is a string.
        serde_json::to_vec(&Self { version: VERSION, from, to }).unwrap_or_default()
    }

    /// The requested range of ids.
    ///
    /// # Errors
    /// `Unsupported` for a request of another version, or an invalid one.
    pub(super) fn decode(bytes: &[u8]) -> io::Result<(Id, Id)> {
        let request: Self = decode_versioned(bytes, "version", &(VERSION..=VERSION))
            .map_err(|error| io::Error::new(io::ErrorKind::Unsupported, error.to_string()))?;
        Ok((request.from, request.to))
    }
}

/// Encodes a reply.
pub(super) fn encode(state: &ReplicaState) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + state.sums.len() * 18);
    put_varint(&mut out, u64::from(VERSION));
    put_varint(&mut out, state.token.len() as u64);
    out.extend_from_slice(state.token.as_bytes());
    for number in [state.text_bytes, state.blocks, state.block_intervals, u64::from(state.interval_bits)] {
        put_varint(&mut out, number);
    }
    put_varint(&mut out, state.sums.len() as u64);
    let mut last: Option<(ReplicaGroup, Interval)> = None;
    for ((group, interval), sum) in &state.sums {
        // The step from the last interval of the group, at least 1; 0 and the group before its first one.
        match last.filter(|(known, _)| known == group) {
            Some((_, before)) => put_varint(&mut out, u64::from(interval.0 - before.0)),
            None => {
                put_varint(&mut out, 0);
                out.extend_from_slice(&group.0.get().to_le_bytes());
                put_varint(&mut out, u64::from(interval.0));
            }
        }
        out.extend_from_slice(&sum.0.to_le_bytes());
        last = Some((*group, *interval));
    }
    out
}

/// Decodes the state of another node.
pub(super) fn decode(bytes: &[u8]) -> Result<ReplicaState, MalformedMessage> {
    decode_state(bytes).ok_or(MalformedMessage("invalid replica state"))
}

fn decode_state(bytes: &[u8]) -> Option<ReplicaState> {
    let mut reader = ByteReader(bytes);
    let (version, token_len) = (reader.varint_u32()?, reader.varint()?);
    if version != VERSION || token_len > TOKEN_BYTES_MAX {
        return None;
    }
    let token = String::from_utf8(reader.bytes(token_len as usize)?.to_vec()).ok()?;
    let (text_bytes, blocks, block_intervals) = (reader.varint()?, reader.varint()?, reader.varint()?);
    let (interval_bits, count) = (reader.varint_u32()?, reader.varint()?);
    let mut sums = BTreeMap::new();
    let mut last: Option<(ReplicaGroup, Interval)> = None;
    for _ in 0..count {
        let step = reader.varint_u32()?;
        let key = match (step, last) {
            (0, _) => (ReplicaGroup(NonZeroU64::new(reader.u64()?)?), Interval(reader.varint_u32()?)),
            (_, Some((group, before))) => (group, Interval(before.0.checked_add(step)?)),
            (_, None) => return None,
        };
        let is_valid = key.1.0 >> Interval::BITS == 0 && key.1 == key.1.coarse(interval_bits);
        if !is_valid || last.is_some_and(|last| last >= key) {
            return None;
        }
        sums.insert(key, IdSum(reader.u128()?));
        last = Some(key);
    }
    let is_valid = reader.is_empty() && interval_bits <= Interval::BITS;
    is_valid.then_some(ReplicaState { token, interval_bits, sums, text_bytes, blocks, block_intervals })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn states_round_trip(
            sums in proptest::collection::btree_map((1..4_u64, 0..1_u32 << Interval::BITS), any::<u128>(), 0..20),
            text_bytes: u64,
            interval_bits in 0..8_u32,
            token in "[a-z0-9-]{0,40}",
            cut: proptest::sample::Index,
        ) {
            let key = |(group, interval): (u64, u32)| (ReplicaGroup(NonZeroU64::new(group).unwrap()), Interval(interval));
            let sums = sums.into_iter().map(|(at, sum)| (key(at), IdSum(sum))).collect();
            let numbers = ReplicaState { text_bytes, blocks: text_bytes / 7, block_intervals: text_bytes / 3, ..ReplicaState::default() };
            let state = ReplicaState { token, sums, ..numbers }.coarse(interval_bits);
            let bytes = encode(&state);
            prop_assert!(decode(&bytes[..cut.index(bytes.len())]).is_err());
            prop_assert_eq!(decode(&bytes), Ok(state));
        }

        #[test]
        fn arbitrary_bytes_are_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(state) = decode(&bytes) {
                prop_assert_eq!(decode(&encode(&state)), Ok(state));
            }
        }
    }
}
