//! Encoding text as columns, and the choice between columns and zstd.

mod boundaries;
mod byte_class;
mod column_links;
mod dictionary;
mod digit_pattern;
mod encoded_column;
pub(crate) mod encoder;
mod frame_packer;
mod hash;
mod layout_groups;
mod number_planes;
mod numeric;
mod payload_class;
mod text_span;
mod tokeniser;
mod tree_encoder;
mod tree_writer;
pub(crate) mod values;
pub(crate) mod verify;
mod work_budget;
mod zstd_sample;
