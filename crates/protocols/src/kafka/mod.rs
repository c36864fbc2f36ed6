//! Messages of Kafka: value, key, headers and timestamp of each as one event. What reads them from a broker is elsewhere.
//!
//! [`KafkaDecoder`] decodes the messages of one topic; [`KafkaMapping`] says how. The mapping is in `docs/senders/kafka.md`.
//!
//! Each message is exactly one event, whatever is in it, because its offset is committed and it is not read again: what does
//! not fit the mapping is stored as it is, with the reason ([`Undecoded`]) as an attribute.
//!
//! An event depends on the message alone, not on the clock, so a message that is read again gives an equal one.

mod decoder;
mod mapping;
mod undecoded;

pub use decoder::{KafkaDecoder, KafkaMessage};
pub use mapping::{KafkaFormat, KafkaMapping};
pub use undecoded::Undecoded;

#[cfg(test)]
mod tests;
