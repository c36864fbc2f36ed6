//! Questions about acknowledgements.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{HecAnswer, HecCode};

#[derive(Deserialize)]
struct HecAcks {
    acks: Vec<u64>,
}

/// Answers the question of `body`, `{"acks":[0,1]}`, by `{"acks":{"0":true,"1":false}}`: whether `is_stored` says so of each
/// id.
pub fn answer_acks(body: &[u8], is_stored: impl Fn(u64) -> bool) -> HecAnswer {
    let Ok(asked) = serde_json::from_slice::<HecAcks>(body) else { return HecCode::InvalidDataFormat.into() };
    let acks: BTreeMap<u64, bool> = asked.acks.into_iter().map(|id| (id, is_stored(id))).collect();
    // A map of numbers is valid JSON.
    let acks = serde_json::to_string(&acks).unwrap_or_default();
    HecAnswer { status: 200, body: format!(r#"{{"acks":{acks}}}"#) }
}
