//! `bucksaw man`: manual pages from the tree of commands.

use std::path::{Path, PathBuf};

use anyhow::Context;
use bucksaw_env::{Fs, real, replace};
use clap::{Args, Command};
use clap_mangen::Man;

use crate::exit::Exit;
use crate::print::Out;

/// Print the manual page, or write a page per command
#[derive(Clone, Debug, Args)]
pub(crate) struct ManArgs {
    /// Write bucksaw.1 and one page per command into this directory; created if missing
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: ManArgs, mut tree: Command) -> anyhow::Result<Exit> {
    tree.build();
    let Some(dir) = args.dir else { return Out::print(&page(tree)?) };
    real::Fs.create_dir_all(&dir).with_context(|| format!("cannot create the directory {}", dir.display()))?;
    write_pages(&dir, "bucksaw", &tree)?;
    Ok(Exit::Done)
}

/// Writes the pages of a command and of its subcommands.
fn write_pages(dir: &Path, name: &str, command: &Command) -> anyhow::Result<()> {
    let path = dir.join(format!("{name}.1"));
    let page = page(command.clone().name(name.to_owned()))?;
    replace(&real::Fs, &path, &[&page]).with_context(|| format!("cannot write {}", path.display()))?;
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        write_pages(dir, &format!("{name}-{}", sub.get_name()), sub)?;
    }
    Ok(())
}

fn page(command: Command) -> anyhow::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    Ok(page)
}
