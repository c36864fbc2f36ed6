//! The run hash.

/// A hash over all events of a run.
#[derive(Debug, Default)]
pub(super) struct RunHash(u64);

/// The kind of an event.
#[derive(Clone, Copy, Debug)]
pub(super) enum TraceEvent {
    Polled,
    Fired,
    Datagram,
    Piece,
    Call,
    Fault,
}

impl RunHash {
    pub(super) fn add(&mut self, event: TraceEvent, what: u64) {
        self.mix(event as u64);
        self.mix(what);
    }

    /// The same for an event with bytes.
    pub(super) fn add_bytes(&mut self, event: TraceEvent, what: u64, bytes: &[u8]) {
        self.add(event, what);
        self.mix(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.mix(u64::from_le_bytes(*word)));
        if !rest.is_empty() {
            let mut word = [0; 8];
            word.iter_mut().zip(rest).for_each(|(byte, source)| *byte = *source);
            self.mix(u64::from_le_bytes(word));
        }
    }

    pub(super) fn value(&self) -> u64 {
        self.0
    }

    /// The step of FxHash, and a shift, because high bits of a product never affect lower ones.
    fn mix(&mut self, word: u64) {
        let product = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
        self.0 = product ^ (product >> 32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_kind_and_bytes_count() {
        let of = |events: &[(TraceEvent, u64, &[u8])]| {
            let mut trace = RunHash::default();
            for (event, what, bytes) in events {
                trace.add_bytes(*event, *what, bytes);
            }
            trace.value()
        };
        let (a, b): ((_, _, &[u8]), (_, _, &[u8])) =
            ((TraceEvent::Piece, 1, b"123456789"), (TraceEvent::Piece, 2, b""));
        assert_eq!(of(&[a, b]), of(&[a, b]));
        assert_ne!(of(&[a, b]), of(&[b, a]));
        assert_ne!(of(&[a]), of(&[(TraceEvent::Datagram, 1, b"123456789")]));
        assert_ne!(of(&[a]), of(&[(TraceEvent::Piece, 1, b"123456780")]));
        assert_ne!(of(&[b]), of(&[(TraceEvent::Piece, 2, b"\0")]));
    }
}
