//! What the verifier can be told.

use std::path::PathBuf;

use clap::Args;

/// Check every file of a data directory
///
/// Prints what is damaged, and whether records are lost by it. Exits with 1 if anything is damaged. Changes nothing
/// without `--repair`.
#[derive(Clone, Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The data directory of a node
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,

    /// Save what can be read of damaged segments; no node may run on the directory
    ///
    /// Segments of which nothing is lost are written anew. Of others all readable records go to a new segment, and the
    /// damaged file is kept beside it. Exits with 1 if anything is still damaged then.
    #[arg(long)]
    pub(crate) repair: bool,
}
