//! Decoded columns, with access to any row.
#![deny(clippy::indexing_slicing)]

use std::sync::OnceLock;

use crate::decode::codes::DecodedCodes;
use crate::decode::decoded_numbers::DecodedNumbers;
use crate::decode::table_rows::TableRows;

/// A decoded column.
#[derive(Debug)]
pub(crate) enum DecodedColumn {
    /// The starts of the values of a raw column, and the end.
    TextStarts(Vec<u32>),
    Numbers(DecodedNumbers),
    Fixed(Vec<DecodedNumbers>),
    /// Dictionary codes, and the values if they are not a raw column.
    Codes {
        /// `None` if the determinant has the same codes.
        codes: Option<DecodedCodes>,
        texts: OnceLock<Option<OwnedTexts>>,
    },
    TableRows(TableRows),
}

/// Adjacent texts.
#[derive(Debug)]
pub(crate) struct OwnedTexts {
    pub(crate) bytes: Vec<u8>,
    /// The starts, and the end.
    pub(crate) starts: Vec<u32>,
}

/// A view of adjacent texts, with padding behind them.
#[derive(Clone, Copy)]
pub(crate) struct TextsRef<'b> {
    pub(crate) bytes: &'b [u8],
    pub(crate) starts: &'b [u32],
    /// Bytes between two texts.
    pub(crate) separator_bytes: u32,
}

impl<'b> TextsRef<'b> {
    /// A text.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<&'b [u8]> {
        let [start, end] = self.starts.get(at..at + 2)? else { return None };
        self.bytes.get(*start as usize..end.checked_sub(self.separator_bytes)? as usize)
    }

    /// The start and length of a text.
    #[inline]
    pub(crate) fn range(&self, at: usize) -> Option<(usize, usize)> {
        let [start, end] = self.starts.get(at..at + 2)? else { return None };
        Some((*start as usize, end.checked_sub(self.separator_bytes)?.checked_sub(*start)? as usize))
    }
}

impl DecodedColumn {
    pub(crate) fn of_codes(codes: Option<DecodedCodes>) -> Self {
        Self::Codes { codes, texts: OnceLock::new() }
    }

    pub(crate) fn memory(&self) -> usize {
        match self {
            Self::TextStarts(list) => list.len() * 4,
            Self::Codes { codes, .. } => codes.as_ref().map_or(0, DecodedCodes::memory),
            Self::Numbers(numbers) => numbers.memory(),
            Self::Fixed(lists) => lists.iter().map(DecodedNumbers::memory).sum(),
            Self::TableRows(table_rows) => table_rows.memory(),
        }
    }
}
