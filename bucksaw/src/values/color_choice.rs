//! When to colour output.

use clap::ValueEnum;

/// When to colour output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}
