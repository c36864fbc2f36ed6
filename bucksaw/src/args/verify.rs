//! What the verifier can be told.

use std::path::PathBuf;

use clap::Args;

/// Check every segment of a data directory
///
/// Prints what is damaged, and exits with 1 if anything is. Changes nothing.
#[derive(Clone, Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The data directory of a node
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}
