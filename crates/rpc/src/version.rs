//! JSON messages with a version field.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde::Deserialize;
use serde_json::value::RawValue;

/// Why a message cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Its version is not supported, or absent.
    #[error("unsupported version {}", .0.unwrap_or_default())]
    Version(Option<u32>),
    /// It is no JSON object, or a field is invalid.
    #[error(transparent)]
    Invalid(#[from] serde_json::Error),
}

/// Decodes a JSON object whose field `version_field` must be one of `supported`. The other fields are read only then, because
/// another version may have changed them.
///
/// # Errors
/// [`DecodeError`].
pub fn decode_versioned<'a, T: Deserialize<'a>>(
    bytes: &'a [u8],
    version_field: &str,
    supported: &RangeInclusive<u32>,
) -> Result<T, DecodeError> {
    let fields: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_slice(bytes)?;
    let version = fields.get(version_field).and_then(|version| version.get().parse().ok());
    if !version.is_some_and(|version| supported.contains(&version)) {
        return Err(DecodeError::Version(version));
    }
    Ok(serde_json::from_slice(bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct TestMessage {
        a: u32,
    }

    #[test]
    fn the_version_is_checked_before_the_other_fields() {
        let decode = |text: &'static str| decode_versioned::<TestMessage>(text.as_bytes(), "version", &(1..=2));
        assert_eq!(decode(r#"{"version":2,"a":7,"b":[]}"#).unwrap(), TestMessage { a: 7 });
        assert!(matches!(decode(r#"{"version":3,"a":[]}"#), Err(DecodeError::Version(Some(3)))));
        assert!(matches!(decode(r#"{"a":7}"#), Err(DecodeError::Version(None))));
        assert!(matches!(decode(r#"{"version":"1","a":7}"#), Err(DecodeError::Version(None))));
        assert!(matches!(decode(r#"{"version":1,"a":[]}"#), Err(DecodeError::Invalid(_))));
        assert!(matches!(decode("["), Err(DecodeError::Invalid(_))));
    }
}
