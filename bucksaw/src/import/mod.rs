//! `bucksaw import`: sends files to a node, so that each line becomes one record however often the files are imported.
//!
//! A file is divided into parts of some MiB at line ends ([`parts`]), by its text alone. Each part is one request with an
//! `Idempotency-Key` that follows from the text and its offset, and a time that follows from the text too ([`PartClock`]). The
//! node derives the ids from these, so the same text has the same ids on every day and at every node, whether it is compressed
//! or not. Nothing is remembered on disk here: an interrupted import is repeated from the beginning of the file.

mod input;
mod part_clock;
mod parts;
mod upload;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use bucksaw_ingest::Durability;
use bucksaw_record::Labels;
use clap::{Args, ValueEnum};

use crate::args::{ClientTlsArgs, NodeArgs, PresentedTokenArgs};
use crate::exit::Exit;
use crate::failure::{UsageError, print_error};
use crate::node_client::{NodeClient, runtime};
use crate::print::human_bytes;
use crate::progress::Progress;
use crate::values::{DisplayZone, NodeUrl, all_labels, durability};
use input::Input;
use part_clock::PartClock;
use parts::Parts;
use upload::Upload;

/// Import files into a node
///
/// Each line becomes one record, also if a file is imported again, on any day and at any node: after an interruption, repeat
/// the command. A file is known by its text and its labels, not by its name or compression. For files that still grow, use
/// 'bucksaw forward'.
#[derive(Clone, Debug, Args)]
pub(crate) struct ImportArgs {
    /// Files, plain or compressed with gzip or zstd; - for standard input
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,

    /// Node to send to, such as http://10.0.0.1:7650, localhost:7650, or :7650 for this machine; https:// for TLS
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7650")]
    addr: NodeUrl,

    #[command(flatten)]
    token: PresentedTokenArgs,

    #[command(flatten)]
    tls: ClientTlsArgs,

    /// Label of the records, such as app=web; repeatable, or several with commas
    #[arg(long = "label", value_name = "K=V", value_parser = Labels::parse)]
    labels: Vec<Labels>,

    /// When a part of a file counts as imported
    ///
    /// `fast`: when the node has written it, `durable`: when the node has synced it to disk, `bulk`: when it is in the store.
    #[arg(long, value_name = "WHEN", default_value = "durable")]
    #[arg(value_parser = durability(&["fast", "durable", "bulk"]))]
    durability: Durability,

    /// Time of the lines: the one near the start of the line, or that of the file
    ///
    /// A line without a time has that of the line before it. See docs/times.md for the forms.
    #[arg(long, value_name = "FROM", value_enum, default_value = "line")]
    time_from: ImportTime,

    /// Zone of times in lines that name none: an IANA name, UTC, an offset, or local
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    time_zone: DisplayZone,
}

/// Where the time of a line comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ImportTime {
    /// From its text
    Line,
    /// From the last change of the file
    File,
}

/// What was imported.
#[derive(Clone, Copy, Debug, Default)]
struct Imported {
    records: u64,
    bytes: u64,
}

pub(crate) fn run(args: &ImportArgs) -> anyhow::Result<Exit> {
    for path in &args.paths {
        if path.is_dir() {
            let shown = path.display();
            return Err(UsageError(format!("{shown} is a directory: name its files, such as {shown}/*.log")).into());
        }
    }
    let labels = all_labels(&args.labels)?;
    let runtime = runtime()?;
    let (tls, token) = (args.tls.clone(), args.token.clone());
    let client = NodeClient::new(&NodeArgs { addr: args.addr.clone(), timeout: None, tls, token })?;
    let mut upload = Upload::new(client, upload_path(args, &labels), args.durability.name());
    let mut progress = Progress::new("importing");
    let mut failed = false;
    for path in &args.paths {
        let mut imported = Imported::default();
        let result = runtime.block_on(import(path, args, &mut upload, &mut imported, &mut progress));
        progress.clear();
        if let Err(error) = result {
            let so_far = match imported.records {
                0 => "nothing of it was imported".to_owned(),
                records => format!("its first {records} records were imported; import it again to go on"),
            };
            print_error(&format!("{}: {error:#}; {so_far}", path.display()));
            failed = true;
            if upload.has_failed {
                break;
            }
        }
    }
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

/// Imports one file, and adds the records that the node has accepted to `imported`.
async fn import(
    path: &Path,
    args: &ImportArgs,
    upload: &mut Upload,
    imported: &mut Imported,
    progress: &mut Progress,
) -> anyhow::Result<()> {
    let input = Input::open(path)?;
    if input.is_standard_input {
        print_error("standard input is imported once: if this is interrupted, start it with the same text again");
    }
    let zone = (args.time_from == ImportTime::Line).then(|| args.time_zone.zone().clone());
    let mut clock = PartClock::new(zone, input.modified);
    let mut parts = Parts::new(input);
    loop {
        // What was read before an error is imported.
        let (part, error) = match parts.next_part() {
            Ok(Some(part)) => (part, None),
            Ok(None) => return Ok(()),
            Err(damaged) => (damaged.part, Some(damaged.error)),
        };
        if !part.text.is_empty() {
            let at = clock.time_of(&part.text);
            let bytes = part.text.len() as u64;
            let shown = format!(", {} of {}", human_bytes(imported.bytes + bytes), path.display());
            if progress.is_due() {
                progress.show(&shown);
            }
            imported.records += upload.send(part, at).await?;
            imported.bytes += bytes;
        }
        if let Some(error) = error {
            return Err(error).context("its text ends early");
        }
    }
}

/// The path of the call, with all that the records of a part depend on but its time.
fn upload_path(args: &ImportArgs, labels: &Labels) -> String {
    let mut parameters = match args.time_from {
        ImportTime::Line => {
            let zone = bucksaw_record::time::zone_name(args.time_zone.zone());
            vec![("time_from", "line".to_owned()), ("time_zone", zone)]
        }
        ImportTime::File => vec![("time_from", "arrival".to_owned())],
    };
    parameters.extend(labels.iter().map(|(name, value)| ("label", format!("{name}={value}"))));
    crate::node_client::path("/api/v1/ingest", &parameters)
}
