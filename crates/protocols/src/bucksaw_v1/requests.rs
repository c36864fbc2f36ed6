//! `QueryRequest`, `CountRequest` and `TailRequest`, which have the same fields as far as they have them.

use crate::protobuf::{ProtobufError, ProtobufFields};

/// What is searched for. Strings are bytes as they were sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchRequest {
    /// The filter expression.
    pub expression: Vec<u8>,
    /// The time range, and the zone of its times; empty for the default.
    pub from: Vec<u8>,
    /// The end of the range.
    pub to: Vec<u8>,
    /// The zone.
    pub time_zone: Vec<u8>,
    /// The most records; 0 for all.
    pub limit: u64,
    /// The value of `Order`.
    pub order: u64,
    /// The id of the record before; empty for none.
    pub after: Vec<u8>,
}

impl SearchRequest {
    /// Reads a request. Unknown fields are ignored.
    ///
    /// # Errors
    /// [`ProtobufError`].
    pub fn read(message: &[u8]) -> Result<Self, ProtobufError> {
        let mut request = Self::default();
        let mut fields = ProtobufFields::new(message);
        while let Some(field) = fields.next()? {
            match field.number {
                1 => request.expression = field.bytes()?.to_vec(),
                2 => request.from = field.bytes()?.to_vec(),
                3 => request.to = field.bytes()?.to_vec(),
                4 => request.time_zone = field.bytes()?.to_vec(),
                5 => request.limit = field.varint()?,
                6 => request.order = field.varint()?,
                7 => request.after = field.bytes()?.to_vec(),
                _ => {}
            }
        }
        Ok(request)
    }
}
