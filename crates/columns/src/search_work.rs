//! The work of searches in columns: what [`SearchBlock::work`](bucksaw_search::SearchBlock::work) adds up.
//!
//! One unit is the time in which a rare text is searched for in one byte that no cache of the processor has. The weights were fitted to the times of searches in the
//! blocks of many logs: `docs/performance.md`.
#![deny(clippy::indexing_slicing)]

/// A visit of a column or table, or a step of an alignment.
pub(crate) const VISIT: u64 = 600;

/// A row whose code or state is looked up.
pub(crate) const ROW: u64 = 24;

/// A number whose digits are looked up, some at a time.
pub(crate) const NUMBER_LOOK_UP: u64 = 70;

/// An occurrence of a needle.
pub(crate) const OCCURRENCE: u64 = 100;

/// Preparing a finder for one column.
pub(crate) const FINDER: u64 = 3_000;

/// A byte of a column whose edges are read.
pub(crate) const EDGE_BYTE: u64 = 20;

/// A byte in which a text is searched for in any case.
pub(crate) const ANY_CASE_BYTE: u64 = 2;

/// A value that is built, and one of its bytes.
pub(crate) const BUILT_VALUE: u64 = 300;
pub(crate) const BUILT_BYTE: u64 = 1;

/// A value over which an automaton runs, and a step over one of its bytes.
pub(crate) const RUN_VALUE: u64 = 300;
pub(crate) const STEP: u64 = 30;

/// A value that is written into lines, which are built column by column.
pub(crate) const WRITTEN_VALUE: u64 = 300;

/// A value of the columns from which the text of a block is built, and a byte of the text, which is written to new memory.
pub(crate) const TEXT_VALUE: u64 = 150;
pub(crate) const TEXT_BYTE: u64 = 10;
