//! The tree of columns that the encoder builds and the writer serialises.

use crate::encode::number_planes::NumberPlanes;
use crate::fixed_width::PatternByte;

/// An encoded column. Columns with equal values are equal.
#[derive(Debug, PartialEq)]
pub(crate) enum EncodedColumn {
    /// The value of all rows.
    Constant(Vec<u8>),
    /// The values, an LF after each.
    Raw(Vec<u8>),
    /// Decimal numbers in canonical form.
    Integers(NumberPlanes),
    /// Fixed-width values.
    Fixed { pattern: Vec<PatternByte>, numbers: Vec<NumberPlanes>, nibbles: Vec<u8> },
    /// Codes and distinct values.
    Dictionary { codes: Vec<u32>, distinct: usize, values: Box<Self> },
    /// Distinct values whose codes are a function of those of another column of the table.
    Mapped { determinant: usize, map: Vec<u32>, values: Box<Self> },
    /// The values of another column of the table.
    Copy { column: usize },
    /// Values grouped by layout.
    Tables(LayoutTables),
}

/// Values grouped by layout.
#[derive(Debug, PartialEq)]
pub(crate) struct LayoutTables {
    pub(crate) tables: Vec<EncodedTable>,
    /// For each value the number of its table plus 1; 0 for an outlier.
    pub(crate) table_ids: Vec<u32>,
    /// Values of no table, an LF after each.
    pub(crate) outliers: Vec<u8>,
}

/// Values of one layout: a table of its tokens.
#[derive(Debug, PartialEq)]
pub(crate) struct EncodedTable {
    pub(crate) rows: usize,
    /// The literals, with [`TOKEN_PLACEHOLDER`](crate::format::TOKEN_PLACEHOLDER) for each column.
    pub(crate) layout: Vec<u8>,
    pub(crate) columns: Vec<EncodedColumn>,
}
