//! `forward` with inputs other than files.

mod agent;
mod command;
mod listeners;
