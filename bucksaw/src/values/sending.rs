//! What senders of records state: durability, labels, and where times come from.

use bucksaw_ingest::Durability;
use bucksaw_record::Labels;
use bucksaw_record::time::TimeZone;
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::DisplayZone;
use crate::failure::UsageError;

/// Parses one of these durabilities.
pub(crate) fn durability(names: &[&'static str]) -> impl TypedValueParser<Value = Durability> + use<> {
    PossibleValuesParser::new(names.iter().copied()).try_map(|name| name.parse::<Durability>())
}

/// The labels of all flags `--label`.
pub(crate) fn all_labels(flags: &[Labels]) -> Result<Labels, UsageError> {
    Labels::new(flags.iter().flat_map(Labels::iter)).map_err(|error| UsageError(format!("--label: {error}")))
}

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
