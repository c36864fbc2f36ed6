//! What a writer sent, and what of it has to be there.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// How much older an id may be than the line's being sent: the clock may step back a little.
const CLOCK_SKEW_SECONDS: u64 = 2;

/// The numbered lines of one writer.
#[derive(Debug)]
pub struct Ledger {
    name: String,
    state: Mutex<LedgerState>,
}

#[derive(Debug, Default)]
struct LedgerState {
    /// By number, those that were, or are about to be, sent.
    lines: Vec<LedgerLine>,
    /// What was compared once is settled before here.
    since: ComparisonStart,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LedgerLine {
    /// Unix seconds before it was sent: its id is no older.
    before: u64,
    state: LineState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineState {
    /// It may be there, and may come yet.
    Pending,
    /// Nobody sends it again; it may be there.
    Abandoned,
    /// A node said that it keeps it, or it was found in a complete answer.
    Acknowledged,
}

/// Where a comparison begins. The default is the beginning of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComparisonStart {
    /// Lines from this number on are compared.
    number: usize,
    /// Unix seconds: no id of these is older. Ids of lines with lower numbers may be younger.
    pub seconds: u64,
}

/// What has to be found: taken before it is looked for.
#[derive(Debug)]
pub struct ExpectedLines {
    /// Where the comparison begins.
    pub since: ComparisonStart,
    pub(crate) lines: Vec<LedgerLine>,
}

/// What a comparison showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerComparison {
    /// Acknowledged, and not there.
    pub lost: Vec<u64>,
    /// There more than once.
    pub duplicated: Vec<u64>,
    /// How many are there and were never sent.
    pub unexpected: usize,
    /// The first of these.
    pub first_unexpected: Option<String>,
    /// By number, whether it is there.
    found: Vec<bool>,
}

impl LedgerComparison {
    /// Whether nothing is doubled and nothing foreign: that holds for parts of answers, too.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.duplicated.is_empty() && self.unexpected == 0
    }

    /// In words, when something is wrong.
    #[must_use]
    pub fn describe_failure(&self, partial: bool) -> Option<String> {
        let mut said = Vec::new();
        if !partial && !self.lost.is_empty() {
            said.push(format!("{} acknowledged lines are lost: {}", self.lost.len(), list_numbers(&self.lost)));
        }
        if !self.duplicated.is_empty() {
            said.push(format!("{} lines are doubled: {}", self.duplicated.len(), list_numbers(&self.duplicated)));
        }
        if let Some(first) = &self.first_unexpected {
            said.push(format!("{} lines were never sent: {first:?}", self.unexpected));
        }
        (!said.is_empty()).then(|| said.join("; "))
    }
}

fn list_numbers(numbers: &[u64]) -> String {
    let shown: Vec<String> = numbers.iter().take(5).map(u64::to_string).collect();
    let last = numbers.last().filter(|_| numbers.len() > 5).map(|last| format!(" … {last}"));
    shown.join(", ") + &last.unwrap_or_default()
}

