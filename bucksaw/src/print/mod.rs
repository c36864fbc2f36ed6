//! Standard output: buffered, harmless to terminals, and quiet when its reader goes away.

mod colour;
mod human;
mod out;
mod record;
mod sanitise;

pub(crate) use colour::Colour;
pub(crate) use human::{bytes as human_bytes, seconds as human_seconds};
pub(crate) use out::Out;
pub(crate) use record::RecordPrinter;
pub(crate) use sanitise::sanitise;
