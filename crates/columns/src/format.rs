//! Bytes of the block format that both encoder and decoder name. `docs/format.md` describes the whole format.

/// The place of a token in a layout. A zero byte of the text is always part of a token, so no delimiter contains one.
pub(crate) const TOKEN_PLACEHOLDER: u8 = 0;

/// The first byte of a column: its encoding.
pub(crate) const CONSTANT: u8 = 0;
pub(crate) const RAW: u8 = 1;
pub(crate) const INTEGERS: u8 = 2;
pub(crate) const FIXED_WIDTH: u8 = 3;
pub(crate) const DICTIONARY: u8 = 4;
pub(crate) const MAPPED: u8 = 5;
pub(crate) const COPY: u8 = 6;
pub(crate) const TABLES: u8 = 7;
