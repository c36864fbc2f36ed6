//! Opening blocks, decoding columns, and building lines.

pub(crate) mod codes;
pub(crate) mod column_block;
mod column_decoder;
pub(crate) mod column_tree;
pub(crate) mod decoded_column;
pub(crate) mod decoded_numbers;
pub(crate) mod fixed_width_format;
pub(crate) mod line_lengths;
mod materialise;
pub(crate) mod number_planes;
pub(crate) mod partition;
mod row_lengths;
pub(crate) mod some_columns;
mod suffixed_values;
pub(crate) mod table_rows;
pub(crate) mod value_source;
