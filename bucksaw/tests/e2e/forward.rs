//! `forward` with inputs other than files.

mod agent;
mod command;
mod journal;
mod listeners;
