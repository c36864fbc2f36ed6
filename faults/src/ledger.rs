//! Records the lines that a writer sent, and which of them must be answered.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// The maximum by which an id may be older than the sending of its line, because the clock may step back a little.
const CLOCK_SKEW_SECONDS: u64 = 2;

/// The numbered lines of a writer.
#[derive(Debug)]
pub struct Ledger {
    name: String,
    state: Mutex<LedgerState>,
}

#[derive(Debug, Default)]
struct LedgerState {
    /// The states of lines that were or will be sent, by number.
    lines: Vec<LedgerLine>,
    /// All lines with lower numbers are settled.
    since: ComparisonStart,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LedgerLine {
    /// Unix seconds before the line was sent; its id is not older.
    before: u64,
    state: LineState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineState {
    /// May be stored, now or later.
    Pending,
    /// Not sent again; may be stored.
    Abandoned,
    /// Acknowledged, or found in a complete answer.
    Acknowledged,
}

/// The start of a comparison. The default compares everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComparisonStart {
    /// The first line number.
    number: usize,
    /// Unix seconds; no id of these lines is older. Lines with lower numbers may have newer ids.
    pub seconds: u64,
}

/// The lines that must be found, determined before the query.
#[derive(Debug)]
pub struct ExpectedLines {
    /// The start of the comparison.
    pub since: ComparisonStart,
    pub(crate) lines: Vec<LedgerLine>,
}

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerComparison {
    /// Acknowledged lines that are missing.
    pub lost: Vec<u64>,
    /// Lines found more than once.
    pub duplicated: Vec<u64>,
    /// The number of lines that were never sent.
    pub unexpected: usize,
    /// The first line that was never sent.
    pub first_unexpected: Option<String>,
    /// Whether each line was found, by number.
    found: Vec<bool>,
}

impl LedgerComparison {
    /// Whether no line is duplicated or unexpected, which also holds for partial answers.
    pub fn is_clean(&self) -> bool {
        self.duplicated.is_empty() && self.unexpected == 0
    }

    /// A description of the problems, if there are any.
    pub fn describe_failure(&self, partial: bool) -> Option<String> {
        let mut problems = Vec::new();
        if !partial && !self.lost.is_empty() {
            problems.push(format!("{} acknowledged lines are lost: {}", self.lost.len(), list_numbers(&self.lost)));
        }
        if !self.duplicated.is_empty() {
            problems.push(format!(
                "{} lines are duplicated: {}",
                self.duplicated.len(),
                list_numbers(&self.duplicated)
            ));
        }
        if let Some(first) = &self.first_unexpected {
            problems.push(format!("{} lines were never sent: {first:?}", self.unexpected));
        }
        (!problems.is_empty()).then(|| problems.join("; "))
    }
}

fn list_numbers(numbers: &[u64]) -> String {
    let shown: Vec<String> = numbers.iter().take(5).map(u64::to_string).collect();
    let last = numbers.last().filter(|_| numbers.len() > 5).map(|last| format!(" … {last}"));
    shown.join(", ") + &last.unwrap_or_default()
}

impl Ledger {
    /// A ledger without lines for a writer of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), state: Mutex::default() }
    }

    /// The name of the writer, which each line contains.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn state(&self) -> MutexGuard<'_, LedgerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The numbers of the next `count` lines, which count as sent.
    #[must_use]
    pub fn next(&self, count: usize) -> Range<u64> {
        let mut state = self.state();
        let first = state.lines.len();
        state.lines.resize(first + count, LedgerLine { before: earliest_seconds(), state: LineState::Pending });
        first as u64..(first + count) as u64
    }

    /// The text of these lines.
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

    /// Marks lines as acknowledged.
    pub fn acknowledge(&self, numbers: Range<u64>) {
        self.set_state(numbers, LineState::Acknowledged);
    }

    /// Marks lines as not sent again.
    pub fn abandon(&self, numbers: Range<u64>) {
        self.set_state(numbers, LineState::Abandoned);
    }

    /// A line that was found stays acknowledged.
    fn set_state(&self, numbers: Range<u64>, fate: LineState) {
        let lines = &mut self.state().lines[numbers.start as usize..numbers.end as usize];
        lines.iter_mut().filter(|line| line.state != LineState::Acknowledged).for_each(|line| line.state = fate);
    }

