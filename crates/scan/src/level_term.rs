//! Level terms: the [level](bucksaw_record::level) of a record.
//!
//! The rule examines one record at a time. A regex finds the records that may have the level, in the text of a chunk
//! and in columns. So a search for a rare level builds few lines.

use std::sync::{Arc, OnceLock};

use bucksaw_record::expr::{LevelTest, Pattern};
use bucksaw_record::{Labels, Level, RecordView, level};

use crate::CompileError;
use crate::record_boundaries::ScanWindow;
use crate::regex_term::{CompiledPattern, RegexTerm, compile_for_records};

/// A test that passes some levels, and not the records without one.
#[derive(Debug)]
pub(crate) struct LevelTerm {
    levels: LevelSet,
    /// Matches every record that passes, and others.
    pub(crate) prefilter: RegexTerm,
}

/// A set of levels as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LevelSet(usize);

/// The number of sets of levels.
const SETS: usize = 1 << Level::ALL.len();

impl LevelSet {
    fn contains(self, level: Level) -> bool {
        self.0 & (1 << level as usize) != 0
    }
}

/// Which levels a test accepts.
#[derive(Debug)]
pub(crate) enum CompiledLevel {
    /// Every record passes, or none.
    Constant(bool),
    /// A record passes if the term matches, or if it does not match.
    Term { term: Arc<LevelTerm>, negated: bool },
}

impl CompiledLevel {
    pub(crate) fn of(test: LevelTest) -> Result<Self, CompileError> {
        // A term does not match records without a level, so a test that does is a negation.
        let negated = test.accepts(None);
        let levels = Level::ALL.into_iter().filter(|level| test.accepts(Some(*level)) != negated);
        match levels.fold(0, |set, level| set | 1 << level as usize) {
            0 => Ok(Self::Constant(negated)),
            set => Ok(Self::Term { term: LevelTerm::of(LevelSet(set))?, negated }),
        }
    }
}

impl LevelTerm {
    /// The term of a set that is not empty. Each is compiled once.
    fn of(levels: LevelSet) -> Result<Arc<Self>, CompileError> {
        static TERMS: [OnceLock<Arc<LevelTerm>>; SETS] = [const { OnceLock::new() }; SETS];
        let known = TERMS.get(levels.0);
        if let Some(term) = known.and_then(OnceLock::get) {
            return Ok(Arc::clone(term));
        }
        let names: Vec<Level> = Level::ALL.into_iter().filter(|level| levels.contains(*level)).collect();
        let pattern = Pattern { source: level::pattern(&names), case_insensitive: false };
        let prefilter = match compile_for_records(&pattern)? {
            CompiledPattern::Regex(regex) => *regex,
            CompiledPattern::Text(text) => RegexTerm::any_case(&text)?,
        };
        let term = Arc::new(Self { levels, prefilter });
        Ok(Arc::clone(known.map_or(&term, |known| known.get_or_init(|| Arc::clone(&term)))))
    }

    /// Whether the labels of a stream give its records a level that passes; `None` if they give no level.
    pub(crate) fn label_answer(&self, labels: &Labels) -> Option<bool> {
        Level::of_labels(labels).map(|level| self.levels.contains(level))
    }

    pub(crate) fn matches_record(&self, record: RecordView<'_>) -> bool {
        Level::of_record(record).is_some_and(|level| self.levels.contains(level))
    }

    /// The start of the first record at or after `from` that passes.
    pub(crate) fn seek(&self, window: &ScanWindow<'_>, mut from: usize) -> Option<usize> {
        while from < window.end {
            let start = self.prefilter.seek(window, from)?;
            if window.cancel_poll.is_cancelled() || self.matches_record(window.records.record(start)) {
                return Some(start);
            }
            from = window.records.next_start(start);
        }
        None
    }
}
