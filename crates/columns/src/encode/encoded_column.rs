//! The tree of columns that the encoder builds and the writer serialises.

use crate::encode::number_planes::NumberPlanes;
use crate::fixed_width::PatternByte;

/// A column as it is written. Columns with the same values are the same.
#[derive(Debug, PartialEq)]
pub(crate) enum EncodedColumn {
    /// All values are this.
    Constant(Vec<u8>),
    /// The values, an LF after each.
    Raw(Vec<u8>),
    /// Decimal numbers as anybody would write them.
    Integers(NumberPlanes),
    /// Values of one length that differ in digits.
    Fixed { pattern: Vec<PatternByte>, numbers: Vec<NumberPlanes>, nibbles: Vec<u8> },
    /// Numbers of distinct values, and these.
    Dictionary { codes: Vec<u32>, distinct: usize, values: Box<Self> },
    /// Distinct values whose number follows from that of another column of the same table.
    Mapped { determinant: usize, map: Vec<u32>, values: Box<Self> },
    /// The same values as another column of the same table.
    Copy { column: usize },
    /// Values by their layout.
    Tables(LayoutTables),
}

/// Values by their layout.
#[derive(Debug, PartialEq)]
pub(crate) struct LayoutTables {
    pub(crate) tables: Vec<EncodedTable>,
    /// For each value its table + 1; 0 for those in `rest`.
    pub(crate) table_ids: Vec<u32>,
    /// Values that are kept whole, an LF after each.
    pub(crate) outliers: Vec<u8>,
}

/// Values of one layout: a table of its tokens.
#[derive(Debug, PartialEq)]
pub(crate) struct EncodedTable {
    pub(crate) rows: usize,
    /// The literals, with [`TOKEN`] for each column.
    pub(crate) layout: Vec<u8>,
    pub(crate) columns: Vec<EncodedColumn>,
}
