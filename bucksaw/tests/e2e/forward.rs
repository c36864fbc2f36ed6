//! `forward` with inputs other than files.

mod command;
