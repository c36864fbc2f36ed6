//! Finds the end of a MessagePack value, whose bytes may arrive in parts.

use super::head::scalar_length;
use super::{MsgpackError, MsgpackHead};

/// Scans one value after the other, and keeps its position between the parts of one, so that no byte is read twice.
///
/// Memory is bounded by the maximum depth. A length that a value states is only counted, never allocated.
#[derive(Debug)]
pub(super) struct MsgpackScanner {
    depth_max: usize,
    /// The offset of the next head. Beyond the available bytes while those of a string are missing.
    at: u64,
    /// For each array or map around the next head: how many of its values are not yet scanned.
    open: Vec<u64>,
    /// The sum of `open`: each of these values has at least one byte.
    outstanding: u64,
}

/// What the bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scanned {
    /// They begin with a whole value of this length.
    Whole(u64),
    /// The value has at least this length, which is more than there is.
    Partial(u64),
}

impl MsgpackScanner {
    /// A scanner for values with at most `depth_max` arrays and maps around each other.
    pub(super) fn new(depth_max: usize) -> Self {
        Self { depth_max, at: 0, open: Vec::new(), outstanding: 1 }
    }

    /// Continues with the value at the start of `bytes`, which begin with the bytes of the last call. After
    /// [`Scanned::Whole`] the next call is for another value.
    ///
    /// # Errors
    /// [`MsgpackError`] if the bytes are no value, or one that is nested too deeply.
    pub(super) fn scan(&mut self, bytes: &[u8]) -> Result<Scanned, MsgpackError> {
        while self.outstanding > 0 {
            let rest = usize::try_from(self.at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
            if let Some(length) = rest.first().and_then(|first| scalar_length(*first)) {
                self.at = self.at.saturating_add(length as u64);
                self.count(0);
                continue;
            }
            let Some(head) = MsgpackHead::read(rest)? else {
                let missing = self.outstanding.max(rest.len() as u64 + 1);
                return Ok(Scanned::Partial(self.at.saturating_add(missing)));
            };
            self.at = self.at.saturating_add(head.bytes as u64).saturating_add(head.payload);
            if head.is_container() && self.open.len() >= self.depth_max {
                return Err(MsgpackError::Nesting(self.depth_max));
            }
            self.count(head.children);
        }
        if self.at > bytes.len() as u64 {
            return Ok(Scanned::Partial(self.at));
        }
        let length = std::mem::take(&mut self.at);
        self.outstanding = 1;
        Ok(Scanned::Whole(length))
    }

    /// Counts a value as scanned, and its children as open.
    #[inline]
    fn count(&mut self, children: u64) {
        self.outstanding = (self.outstanding - 1).saturating_add(children);
        if let Some(open) = self.open.last_mut() {
            *open -= 1;
        }
        if children > 0 {
            self.open.push(children);
        }
        while self.open.last() == Some(&0) {
            self.open.pop();
        }
    }
}
