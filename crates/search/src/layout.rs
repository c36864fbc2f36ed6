//! Layouts: what rows of a block have in common, with places for what differs.

use std::ops::Range;

/// A part of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutPart<'a> {
    /// A text that all rows of the layout have here.
    Literal(&'a [u8]),
    /// A value of each row, which may be empty.
    Value,
}

/// A byte of a layout: the number of its part, and the offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutOffset {
    /// The number of the part.
    pub part: usize,
    /// The offset in a literal; 0 in a value.
    pub offset: usize,
}

/// Where the rows of a layout have the text to test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestedText<R> {
    /// The layout does not decide it.
    Unknown,
    /// No row has such a text.
    Absent,
    /// In this range, and the role of the text. A value is in the range as a whole or not at all. The offset at the end is that
    /// behind the last byte.
    At(Range<LayoutOffset>, R),
}

/// Reads many rows by their layout instead of row by row.
///
/// A reading of a layout holds for the rows whose values fit their roles. Texts that fit a role one by one also fit it
/// when joined. The roles follow from the layout alone, whatever is tested, so a codec may remember which rows fit.
pub trait LayoutReader {
    /// What a value must be for a reading to hold, such as a part of a quoted text.
    type Role: Copy;

    /// The role of each [`LayoutPart::Value`], in their order; `None` if the layout does not decide how its rows are read.
    fn roles(&self, layout: &[LayoutPart<'_>]) -> Option<Vec<Self::Role>>;

    /// Finds the text to test in the rows whose values fit their roles.
    fn find(&self, layout: &[LayoutPart<'_>]) -> TestedText<Self::Role>;

    /// Whether a text fits a role.
    fn fits(&self, role: Self::Role, text: &[u8]) -> bool;

    /// Whether every part of a text that is not empty fits a role, wherever the text is divided; `false` is always allowed.
    fn all_parts_fit(&self, role: Self::Role, text: &[u8]) -> bool;

    /// Whether the tested text of a row passes.
    fn passes(&self, role: Self::Role, text: &[u8]) -> bool;
}
