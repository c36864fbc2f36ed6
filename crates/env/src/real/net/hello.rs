//! The first message in each direction of a connection: the protocol version, and whether the connection is encrypted.
//!
//! ```text
//! offset  size  field
//!      0     4  magic    "BKSW"
//!      4     1  version  request: the highest supported; reply: the selected one, which is not higher
//!      5     1  mode     request: 0 plain, 1 encrypted; reply: 0 accepted, else a HandshakeRefusal
//! ```

pub(super) const BYTES: usize = 6;

const MAGIC: [u8; 4] = *b"BKSW";

/// The only supported version.
const VERSION: u8 = 1;

/// The message of the calling node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PeerHello {
    pub(super) version: u8,
    pub(super) is_encrypted: bool,
}

/// The message of the called node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PeerHelloReply {
    pub(super) version: u8,
    pub(super) refusal: Option<HandshakeRefusal>,
}

/// Why the called node refuses a connection; 0 on the wire is acceptance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, strum::FromRepr)]
#[repr(u8)]
pub(super) enum HandshakeRefusal {
    #[error("the nodes have no common version of the protocol")]
    VersionMismatch = 1,
    #[error("the called node has a cluster secret, and the calling node has none")]
    SecretRequired = 2,
    #[error("the calling node has a cluster secret, and the called node has none")]
    SecretUnexpected = 3,
    #[error("the nodes have different cluster secrets")]
    SecretMismatch = 4,
    #[error("the called node has too many connections")]
    TooManyConnections = 5,
}

impl PeerHello {
    pub(super) fn new(is_encrypted: bool) -> Self {
        Self { version: VERSION, is_encrypted }
    }

    pub(super) fn encode(self) -> [u8; BYTES] {
        let [a, b, c, d] = MAGIC;
        [a, b, c, d, self.version, u8::from(self.is_encrypted)]
    }

    /// `None` if the peer is not a node.
    pub(super) fn decode(bytes: [u8; BYTES]) -> Option<Self> {
        let [magic @ .., version, mode] = bytes;
        (magic == MAGIC && mode <= 1).then_some(Self { version, is_encrypted: mode == 1 })
    }

    /// The reply of a node with or without a secret, before the peer has proved its own.
    pub(super) fn reply(self, has_secret: bool) -> PeerHelloReply {
        let refusal = match (self.is_encrypted, has_secret) {
            _ if self.version < VERSION => Some(HandshakeRefusal::VersionMismatch),
            (false, true) => Some(HandshakeRefusal::SecretRequired),
            (true, false) => Some(HandshakeRefusal::SecretUnexpected),
            _ => None,
        };
        PeerHelloReply { version: VERSION, refusal }
    }
}

impl PeerHelloReply {
    pub(super) fn encode(self) -> [u8; BYTES] {
        let [a, b, c, d] = MAGIC;
        [a, b, c, d, self.version, self.refusal.map_or(0, |refusal| refusal as u8)]
    }

    /// `None` if the peer is not a node, or refuses for an unknown reason.
    pub(super) fn decode(bytes: [u8; BYTES]) -> Option<Self> {
        let [magic @ .., version, result] = bytes;
        if magic != MAGIC {
            return None;
        }
        let refusal = match result {
            // The selected version is not supported here.
            0 if version != VERSION => Some(HandshakeRefusal::VersionMismatch),
            0 => None,
            code => Some(HandshakeRefusal::from_repr(code)?),
        };
        Some(Self { version, refusal })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip() {
        for is_encrypted in [false, true] {
            let hello = PeerHello::new(is_encrypted);
            assert_eq!(PeerHello::decode(hello.encode()), Some(hello));
        }
        for refusal in (1..=5).filter_map(HandshakeRefusal::from_repr).map(Some).chain([None]) {
            let reply = PeerHelloReply { version: VERSION, refusal };
            assert_eq!(PeerHelloReply::decode(reply.encode()), Some(reply));
        }
    }

    #[test]
    fn a_matching_peer_is_accepted() {
        let check = |is_encrypted, has_secret| PeerHello::new(is_encrypted).reply(has_secret).refusal;
        assert_eq!(check(false, false), None);
        assert_eq!(check(true, true), None);
        assert_eq!(check(false, true), Some(HandshakeRefusal::SecretRequired));
        assert_eq!(check(true, false), Some(HandshakeRefusal::SecretUnexpected));
    }

    #[test]
    fn the_lower_version_is_chosen() {
        let later = PeerHello { version: VERSION + 1, is_encrypted: false };
        assert_eq!(later.reply(false), PeerHelloReply { version: VERSION, refusal: None });
        let earlier = PeerHello { version: VERSION - 1, is_encrypted: false };
        assert_eq!(earlier.reply(false).refusal, Some(HandshakeRefusal::VersionMismatch));
        let reply = PeerHelloReply { version: VERSION + 1, refusal: None };
        assert_eq!(PeerHelloReply::decode(reply.encode()).unwrap().refusal, Some(HandshakeRefusal::VersionMismatch));
    }

    #[test]
    fn other_protocols_are_not_decoded() {
        assert_eq!(PeerHello::decode(*b"GET / "), None);
        assert_eq!(PeerHello::decode(*b"BKSW\x01\x02"), None);
        assert_eq!(PeerHelloReply::decode(*b"HTTP/1"), None);
        assert_eq!(PeerHelloReply::decode(*b"BKSW\x01\xff"), None);
    }
}
