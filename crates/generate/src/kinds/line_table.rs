//! The table of one kind of lines.

use crate::incidents::LogLevel;

/// One kind of lines.
pub(super) struct LineTable {
    /// The text before and after each row's text.
    pub(super) affixes: (&'static str, &'static str),
    /// The lines of this kind.
    pub(super) rows: &'static [TemplateRow],
}

/// A level, a weight and a line.
pub(super) type TemplateRow = (LogLevel, u16, &'static str);
