//! The handshake: proves that the sender has the shared key.

use std::fmt;

use sha2::{Digest as _, Sha512};
use subtle::ConstantTimeEq as _;

use super::{FluentError, MsgpackReader, MsgpackValue};

/// Bytes of a nonce. It is the 16 bytes that Fluentd uses.
const NONCE_BYTES: usize = 16;

/// The handshake on one connection, of a listener with a shared key.
///
/// ```text
///   listener                                           sender
///   HELO nonce                                   ─►
///                                                ◄─    PING hostname, salt, digest of salt, hostname, nonce, key
///   PONG hostname, digest of salt, hostname, nonce, key ─►
///                                                ◄─    messages
/// ```
/// User names and passwords are not supported. The key authenticates both sides, and encrypts nothing: use TLS for
/// that.
pub struct FluentHandshake {
    shared_key: Vec<u8>,
    hostname: String,
    nonce: [u8; NONCE_BYTES],
}

/// The answer to a PING.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FluentPong {
    /// The bytes to send; then close the connection unless the sender is accepted.
    pub answer: Vec<u8>,
    /// Whether the sender knows the key.
    pub is_accepted: bool,
    /// The name that the sender states for itself, at most 255 characters of it.
    pub client: String,
}

impl FluentHandshake {
    /// The maximum length of a PING in bytes; give it to the [`FluentFramer`](super::FluentFramer) of the handshake.
    pub const PING_BYTES_MAX: usize = 4 << 10;

    /// The handshake of a new connection. `nonce` is random, and used once. `hostname` is the name that the listener states;
    /// Fluentd refuses a listener of its own name.
    pub fn new(shared_key: &[u8], hostname: &str, nonce: [u8; NONCE_BYTES]) -> Self {
        Self { shared_key: shared_key.to_vec(), hostname: hostname.to_owned(), nonce }
    }

    /// The first bytes that the listener sends.
    pub fn helo(&self) -> Vec<u8> {
        let mut out = Vec::new();
        // Writing to memory has no error.
        let _ = rmp::encode::write_array_len(&mut out, 2);
        let _ = rmp::encode::write_str(&mut out, "HELO");
        let _ = rmp::encode::write_map_len(&mut out, 3);
        let _ = rmp::encode::write_str(&mut out, "nonce");
        let _ = rmp::encode::write_bin(&mut out, &self.nonce);
        let _ = rmp::encode::write_str(&mut out, "auth");
        let _ = rmp::encode::write_str(&mut out, "");
        let _ = rmp::encode::write_str(&mut out, "keepalive");
        let _ = rmp::encode::write_bool(&mut out, true);
        out
    }

    /// Checks a whole PING.
    ///
    /// # Errors
    /// [`FluentError`] if the message is none: close the connection.
    pub fn answer(&self, ping: &[u8]) -> Result<FluentPong, FluentError> {
        let mut values = MsgpackReader::new(ping);
        let is_array = matches!(values.value()?, MsgpackValue::Array(4..));
        if !is_array || string(&mut values)? != b"PING" {
            return Err(FluentError::Structure("the listener has a shared key, and the sender does not send PING"));
        }
        let (client, salt, digest) = (string(&mut values)?, string(&mut values)?, string(&mut values)?);
        let is_accepted = bool::from(self.digest(salt, client).as_bytes().ct_eq(digest));
        let own_digest = if is_accepted { self.digest(salt, self.hostname.as_bytes()) } else { String::new() };
        let mut answer = Vec::new();
        let _ = rmp::encode::write_array_len(&mut answer, 5);
        let _ = rmp::encode::write_str(&mut answer, "PONG");
        let _ = rmp::encode::write_bool(&mut answer, is_accepted);
        let _ = rmp::encode::write_str(&mut answer, if is_accepted { "" } else { "shared_key mismatch" });
        let _ = rmp::encode::write_str(&mut answer, if is_accepted { &self.hostname } else { "" });
        let _ = rmp::encode::write_str(&mut answer, &own_digest);
        let client = String::from_utf8_lossy(client).chars().take(255).collect();
        Ok(FluentPong { answer, is_accepted, client })
    }

    /// The digest with which the host of this name proves that it has the key, in hexadecimal digits.
    fn digest(&self, salt: &[u8], hostname: &[u8]) -> String {
        let mut digest = Sha512::new();
        for part in [salt, hostname, &self.nonce, &self.shared_key] {
            digest.update(part);
        }
        digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for FluentHandshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FluentHandshake").field("hostname", &self.hostname).finish_non_exhaustive()
    }
}

/// The next value, a string or bytes.
fn string<'a>(values: &mut MsgpackReader<'a>) -> Result<&'a [u8], FluentError> {
    match values.value()? {
        MsgpackValue::Text(text) | MsgpackValue::Binary(text) => Ok(text),
        _ => Err(FluentError::Structure("an element of PING is not a string")),
    }
}
