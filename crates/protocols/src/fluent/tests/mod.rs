//! Messages as events: those of real senders, hostile ones, and random ones.

use bucksaw_record::Labels;
use rmpv::Value;

use super::{FluentDecoder, FluentError, FluentFrame, FluentFramer, FluentMessage};
use crate::event_lines::EventLines;

mod handshake;
mod hostile;
mod mapping;
mod properties;
mod senders;

const INFLATED_BYTES_MAX: usize = 1 << 20;

/// Bytes of hexadecimal digits.
fn hex(digits: &str) -> Vec<u8> {
    digits.as_bytes().chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// A value as MessagePack.
fn pack(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    rmpv::encode::write_value(&mut out, value).unwrap();
    out
}

/// A map with these keys.
fn map(pairs: &[(&str, Value)]) -> Value {
    Value::Map(pairs.iter().map(|(key, value)| (Value::from(*key), value.clone())).collect())
}

/// Decodes a message without labels of a listener.
fn decode(message: &[u8]) -> Result<(Vec<String>, FluentMessage), FluentError> {
    let mut events = EventLines::default();
    let result = FluentDecoder::new(&Labels::default()).decode(message, INFLATED_BYTES_MAX, &mut events);
    if result.is_err() {
        assert_eq!(events.events, [""; 0], "a refused message has no event");
    }
    result.map(|message| (events.events, message))
}

/// The messages of a connection whose bytes arrive in these parts, up to the first error.
fn frames(message_bytes_max: usize, parts: &[&[u8]]) -> (Vec<Vec<u8>>, Option<FluentError>) {
    let (mut framer, mut buffer, mut found) = (FluentFramer::new(message_bytes_max), Vec::new(), Vec::new());
    for part in parts {
        buffer.extend_from_slice(part);
        loop {
            match framer.frame(&buffer) {
                Ok(FluentFrame::Whole(length)) => found.push(buffer.drain(..length).collect()),
                Ok(FluentFrame::Missing(count)) => {
                    assert!(count > 0 && buffer.len() + count <= message_bytes_max.max(1));
                    break;
                }
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}

/// The events and acknowledgements of a recorded connection.
fn connection(recorded: &[u8]) -> (Vec<String>, Vec<Vec<u8>>) {
    let (messages, error) = frames(1 << 20, &[recorded]);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(messages.concat(), recorded);
    let (mut events, mut acks) = (EventLines::default(), Vec::new());
    let mut decoder = FluentDecoder::new(&Labels::default());
    for message in messages {
        let message = decoder.decode(&message, INFLATED_BYTES_MAX, &mut events).unwrap();
        assert_eq!(message.decoded.rejected, 0);
        acks.extend(message.ack);
    }
    (events.events, acks)
}
