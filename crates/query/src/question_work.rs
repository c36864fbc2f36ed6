//! What searches for the latest questions took: a question that is asked again is likely to take as much.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bits of a slot that are work; those above tell questions apart.
const WORK_BITS: u32 = 40;

/// The work of the last question of each of `SLOTS` slots. A question is a hash of its expression. A question that replaces another
/// one is remembered instead; two are taken for each other once in 2^24 such cases.
#[derive(Debug)]
pub(crate) struct QuestionWork<const SLOTS: usize>([AtomicU64; SLOTS]);

impl<const SLOTS: usize> QuestionWork<SLOTS> {
    pub(crate) const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; SLOTS])
    }

    pub(crate) fn note(&self, question: u64, work: u64) {
        let work = work.min((1 << WORK_BITS) - 1);
        self.slot(question).store((question >> WORK_BITS << WORK_BITS) | work, Ordering::Relaxed);
    }

    /// The work of a question, if it is remembered.
    pub(crate) fn get(&self, question: u64) -> Option<u64> {
        let known = self.slot(question).load(Ordering::Relaxed);
        (known != 0 && known >> WORK_BITS == question >> WORK_BITS).then_some(work_of(known))
    }

    /// The work of all questions that are remembered.
    pub(crate) fn all(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|slot| slot.load(Ordering::Relaxed)).filter(|known| *known != 0).map(work_of)
    }

    fn slot(&self, question: u64) -> &AtomicU64 {
        &self.0[question as usize % SLOTS]
    }
}

fn work_of(known: u64) -> u64 {
    known & ((1 << WORK_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_the_last_of_its_questions() {
        let known = QuestionWork::<8>::new();
        let (first, other, same_slot) = (0x1234_5600_0000_0003, 0x1234_5600_0000_0004, 0x9876_5400_0000_0003);
        assert_eq!((known.get(first), known.get(0), known.all().count()), (None, None, 0));
        known.note(first, 1_600);
        known.note(other, 20);
        assert_eq!([first, other, same_slot].map(|question| known.get(question)), [Some(1_600), Some(20), None]);
        known.note(same_slot, u64::MAX);
        assert_eq!([first, same_slot].map(|question| known.get(question)), [None, Some((1 << WORK_BITS) - 1)]);
        assert_eq!(known.all().min(), Some(20));
    }
}
