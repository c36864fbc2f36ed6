//! What is remembered of the contents of a file, to recognise it under another name or number.

use twox_hash::XxHash3_64;

/// The length of a full fingerprint.
pub const FINGERPRINT_BYTES_MAX: usize = 1_024;

/// The length of a full anchor.
pub const ANCHOR_BYTES_MAX: usize = 64;

/// The hash of the first bytes of a file. It covers more bytes as the file grows, up to [`FINGERPRINT_BYTES_MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint {
    length: u16,
    hash: u64,
}

impl Fingerprint {
    /// The fingerprint of a file that begins with `head`.
    pub fn of(head: &[u8]) -> Self {
        let head = head.get(..FINGERPRINT_BYTES_MAX).unwrap_or(head);
        if head.is_empty() {
            return Self::default();
        }
        Self { length: head.len() as u16, hash: XxHash3_64::oneshot(head) }
    }

    /// From its parts; `None` if the length is too large.
    pub(crate) fn from_parts(length: u16, hash: u64) -> Option<Self> {
        let is_valid = usize::from(length) <= FINGERPRINT_BYTES_MAX && (length > 0 || hash == 0);
        is_valid.then_some(Self { length, hash })
    }

    /// The number of bytes that it covers.
    pub fn length(&self) -> usize {
        usize::from(self.length)
    }

    /// The hash of these bytes; 0 of none.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Whether a file that begins with `head` has this fingerprint. A shorter head does not match.
    pub fn matches(&self, head: &[u8]) -> bool {
        head.get(..self.length()).is_some_and(|head| Self::of(head) == *self)
    }
}

/// The bytes before an offset, up to [`ANCHOR_BYTES_MAX`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Anchor {
    bytes: [u8; ANCHOR_BYTES_MAX],
    length: u8,
}

impl Anchor {
    /// The end of `text`.
    pub fn of(text: &[u8]) -> Self {
        Self::default().followed_by(text)
    }

    /// The anchor after `text` was appended.
    #[must_use]
    pub fn followed_by(&self, text: &[u8]) -> Self {
        let own = self.as_bytes();
        let text = text.get(text.len().saturating_sub(ANCHOR_BYTES_MAX)..).unwrap_or_default();
        let kept = own.len().min(ANCHOR_BYTES_MAX - text.len());
        let kept = own.get(own.len() - kept..).unwrap_or_default();
        let mut bytes = [0; ANCHOR_BYTES_MAX];
        for (to, from) in bytes.iter_mut().zip(kept.iter().chain(text)) {
            *to = *from;
        }
        Self { bytes, length: (kept.len() + text.len()) as u8 }
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

impl Default for Anchor {
    fn default() -> Self {
        Self { bytes: [0; ANCHOR_BYTES_MAX], length: 0 }
    }
}

impl std::fmt::Debug for Anchor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Anchor({})", self.as_bytes().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_covers_the_first_bytes() {
        let long: Vec<u8> = (0..3_000_u32).map(|n| n as u8).collect();
        let full = Fingerprint::of(&long);
        assert_eq!((full.length(), full), (1_024, Fingerprint::of(&long[..1_024])));
        assert!(full.matches(&long) && !full.matches(&long[..1_023]) && !full.matches(&long[1..]));
        assert!(Fingerprint::of(b"ab").matches(b"abc") && !Fingerprint::of(b"ab").matches(b"acb"));
        assert!(Fingerprint::default().matches(b""));
        assert_eq!(Fingerprint::from_parts(1_025, 1), None);
    }

    #[test]
    fn an_anchor_is_the_end_of_the_text() {
        let text: Vec<u8> = (0..200).collect();
        for cut in 0..text.len() {
            let (head, tail) = text.split_at(cut);
            assert_eq!(Anchor::of(head).followed_by(tail), Anchor::of(&text), "{cut}");
        }
        assert_eq!(Anchor::of(&text).as_bytes(), &text[136..]);
        assert_eq!(Anchor::of(b"ab").followed_by(b"c").as_bytes(), b"abc");
    }
}
