//! Line terms: a text or regex that matches in the line of a record, not in its attributes.

use std::sync::Arc;

use bucksaw_record::RecordView;
use bucksaw_search::CancelPoll;

use crate::record_boundaries::ScanWindow;
use crate::regex_term::RegexTerm;
use crate::text_term::TextTerm;

/// What matches in the line.
#[derive(Clone, Debug)]
pub(crate) enum LineTerm {
    Text(Arc<TextTerm>),
    Regex(Arc<RegexTerm>),
}

impl LineTerm {
    pub(crate) fn matches_record(&self, record: RecordView<'_>, cancel_poll: &CancelPoll<'_>) -> bool {
        match self {
            Self::Text(text) => text.matches_text(record.line()),
            Self::Regex(regex) => regex.matches_text(record.line(), cancel_poll),
        }
    }

    /// The start of the first record at or after `from` whose line matches.
    pub(crate) fn seek(&self, window: &ScanWindow<'_>, mut from: usize) -> Option<usize> {
        while from < window.end {
            let start = match self {
                Self::Text(text) => text.seek(window, from)?,
                Self::Regex(regex) => regex.seek(window, from)?,
            };
            let is_found = !window.records.has_attributes()
                || window.cancel_poll.is_cancelled()
                || self.matches_record(window.records.record(start), window.cancel_poll);
            if is_found {
                return Some(start);
            }
            from = window.records.next_start(start);
        }
        None
    }

    pub(crate) fn is_equivalent(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(mine), Self::Text(other)) => Arc::ptr_eq(mine, other),
            (Self::Regex(mine), Self::Regex(other)) => Arc::ptr_eq(mine, other),
            _ => false,
        }
    }
}
