//! The strings and integers of the JSON of OTLP.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use super::severity::severity_number;

/// The text of a JSON string, as bytes: half a surrogate pair is no UTF-8, and is kept. Empty for `null`.
#[derive(Debug, Default)]
pub(super) struct JsonBytes<'a>(pub(super) Cow<'a, [u8]>);

impl<'de: 'a, 'a> Deserialize<'de> for JsonBytes<'a> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct BytesVisitor;
        impl<'de> Visitor<'de> for BytesVisitor {
            type Value = Cow<'de, [u8]>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_bytes<E: Error>(self, text: &'de [u8]) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(text))
            }

            fn visit_bytes<E: Error>(self, text: &[u8]) -> Result<Self::Value, E> {
                Ok(Cow::Owned(text.to_vec()))
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(text.as_bytes()))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Cow::Owned(text.as_bytes().to_vec()))
            }

            fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
                Ok(Cow::Borrowed(&[]))
            }

            fn visit_some<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
                json.deserialize_bytes(self)
            }
        }
        json.deserialize_option(BytesVisitor).map(Self)
    }
}

/// An integer as a number or as a string. 0 for `null` and the empty string.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct JsonInteger(pub(super) i128);

impl JsonInteger {
    /// Its value if it is in range, else the nearest one.
    pub(super) fn unsigned(self) -> u64 {
        u64::try_from(self.0.max(0)).unwrap_or(u64::MAX)
    }
}

impl<'de> Deserialize<'de> for JsonInteger {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(IntegerVisitor { names: |_| None }).map(Self)
    }
}

/// The number of a severity, which some senders state by its name.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct JsonSeverity(pub(super) i64);

impl<'de> Deserialize<'de> for JsonSeverity {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        // A name of a later version of the protocol is no severity that is known.
        let names = |name: &str| name.starts_with("SEVERITY").then(|| severity_number(name).unwrap_or_default());
        let number = json.deserialize_any(IntegerVisitor { names })?;
        Ok(Self(i64::try_from(number).unwrap_or_default()))
    }
}

struct IntegerVisitor {
    /// The number of a text that is no integer.
    names: fn(&str) -> Option<i64>,
}

impl Visitor<'_> for IntegerVisitor {
    type Value = i128;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer as a number or a string")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<i128, E> {
        Ok(number.into())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<i128, E> {
        Ok(number.into())
    }

    /// Numbers such as `1.7e18`, which some libraries write.
    fn visit_f64<E: Error>(self, number: f64) -> Result<i128, E> {
        if number.fract() == 0.0 && number.abs() < 1e19 {
            return Ok(number as i128);
        }
        Err(E::invalid_value(serde::de::Unexpected::Float(number), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<i128, E> {
        let number = || text.parse::<u64>().map(i128::from).or_else(|_| text.parse::<i64>().map(i128::from)).ok();
        if text.is_empty() {
            return Ok(0);
        }
        number()
            .or_else(|| (self.names)(text).map(i128::from))
            .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }

    fn visit_unit<E: Error>(self) -> Result<i128, E> {
        Ok(0)
    }
}
