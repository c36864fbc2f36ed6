//! Flags of the journal.

use std::path::PathBuf;

use bucksaw_forward::JournalConfig;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;

/// Which entries of systemd's journal are shipped.
#[derive(Clone, Debug, Args)]
pub(crate) struct JournalArgs {
    /// Ship systemd's journal, read by journalctl
    ///
    /// The first start begins where --read-from says: by default with the oldest entry that the journal has.
    #[arg(long)]
    journal: bool,

    /// Ship only the entries of this unit of the journal, such as nginx.service; repeatable
    #[arg(long, value_name = "UNIT", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    journal_unit: Vec<String>,

    /// Directory of the journal, if it is not that of the system
    #[arg(long, value_name = "DIR")]
    journal_dir: Option<PathBuf>,
}

impl JournalArgs {
    /// What to ship; `None` if the journal is not an input.
    pub(super) fn config(&self, skips_old_entries: bool) -> Option<JournalConfig> {
        let is_input = self.journal || !self.journal_unit.is_empty() || self.journal_dir.is_some();
        let (units, directory) = (self.journal_unit.clone(), self.journal_dir.clone());
        is_input.then_some(JournalConfig { units, directory, skips_old_entries })
    }
}
