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
/// With [`Self::asking_for_user`], PING also has the name of a user, and a digest of a salt, the name and a password. Key and
/// password authenticate, and encrypt nothing: use TLS for that.
pub struct FluentHandshake {
    shared_key: Vec<u8>,
    hostname: String,
    nonce: [u8; NONCE_BYTES],
    /// The salt of passwords; `None` if no user is asked for.
    user_salt: Option<[u8; NONCE_BYTES]>,
}

/// The user that a PING names.
pub struct FluentUser<'a> {
    /// The name; empty if the sender has none.
    pub name: &'a str,
    digest: &'a [u8],
    salt: &'a [u8],
}

impl FluentUser<'_> {
    /// Whether the sender knows this password of the user. Takes constant time.
    pub fn has_password(&self, password: &str) -> bool {
        let digest = sha512_hex([self.salt, self.name.as_bytes(), password.as_bytes()]);
        digest.as_bytes().ct_eq(self.digest).into()
    }
}

impl fmt::Debug for FluentUser<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FluentUser").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The answer to a PING.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FluentPong {
    /// The bytes to send; then close the connection unless the sender is accepted.
    pub answer: Vec<u8>,
    /// Whether the sender knows the key, and its user was accepted.
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
        Self { shared_key: shared_key.to_vec(), hostname: hostname.to_owned(), nonce, user_salt: None }
    }

    /// Also asks for a user and its password. `salt` is random, and used once.
    #[must_use]
    pub fn asking_for_user(self, salt: [u8; NONCE_BYTES]) -> Self {
        Self { user_salt: Some(salt), ..self }
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
        match &self.user_salt {
            Some(salt) => _ = rmp::encode::write_bin(&mut out, salt),
            None => _ = rmp::encode::write_str(&mut out, ""),
        }
        let _ = rmp::encode::write_str(&mut out, "keepalive");
        let _ = rmp::encode::write_bool(&mut out, true);
        out
    }

    /// Checks a whole PING. `accept_user` decides about the user, if one is asked for and the sender knows the key.
    ///
    /// # Errors
    /// [`FluentError`] if the message is none: close the connection.
    pub fn answer(
        &self,
        ping: &[u8],
        accept_user: impl FnOnce(&FluentUser<'_>) -> bool,
    ) -> Result<FluentPong, FluentError> {
        let mut values = MsgpackReader::new(ping);
        let is_array = matches!(values.value()?, MsgpackValue::Array(4..));
        if !is_array || string(&mut values)? != b"PING" {
            return Err(FluentError::Structure("the listener has a shared key, and the sender does not send PING"));
        }
        let (client, salt, digest) = (string(&mut values)?, string(&mut values)?, string(&mut values)?);
        let knows_key = bool::from(self.digest(salt, client).as_bytes().ct_eq(digest));
        let is_accepted = match &self.user_salt {
            Some(user_salt) if knows_key => {
                let (name, digest) = (string(&mut values)?, string(&mut values)?);
                let name =
                    str::from_utf8(name).map_err(|_| FluentError::Structure("the name of the user is not UTF-8"))?;
                accept_user(&FluentUser { name, digest, salt: user_salt })
            }
            _ => knows_key,
        };
        let reason = match (knows_key, is_accepted) {
            (false, _) => "shared_key mismatch",
            (true, false) => "username/password mismatch",
            (true, true) => "",
        };
        let own_digest = if is_accepted { self.digest(salt, self.hostname.as_bytes()) } else { String::new() };
        let mut answer = Vec::new();
        let _ = rmp::encode::write_array_len(&mut answer, 5);
        let _ = rmp::encode::write_str(&mut answer, "PONG");
        let _ = rmp::encode::write_bool(&mut answer, is_accepted);
        let _ = rmp::encode::write_str(&mut answer, reason);
        let _ = rmp::encode::write_str(&mut answer, if is_accepted { &self.hostname } else { "" });
        let _ = rmp::encode::write_str(&mut answer, &own_digest);
        let client = String::from_utf8_lossy(client).chars().take(255).collect();
        Ok(FluentPong { answer, is_accepted, client })
    }

    /// The digest with which the host of this name proves that it has the key, in hexadecimal digits.
    fn digest(&self, salt: &[u8], hostname: &[u8]) -> String {
        sha512_hex([salt, hostname, &self.nonce, &self.shared_key])
    }
}

impl fmt::Debug for FluentHandshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FluentHandshake").field("hostname", &self.hostname).finish_non_exhaustive()
    }
}

/// The digest of these parts together, in hexadecimal digits.
fn sha512_hex<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut digest = Sha512::new();
    parts.into_iter().for_each(|part| digest.update(part));
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The next value, a string or bytes.
fn string<'a>(values: &mut MsgpackReader<'a>) -> Result<&'a [u8], FluentError> {
    match values.value()? {
        MsgpackValue::Text(text) | MsgpackValue::Binary(text) => Ok(text),
        _ => Err(FluentError::Structure("an element of PING is not a string")),
    }
}
