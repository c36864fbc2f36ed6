//! `bucksaw man`: the manual pages, made from the same tree as the help texts.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;
use bucksaw_env::{Fs, real};
use clap::{Args, Command};
use clap_mangen::Man;

use crate::exit::Exit;
use crate::print::Out;

/// Print the manual page, or write a page per command
#[derive(Clone, Debug, Args)]
pub(crate) struct ManArgs {
    /// Write bucksaw.1 and one page per command into this directory; made when missing
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: ManArgs, mut tree: Command) -> anyhow::Result<Exit> {
    tree.build();
    if let Some(dir) = args.dir {
        real::Fs.create_dir_all(&dir).with_context(|| format!("cannot make the directory {}", dir.display()))?;
        write_pages(&dir, "bucksaw", &tree)?;
    } else {
        let mut out = Out::stdout()?;
        out.write(&page(tree)?)?;
        out.flush()?;
    }
    Ok(Exit::Done)
}

/// Writes the page of a command and those of the commands below it.
fn write_pages(dir: &Path, name: &str, command: &Command) -> anyhow::Result<()> {
    let path = dir.join(format!("{name}.1"));
    let new = dir.join(format!("{name}.1.new"));
    let named = command.clone().name(name.to_owned());
    let write = || -> anyhow::Result<()> {
        // What an interrupted run has left would be in the way.
        match real::Fs.remove(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        real::Fs.create(&new)?.append(&[&page(named)?])?;
        Ok(real::Fs.rename(&new, &path)?)
    };
    write().with_context(|| format!("cannot write {}", path.display()))?;
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