    /// Marks all sent lines as acknowledged.
    pub fn acknowledge_all(&self) {
        self.state().lines.iter_mut().for_each(|line| line.state = LineState::Acknowledged);
    }

    /// The number of lines that were or will be sent.
    pub fn sent(&self) -> u64 {
        self.state().lines.len() as u64
    }

    /// The number of lines that were acknowledged or found.
    pub fn acknowledged(&self) -> u64 {
        self.state().lines.iter().filter(|line| line.state == LineState::Acknowledged).count() as u64
    }

    /// The lines to find among those that are not settled.
    pub fn recent(&self) -> ExpectedLines {
        let state = self.state();
        ExpectedLines { since: state.since, lines: state.lines.clone() }
    }

    /// The lines to find among all.
    pub fn everything(&self) -> ExpectedLines {
        ExpectedLines { since: ComparisonStart::default(), lines: self.state().lines.clone() }
    }

    /// Compares the lines found with the lines sent and with those that must be found.
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

    /// The number in a line.
    pub(crate) fn number(line: &[u8]) -> Option<u64> {
        std::str::from_utf8(line).ok()?.split_once(' ')?.0.parse().ok()
    }

    /// Whether a line is part of the comparison.
    pub(crate) fn has_new(&self, text: &[u8], expected: &ExpectedLines) -> bool {
        let numbers = text.split(|byte| *byte == b'\n').filter_map(Self::number);
        numbers.max().is_some_and(|newest| newest >= expected.since.number as u64)
    }

    /// Marks the lines found in a complete answer as acknowledged. The next comparison starts at the first line that
    /// was open and not found, so it includes every line acknowledged later.
    pub fn mark_found(&self, verdict: &LedgerComparison, expected: &ExpectedLines) {
        let mut state = self.state();
        for (line, _) in state.lines.iter_mut().zip(&verdict.found).filter(|(_, found)| **found) {
            line.state = LineState::Acknowledged;
        }
        let is_open = |number: &usize| expected.lines[*number].state == LineState::Pending && !verdict.found[*number];
        let number = (expected.since.number..expected.lines.len()).find(is_open).unwrap_or(expected.lines.len());
        let seconds = state.lines.get(number).map_or_else(earliest_seconds, |line| line.before);
        // A concurrent comparison may have advanced further.
        if number > state.since.number {
            state.since = ComparisonStart { number, seconds };
        }
    }
}

/// Unix seconds; no id of a line sent from now on is older.
fn earliest_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().saturating_sub(CLOCK_SKEW_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_report_every_problem() {
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
        check(&[&all[..], &ledger.text(3..4)].concat(), Some("1 lines are duplicated: 3"));
        let unexpected = String::from_utf8(ledger.text(4..5)).unwrap();
        let want = format!("1 lines were never sent: {unexpected:?}");
        check(&[&all[..], unexpected.as_bytes()].concat(), Some(&want));
        assert!(ledger.compare(&all[..all.len() - 2], &must).describe_failure(true).unwrap().contains("never sent"));
        assert_eq!(ledger.compare(b"", &must).describe_failure(true), None);
    }

    #[test]
    fn only_settled_lines_are_skipped() {
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
        // Lines acknowledged during the query may be missing from the answer; the next one must have them.
        let recent = ledger.recent();
        ledger.acknowledge(3..5);
        assert_eq!(compare(&recent, 0..2), Ok(3));
        assert_eq!(compare(&ledger.recent(), 0..3), Err(vec![3, 4]));
        // Lines that were found are expected from then on. Abandoned lines are compared only at the end.
        assert_eq!(compare(&ledger.recent(), 2..6), Ok(6));
        let _ = ledger.next(1);
        assert_eq!(compare(&ledger.recent(), 0..0), Ok(6));
        assert_eq!(compare(&ledger.everything(), 0..2), Err(vec![2, 3, 4, 5]));
        ledger.abandon(6..7);
        assert_eq!(compare(&ledger.everything(), 0..5), Err(vec![5]));
    }
}