impl Ledger {
    /// That of a writer of this name, which has sent nothing.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), state: Mutex::default() }
    }

    /// The writer's name: it is in each line.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    fn state(&self) -> MutexGuard<'_, LedgerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The numbers of the next lines. They count as sent.
    #[must_use]
    pub fn next(&self, count: usize) -> Range<u64> {
        let mut state = self.state();
        let first = state.lines.len();
        state.lines.resize(first + count, LedgerLine { before: earliest_seconds(), state: LineState::Pending });
        first as u64..(first + count) as u64
    }

    /// These lines as they are sent.
    #[must_use]
    pub fn text(&self, numbers: Range<u64>) -> Vec<u8> {
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

    /// A node said that it keeps these.
    pub fn acknowledge(&self, numbers: Range<u64>) {
        self.set_state(numbers, LineState::Acknowledged);
    }

    /// These are not sent again.
    pub fn abandon(&self, numbers: Range<u64>) {
        self.set_state(numbers, LineState::Abandoned);
    }

    /// What was found is acknowledged already, whatever the writer was told.
    fn set_state(&self, numbers: Range<u64>, fate: LineState) {
        let lines = &mut self.state().lines[numbers.start as usize..numbers.end as usize];
        lines.iter_mut().filter(|line| line.state != LineState::Acknowledged).for_each(|line| line.state = fate);
    }

    /// A node said that it keeps all that was sent.
    pub fn acknowledge_all(&self) {
        self.state().lines.iter_mut().for_each(|line| line.state = LineState::Acknowledged);
    }

    /// How many lines were, or are about to be, sent.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.state().lines.len() as u64
    }

    /// Of how many lines a node said that it keeps them, or that were found.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.state().lines.iter().filter(|line| line.state == LineState::Acknowledged).count() as u64
    }

    /// What has to be there of the lines that were not compared yet, or were not settled then.
    #[must_use]
    pub fn recent(&self) -> ExpectedLines {
        let state = self.state();
        ExpectedLines { since: state.since, lines: state.lines.clone() }
    }

    /// What has to be there of all lines.
    #[must_use]
    pub fn everything(&self) -> ExpectedLines {
        ExpectedLines { since: ComparisonStart::default(), lines: self.state().lines.clone() }
    }

    /// Compares the lines that were found with those that were sent, and with what has to be there.
    #[must_use]
    pub fn compare(&self, text: &[u8], expected: &ExpectedLines) -> LedgerComparison {
        let mut verdict =
            LedgerComparison { found: vec![false; self.state().lines.len()], ..LedgerComparison::default() };
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            let number = line.split_once(' ').and_then(|(number, _)| number.parse::<u64>().ok());
            let number = number.filter(|number| line == format!("{}\n", self.line(*number)));
            match number.and_then(|number| Some((number, verdict.found.get_mut(number as usize)?))) {
                None => {
                    verdict.unexpected += 1;
                    verdict.first_unexpected.get_or_insert_with(|| line.into_owned());
                }
                Some((number, place)) if *place => verdict.duplicated.push(number),
                Some((_, place)) => *place = true,
            }
        }
        let is_lost =
            |number: &usize| expected.lines[*number].state == LineState::Acknowledged && !verdict.found[*number];
        let numbers = expected.since.number..expected.lines.len();
        verdict.lost = numbers.filter(is_lost).map(|number| number as u64).collect();
        verdict
    }

    /// The number of a line.
    pub(crate) fn number(line: &[u8]) -> Option<u64> {
        std::str::from_utf8(line).ok()?.split_once(' ')?.0.parse().ok()
    }

    /// Whether there is a line among these that the comparison looks for.
    pub(crate) fn has_new(&self, text: &[u8], expected: &ExpectedLines) -> bool {
        let numbers = text.split(|byte| *byte == b'\n').filter_map(Self::number);
        numbers.max().is_some_and(|newest| newest >= expected.since.number as u64)
    }

    /// These were found in a complete answer when that was expected: they count as acknowledged. The next comparison
    /// begins at the first line that was open, and was not found: only then can none be passed over that is
    /// acknowledged later.
    pub fn mark_found(&self, verdict: &LedgerComparison, expected: &ExpectedLines) {
        let mut state = self.state();
        for (line, _) in state.lines.iter_mut().zip(&verdict.found).filter(|(_, found)| **found) {
            line.state = LineState::Acknowledged;
        }
        let is_open = |number: &usize| expected.lines[*number].state == LineState::Pending && !verdict.found[*number];
        let number = (expected.since.number..expected.lines.len()).find(is_open).unwrap_or(expected.lines.len());
        let seconds = state.lines.get(number).map_or_else(earliest_seconds, |line| line.before);
        // Another comparison may have come further.
        if number > state.since.number {
            state.since = ComparisonStart { number, seconds };
        }
    }
}

/// A time that no id of a line is older than which is sent from now on, in Unix seconds.
fn earliest_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().saturating_sub(CLOCK_SKEW_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_seen() {
        let ledger = Ledger::new("w");
        let all = ledger.text(ledger.next(4));
        ledger.acknowledge(1..3);
        let must = ledger.everything();
        let check = |text: &[u8], want: Option<&str>| {
            let wrong = ledger.compare(text, &must).describe_failure(false);
            assert_eq!(wrong.as_deref(), want);
        };
        check(&all, None);
        check(&ledger.text(1..3), None);
        check(&ledger.text(0..2), Some("1 acknowledged lines are lost: 2"));
        check(b"", Some("2 acknowledged lines are lost: 1, 2"));
        check(&[&all[..], &ledger.text(3..4)].concat(), Some("1 lines are doubled: 3"));
        let foreign = String::from_utf8(ledger.text(4..5)).unwrap();
        let want = format!("1 lines were never sent: {foreign:?}");
        check(&[&all[..], foreign.as_bytes()].concat(), Some(&want));
        assert!(ledger.compare(&all[..all.len() - 2], &must).describe_failure(true).unwrap().contains("never sent"));
        assert_eq!(ledger.compare(b"", &must).describe_failure(true), None);
    }

    #[test]
    fn only_what_is_settled_is_passed_over() {
        let ledger = Ledger::new("w");
        let _ = ledger.next(6);
        ledger.acknowledge(0..2);
        ledger.abandon(2..3);
        let compare = |expected: &ExpectedLines, numbers: Range<u64>| {
            let verdict = ledger.compare(&ledger.text(numbers), expected);
            if verdict.lost.is_empty() {
                ledger.mark_found(&verdict, expected);
                return Ok(ledger.recent().since.number);
            }
            Err(verdict.lost)
        };
        // What is acknowledged while the node is asked need not be in the answer; it has to be in the next one.
        let asked = ledger.recent();
        ledger.acknowledge(3..5);
        assert_eq!(compare(&asked, 0..2), Ok(3));
        assert_eq!(compare(&ledger.recent(), 0..3), Err(vec![3, 4]));
        // What was found is expected from then on, and what was given up is looked for only at the end.
        assert_eq!(compare(&ledger.recent(), 2..6), Ok(6));
        let _ = ledger.next(1);
        assert_eq!(compare(&ledger.recent(), 0..0), Ok(6));
        assert_eq!(compare(&ledger.everything(), 0..2), Err(vec![2, 3, 4, 5]));
        ledger.abandon(6..7);
        assert_eq!(compare(&ledger.everything(), 0..5), Err(vec![5]));
    }
}
