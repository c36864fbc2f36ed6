//! `bucksaw completions`: prints a completion script for a shell.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::exit::Exit;
use crate::print::Out;

/// Print completions for a shell
///
/// For bash: `bucksaw completions bash > ~/.local/share/bash-completion/completions/bucksaw`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: CompletionsArgs, mut tree: Command) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut tree, "bucksaw", &mut script);
    Out::print(&script)
}
