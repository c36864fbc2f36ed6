//! Standard output: buffered, sanitised on a terminal, silent when its reader is gone.

mod colour;
mod human;
mod out;
mod record;
mod sanitise;
mod template;

pub(crate) use colour::Colour;
pub(crate) use human::{bytes as human_bytes, plural, seconds as human_seconds};
pub(crate) use out::{Out, PipeClosed};
pub(crate) use record::{RecordPrefix, RecordPrinter, RecordStyle};
pub(crate) use sanitise::sanitise;
