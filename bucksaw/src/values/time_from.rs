//! Where the time of a line comes from.

use bucksaw_record::time::TimeZone;
use clap::ValueEnum;

use super::DisplayZone;

/// Where the time of a line comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TimeFrom {
    /// From its arrival
    Arrival,
    /// From its text
    Line,
}

impl TimeFrom {
    /// The zone in which times of lines are read, if they are.
    pub(crate) fn line_zone(self, zone: &DisplayZone) -> Option<TimeZone> {
        (self == Self::Line).then(|| zone.zone().clone())
    }
}
