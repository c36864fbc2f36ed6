//! What a writer sent, and what of it has to be there.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

/// The numbered lines of one writer.
#[derive(Debug)]
pub(crate) struct Ledger {
    name: &'static str,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Lines with lower numbers were, or are about to be, sent.
    sent: u64,
    /// By number, whether the line was acknowledged, or was seen.
    acknowledged: Vec<bool>,
}

impl Ledger {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, state: Mutex::default() }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The numbers of the next lines. They count as sent.
    pub(crate) fn next(&self, count: usize) -> Range<u64> {
        let mut state = self.state();
        let first = state.sent;
        state.sent += count as u64;
        let sent = state.sent as usize;
        state.acknowledged.resize(sent, false);
        first..state.sent
    }

    /// These lines as they are sent.
    pub(crate) fn text(&self, numbers: Range<u64>) -> Vec<u8> {
        let mut text = String::new();
        for number in numbers {
            text += &self.line(number);
            text.push('\n');
        }
        text.into_bytes()
    }

    fn line(&self, number: u64) -> String {
        let filler = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!("{number} of {}: {filler:016x} {:064b}", self.name, filler)
    }

    /// The node said that it keeps these.
    pub(crate) fn acknowledge(&self, numbers: Range<u64>) {
        self.state().acknowledged[numbers.start as usize..numbers.end as usize].fill(true);
    }

    pub(crate) fn acknowledge_all(&self) {
        self.state().acknowledged.fill(true);
    }

    /// These were found.
    pub(crate) fn saw(&self, found: Vec<bool>) {
        let mut state = self.state();
        state.acknowledged.iter_mut().zip(found).for_each(|(acknowledged, found)| *acknowledged |= found);
    }

    /// How many were acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.state().acknowledged.iter().filter(|acknowledged| **acknowledged).count() as u64
    }

    /// By number, whether a line was acknowledged.
    pub(crate) fn snapshot(&self) -> Vec<bool> {
        self.state().acknowledged.clone()
    }

    /// Compares the lines that were found: each was sent, none is there twice, and all that were acknowledged are there.
    /// Returns which are.
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn compare(&self, text: &[u8], acknowledged: &[bool]) -> Result<Vec<bool>, String> {
        let mut found = vec![false; self.state().sent as usize];
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            let number = line.split_once(' ').and_then(|(number, _)| number.parse::<usize>().ok());
            let number = number.filter(|number| line == format!("{}\n", self.line(*number as u64)));
            let Some(place) = number.and_then(|number| found.get_mut(number)) else {
                return Err(format!("{}: found a line that was never sent: {line:?}", self.name));
            };
            if *place {
                return Err(format!("{}: found twice: {line:?}", self.name));
            }
            *place = true;
        }
        let is_lost = |number: &usize| acknowledged[*number] && !found[*number];
        let lost: Vec<usize> = (0..acknowledged.len()).filter(is_lost).collect();
        match lost.first() {
            None => Ok(found),
            Some(first) => {
                Err(format!("{}: {} acknowledged lines are lost, the first is {first}", self.name, lost.len()))
            }
        }
    }
}

#[test]
fn kill_ledger_sees_what_is_wrong() {
    let ledger = Ledger::new("w");
    let all = ledger.text(ledger.next(4));
    ledger.acknowledge(1..3);
    let must = ledger.snapshot();
    let check = |text: &[u8], want: Result<&[bool], &str>| match (ledger.compare(text, &must), want) {
        (Ok(found), Ok(want)) => assert_eq!(found, want),
        (Err(error), Err(want)) => assert!(error.contains(want), "{error}"),
        (got, want) => panic!("{got:?}, not {want:?}"),
    };
    check(&all, Ok(&[true; 4]));
    check(&ledger.text(1..3), Ok(&[false, true, true, false]));
    check(&ledger.text(0..2), Err("1 acknowledged lines are lost, the first is 2"));
    check(b"", Err("2 acknowledged lines are lost, the first is 1"));
    check(&[&all[..], &ledger.text(3..4)].concat(), Err("found twice"));
    check(&[&all[..], &ledger.text(4..5)].concat(), Err("never sent"));
    check(&all[..all.len() - 2], Err("never sent"));
}
