//! How output is shown: colours and the zone of times.

use clap::Args;
use clap::ColorChoice;

use crate::failure::UsageError;
use crate::layers::Layer;
use crate::values::DisplayZone;

/// Colours and the zone of times.
#[derive(Clone, Debug, Args)]
pub(crate) struct DisplayArgs {
    /// When to colour the output; auto is on a terminal, unless NO_COLOR is set
    #[arg(long, value_name = "WHEN", value_enum, default_value = "auto")]
    pub(crate) color: ColorChoice,

    /// Read and print times in UTC instead of local time
    #[arg(long)]
    pub(crate) utc: bool,

    /// Zone in which times are read and printed, such as Europe/Berlin or +02:00; defaults to that of the machine
    #[arg(long, value_name = "ZONE")]
    pub(crate) tz: Option<DisplayZone>,
}

impl DisplayArgs {
    /// Resolves `--utc` and `--tz` by the layer they come from; both from one layer are an error.
    pub(crate) fn apply_layers(&mut self, layer: impl Fn(&str) -> Layer) -> Result<(), UsageError> {
        if self.utc && self.tz.is_some() {
            let (utc, tz) = (layer("utc"), layer("tz"));
            if utc == tz {
                return Err(UsageError("both --utc and --tz are given: omit one of them".to_owned()));
            }
            self.utc = utc > tz;
        }
        Ok(())
    }

    /// The zone in which times are read and printed.
    pub(crate) fn zone(&self) -> DisplayZone {
        match &self.tz {
            _ if self.utc => DisplayZone::utc(),
            Some(zone) => zone.clone(),
            None => DisplayZone::system(),
        }
    }
}
