//! What is said first on a connection: who calls says what it speaks, and is told whether to go on.
//!
//! ```text
//! offset  size  field
//!      0     4  magic    "BKSW"
//!      4     1  version  asked: the highest spoken; answered: the one to speak, no higher
//!      5     1  how      asked: 0 in plain, 1 sealed; answered: 0 go on, else why not
//! ```

pub(super) const BYTES: usize = 6;

const MAGIC: [u8; 4] = *b"BKSW";

/// The version spoken here, the highest and the lowest.
const VERSION: u8 = 1;

/// What who calls says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PeerHello {
    pub(super) version: u8,
    pub(super) sealed: bool,
}

/// What it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PeerHelloReply {
    pub(super) version: u8,
    pub(super) refusal: Option<HandshakeRefusal>,
}

/// Why a connection is refused, in the words of the one who is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HandshakeRefusal {
    #[error("the peer speaks another version of the node protocol")]
    VersionMismatch,
    #[error("the peer requires a cluster secret, and this node has none")]
    SecretRequired,
    #[error("the peer has no cluster secret, and this node has one")]
    SecretUnexpected,
    #[error("the peer has a different cluster secret")]
    SecretMismatch,
    #[error("the peer has too many connections")]
    TooManyConnections,
}

/// The numbers of refusals; 0 is none.
const REFUSAL_CODES: [(u8, HandshakeRefusal); 5] = [
    (1, HandshakeRefusal::VersionMismatch),
    (2, HandshakeRefusal::SecretRequired),
    (3, HandshakeRefusal::SecretUnexpected),
    (4, HandshakeRefusal::SecretMismatch),
    (5, HandshakeRefusal::TooManyConnections),
];

impl PeerHello {
    /// What this node says.
    pub(super) fn new(sealed: bool) -> Self {
        Self { version: VERSION, sealed }
    }

    pub(super) fn encode(self) -> [u8; BYTES] {
        let [a, b, c, d] = MAGIC;
        [a, b, c, d, self.version, u8::from(self.sealed)]
    }

    /// `None` when that is no node.
    pub(super) fn decode(bytes: [u8; BYTES]) -> Option<Self> {
        let [magic @ .., version, how] = bytes;
        (magic == MAGIC && how <= 1).then_some(Self { version, sealed: how == 1 })
    }

    /// The answer to it, as far as it can be known without proof of the secret.
    pub(super) fn reply(self, sealed: bool) -> PeerHelloReply {
        let refusal = match (self.sealed, sealed) {
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
        let refusal = REFUSAL_CODES.iter().find(|(_, refusal)| Some(*refusal) == self.refusal);
        [a, b, c, d, self.version, refusal.map_or(0, |(number, _)| *number)]
    }

    /// `None` when that is no node, or refuses for a reason of the future.
    pub(super) fn decode(bytes: [u8; BYTES]) -> Option<Self> {
        let [magic @ .., version, how] = bytes;
        if magic != MAGIC {
            return None;
        }
        let refusal = match how {
            // Who is told to go on in a version that it does not speak cannot.
            0 if version != VERSION => Some(HandshakeRefusal::VersionMismatch),
            0 => None,
            number => Some(REFUSAL_CODES.iter().find(|(known, _)| *known == number)?.1),
        };
        Some(Self { version, refusal })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip() {
        for sealed in [false, true] {
            let hello = PeerHello::new(sealed);
            assert_eq!(PeerHello::decode(hello.encode()), Some(hello));
        }
        for refusal in REFUSAL_CODES.iter().map(|(_, refusal)| Some(*refusal)).chain([None]) {
            let answer = PeerHelloReply { version: VERSION, refusal };
            assert_eq!(PeerHelloReply::decode(answer.encode()), Some(answer));
        }
    }

    #[test]
    fn a_matching_peer_is_accepted() {
        let check = |sealed, here| PeerHello::new(sealed).reply(here).refusal;
        assert_eq!(check(false, false), None);
        assert_eq!(check(true, true), None);
        assert_eq!(check(false, true), Some(HandshakeRefusal::SecretRequired));
        assert_eq!(check(true, false), Some(HandshakeRefusal::SecretUnexpected));
    }

    #[test]
    fn the_lower_version_is_chosen() {
        let later = PeerHello { version: VERSION + 1, sealed: false };
        assert_eq!(later.reply(false), PeerHelloReply { version: VERSION, refusal: None });
        let earlier = PeerHello { version: VERSION - 1, sealed: false };
        assert_eq!(earlier.reply(false).refusal, Some(HandshakeRefusal::VersionMismatch));
        let answer = PeerHelloReply { version: VERSION + 1, refusal: None };
        assert_eq!(PeerHelloReply::decode(answer.encode()).unwrap().refusal, Some(HandshakeRefusal::VersionMismatch));
    }

    #[test]
    fn other_protocols_are_not_decoded() {
        assert_eq!(PeerHello::decode(*b"GET / "), None);
        assert_eq!(PeerHello::decode(*b"BKSW\x01\x02"), None);
        assert_eq!(PeerHelloReply::decode(*b"HTTP/1"), None);
        assert_eq!(PeerHelloReply::decode(*b"BKSW\x01\xff"), None);
    }
}
