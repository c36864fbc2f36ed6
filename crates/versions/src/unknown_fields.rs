//! JSON as a later minor version would write it.

use serde_json::{Map, Value, json};

/// Keys of objects whose members are data and no fields: nothing is added to those.
pub const FREE_FORM_KEYS: [&str; 1] = ["stream"];

/// The same message with fields that nobody knows yet, some in each object, before, between and behind those that are
/// known; the seed decides which. `None` when that is no JSON object.
#[must_use]
pub fn with_unknown_fields(message: &[u8], seed: u64) -> Option<Vec<u8>> {
    let value: Value = serde_json::from_slice(message).ok()?;
    let mut rng = SplitMix64(seed);
    let grown = add_fields(value.is_object().then_some(value)?, &mut rng);
    serde_json::to_vec(&grown).ok()
}

fn add_fields(value: Value, dice: &mut SplitMix64) -> Value {
    match value {
        Value::Object(fields) => {
            let mut all = Map::new();
            for (name, field) in fields {
                let field = if FREE_FORM_KEYS.contains(&name.as_str()) { field } else { add_fields(field, dice) };
                all.insert(name, field);
            }
            for at in 0..1 + dice.next() % 3 {
                // These sort before, between and behind others.
                let front = ["0_", "m_", "z_"][dice.next() as usize % 3];
                all.insert(format!("{front}later_{at}"), random_value(dice));
            }
            Value::Object(all)
        }
        Value::Array(values) => Value::Array(values.into_iter().map(|value| add_fields(value, dice)).collect()),
        other => other,
    }
}

/// Anything.
fn random_value(dice: &mut SplitMix64) -> Value {
    match dice.next() % 7 {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(dice.next()),
        3 => json!(-1.5e300),
        4 => json!("\u{1}\"é\\"),
        5 => json!([1, "two", [], {}]),
        _ => json!({ "version": 9, "in": { "bytes": "many" } }),
    }
}

/// Numbers by splitmix64.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bits = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_gains_fields_and_keeps_its_own() {
        let message = br#"{"a":[{"b":1},{"c":{}}],"stream":{"app":"web"}}"#;
        for seed in 0..50 {
            let grown: Value = serde_json::from_slice(&with_unknown_fields(message, seed).unwrap()).unwrap();
            let fields = |value: &Value| value.as_object().unwrap().len();
            assert!(fields(&grown) > 2 && fields(&grown["a"][0]) > 1 && fields(&grown["a"][1]["c"]) > 0, "{grown}");
            assert_eq!((&grown["a"][0]["b"], &grown["stream"]), (&json!(1), &json!({ "app": "web" })));
        }
        assert_ne!(with_unknown_fields(message, 1), with_unknown_fields(message, 2));
        assert_eq!((with_unknown_fields(b"[]", 1), with_unknown_fields(b"x", 1)), (None, None));
    }
}
