//! Queries for acknowledgements.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::HecCode;
use crate::HttpAnswer;

#[derive(Deserialize)]
struct HecAcks {
    acks: Vec<u64>,
}

/// Answers `{"acks":[0,1]}` in `body` with `{"acks":{"0":true,"1":false}}`: the result of `is_stored` for each id.
pub fn answer_acks(body: &[u8], is_stored: impl Fn(u64) -> bool) -> HttpAnswer {
    let Ok(asked) = serde_json::from_slice::<HecAcks>(body) else { return HecCode::InvalidDataFormat.answer() };
    let acks: BTreeMap<u64, bool> = asked.acks.into_iter().map(|id| (id, is_stored(id))).collect();
    // A map of numbers is valid JSON.
    let acks = serde_json::to_string(&acks).unwrap_or_default();
    HttpAnswer::new(200, format!(r#"{{"acks":{acks}}}"#))
}
