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
pub(super) struct Hello {
    pub(super) version: u8,
    pub(super) sealed: bool,
}

/// What it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) version: u8,
    pub(super) refusal: Option<Refusal>,
}

/// Why a connection is refused, in the words of the one who is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("that node speaks another version of the protocol between nodes")]
    Version,
    #[error("that node has a cluster secret, this one has none")]
    SecretWanted,
    #[error("that node has no cluster secret, this one has")]
    NoSecretHere,
    #[error("that node has another cluster secret")]
    OtherSecret,
    #[error("that node has too many connections")]
    Full,
}

/// The numbers of refusals; 0 is none.
const REFUSALS: [(u8, Refusal); 5] = [
    (1, Refusal::Version),
    (2, Refusal::SecretWanted),
    (3, Refusal::NoSecretHere),
    (4, Refusal::OtherSecret),
    (5, Refusal::Full),
];

impl Hello {
    /// What this node says.
    pub(super) fn ours(sealed: bool) -> Self {
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
    pub(super) fn answer(self, sealed: bool) -> Answer {
        let refusal = match (self.sealed, sealed) {
            _ if self.version < VERSION => Some(Refusal::Version),
            (false, true) => Some(Refusal::SecretWanted),
            (true, false) => Some(Refusal::NoSecretHere),
            _ => None,
        };
        Answer { version: VERSION, refusal }
    }
}

impl Answer {
    pub(super) fn encode(self) -> [u8; BYTES] {
        let [a, b, c, d] = MAGIC;
        let refusal = REFUSALS.iter().find(|(_, refusal)| Some(*refusal) == self.refusal);
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
            0 if version != VERSION => Some(Refusal::Version),
            0 => None,
            number => Some(REFUSALS.iter().find(|(known, _)| *known == number)?.1),
        };
        Some(Self { version, refusal })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for sealed in [false, true] {
            let hello = Hello::ours(sealed);
            assert_eq!(Hello::decode(hello.encode()), Some(hello));
        }
        for refusal in REFUSALS.iter().map(|(_, refusal)| Some(*refusal)).chain([None]) {
            let answer = Answer { version: VERSION, refusal };
            assert_eq!(Answer::decode(answer.encode()), Some(answer));
        }
    }

    #[test]
    fn who_fits_is_welcome() {
        let check = |sealed, here| Hello::ours(sealed).answer(here).refusal;
        assert_eq!(check(false, false), None);
        assert_eq!(check(true, true), None);
        assert_eq!(check(false, true), Some(Refusal::SecretWanted));
        assert_eq!(check(true, false), Some(Refusal::NoSecretHere));
    }

    #[test]
    fn versions_meet_at_the_lower_one() {
        let later = Hello { version: VERSION + 1, sealed: false };
        assert_eq!(later.answer(false), Answer { version: VERSION, refusal: None });
        let earlier = Hello { version: VERSION - 1, sealed: false };
        assert_eq!(earlier.answer(false).refusal, Some(Refusal::Version));
        let answer = Answer { version: VERSION + 1, refusal: None };
        assert_eq!(Answer::decode(answer.encode()).unwrap().refusal, Some(Refusal::Version));
    }

    #[test]
    fn others_are_no_nodes() {
        assert_eq!(Hello::decode(*b"GET / "), None);
        assert_eq!(Hello::decode(*b"BKSW\x01\x02"), None);
        assert_eq!(Answer::decode(*b"HTTP/1"), None);
        assert_eq!(Answer::decode(*b"BKSW\x01\xff"), None);
    }
}
