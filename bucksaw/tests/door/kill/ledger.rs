//! What a writer sent, and what of it has to be there.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

/// How much older an id may be than the line's being sent: the clock may step back a little.
const BACK_SECONDS: u64 = 1;

/// The numbered lines of one writer.
#[derive(Debug)]
pub(crate) struct Ledger {
    name: &'static str,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By number, those that were, or are about to be, sent.
    lines: Vec<Line>,
    /// What was compared once is settled before here.
    since: Since,
}

#[derive(Clone, Copy, Debug)]
struct Line {
    /// Unix seconds before it was sent: its id is no older.
    before: u64,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It may be there, and may come yet.
    Open,
    /// Nobody sends it again; it may be there.
    GivenUp,
    /// The node said that it keeps it, or it was found.
    Acknowledged,
}

/// Where a comparison begins. The default is the beginning of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Since {
    /// Lines from this number on are compared.
    number: usize,
    /// Unix seconds: no id of these is older. Ids of lines with lower numbers may be younger.
    pub(crate) seconds: u64,
}

/// What has to be found: taken before it is looked for.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) since: Since,
    lines: Vec<Line>,
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
        let first = state.lines.len();
        state.lines.resize(first + count, Line { before: before(), fate: Fate::Open });
        first as u64..(first + count) as u64
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
        self.settle(numbers, Fate::Acknowledged);
    }

    /// These are not sent again.
    pub(crate) fn give_up(&self, numbers: Range<u64>) {
        self.settle(numbers, Fate::GivenUp);
    }

    /// What was found is acknowledged already, whatever the writer was told.
    fn settle(&self, numbers: Range<u64>, fate: Fate) {
        let lines = &mut self.state().lines[numbers.start as usize..numbers.end as usize];
        lines.iter_mut().filter(|line| line.fate != Fate::Acknowledged).for_each(|line| line.fate = fate);
    }

    pub(crate) fn acknowledge_all(&self) {
        self.state().lines.iter_mut().for_each(|line| line.fate = Fate::Acknowledged);
    }

    /// How many were acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.state().lines.iter().filter(|line| line.fate == Fate::Acknowledged).count() as u64
    }

    /// What has to be there of the lines that were not compared yet, or were not settled then.
    pub(crate) fn recent(&self) -> Expected {
        let state = self.state();
        Expected { since: state.since, lines: state.lines.clone() }
    }

    /// What has to be there of all lines.
    pub(crate) fn everything(&self) -> Expected {
        Expected { since: Since::default(), lines: self.state().lines.clone() }
    }

    /// Compares the lines that were found: each was sent, none is there twice, and all that were acknowledged are there.
    /// Returns which are.
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn compare(&self, text: &[u8], expected: &Expected) -> Result<Vec<bool>, String> {
        let mut found = vec![false; self.state().lines.len()];
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
        let is_lost = |number: &usize| expected.lines[*number].fate == Fate::Acknowledged && !found[*number];
        let lost: Vec<usize> = (expected.since.number..expected.lines.len()).filter(is_lost).collect();
        match lost.first() {
            None => Ok(found),
            Some(first) => {
                Err(format!("{}: {} acknowledged lines are lost, the first is {first}", self.name, lost.len()))
            }
        }
    }

    /// These were found when that was expected: they are acknowledged. The next comparison begins at the first line that
    /// was open, and was not found: only then can none be passed over that is acknowledged later.
    pub(crate) fn saw(&self, found: &[bool], expected: &Expected) {
        let mut state = self.state();
        for (line, _) in state.lines.iter_mut().zip(found).filter(|(_, found)| **found) {
            line.fate = Fate::Acknowledged;
        }
        let is_open = |number: &usize| expected.lines[*number].fate == Fate::Open && !found[*number];
        let number = (state.since.number..expected.lines.len()).find(is_open).unwrap_or(expected.lines.len());
        let seconds = state.lines.get(number).map_or_else(before, |line| line.before);
        state.since = Since { number, seconds };
    }
}

/// A time that no id of a line is older than which is sent from now on, in Unix seconds.
fn before() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() - BACK_SECONDS
}

#[test]
fn kill_ledger_sees_what_is_wrong() {
    let ledger = Ledger::new("w");
    let all = ledger.text(ledger.next(4));
    ledger.acknowledge(1..3);
    let must = ledger.everything();
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

#[test]
fn kill_ledger_passes_over_only_what_is_settled() {
    let ledger = Ledger::new("w");
    let _ = ledger.next(6);
    ledger.acknowledge(0..2);
    ledger.give_up(2..3);
    let compare = |expected: &Expected, numbers: Range<u64>| {
        let found = ledger.compare(&ledger.text(numbers), expected)?;
        ledger.saw(&found, expected);
        Ok::<usize, String>(ledger.recent().since.number)
    };
    // What is acknowledged while the node is asked need not be in the answer; it has to be in the next one.
    let asked = ledger.recent();
    ledger.acknowledge(3..5);
    assert_eq!(compare(&asked, 0..2), Ok(3));
    let lost =
        |first: usize, count: usize| Err(format!("w: {count} acknowledged lines are lost, the first is {first}"));
    assert_eq!(compare(&ledger.recent(), 0..3), lost(3, 2));
    // What was found is expected from then on, and what was given up is looked for only at the end.
    assert_eq!(compare(&ledger.recent(), 2..6), Ok(6));
    let _ = ledger.next(1);
    assert_eq!(compare(&ledger.recent(), 0..0), Ok(6));
    assert_eq!(compare(&ledger.everything(), 0..2), lost(2, 4));
    ledger.give_up(5..6);
    assert_eq!(compare(&ledger.everything(), 0..5), lost(5, 1));
}
