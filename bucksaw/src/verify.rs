//! `bucksaw verify`: checks every segment of a data directory, and changes nothing.
//!
//! It may run beside a node that uses the directory: what is being written is checked as far as it goes, and a file that
//! goes away meanwhile was merged or has expired.

use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

use anyhow::Context as _;
use bucksaw_doors::{Doors, Fs as _, real};
use bucksaw_segment::ReadError;
use bucksaw_segment::queue::{Tail, survey};
use bucksaw_segment::shelf::Reader;

use crate::args::VerifyArgs;
use crate::exit::Exit;
use crate::failure::{PipeClosed, Usage};

#[derive(Default)]
struct Tally {
    segments: u64,
    records: u64,
    damaged: u64,
}

pub(crate) fn run(args: VerifyArgs) -> anyhow::Result<Exit> {
    let dir = &args.dir;
    let present = |name: &str| real::Fs.list(&dir.join(name)).is_ok();
    if !present("queue") && !present("shelf") {
        let shown = dir.display();
        return Err(Usage(format!("{shown} is no data directory: there is neither queue nor shelf in it")).into());
    }
    let mut tally = Tally::default();
    for part in ["queue", "shelf", "shelf/trash"] {
        let mut names = match real::Fs.list(&dir.join(part)) {
            Ok(names) => names,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(|| format!("cannot list {}", dir.join(part).display())),
        };
        names.sort_unstable();
        for name in names {
            let path = dir.join(part).join(&name);
            if let Some(found) = check(&path, &name, part == "queue") {
                tally.take(&format!("{part}/{name}"), found)?;
            }
        }
    }
    let Tally { segments, records, damaged } = tally;
    say(&format!("{segments} segments, {records} records, {damaged} damaged"))?;
    Ok(if damaged == 0 { Exit::Done } else { Exit::Failed })
}

/// The records of a segment and what is wrong with it; `None` when the file is none or is gone.
fn check(path: &Path, name: &str, queue: bool) -> Option<(u64, Vec<String>)> {
    let found = match (name.rsplit_once('.')?.1, queue) {
        (state @ ("active" | "pending" | "committed"), true) => check_queue(path, name, state),
        ("seg", false) => check_shelf(path),
        ("damaged", _) => return Some((0, vec!["was set aside as damaged".to_owned()])),
        _ => return None,
    };
    match found {
        Ok(found) => Some(found),
        Err(ReadError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => None,
        Err(error) => Some((0, vec![error.to_string()])),
    }
}

fn open(path: &Path) -> Result<std::sync::Arc<dyn bucksaw_doors::File>, ReadError> {
    Doors::real().fs.open(path).map_err(|source| ReadError::Io { path: path.to_owned(), source })
}

fn check_queue(path: &Path, name: &str, state: &str) -> Result<(u64, Vec<String>), ReadError> {
    let Some(id) = name.split_once('.').and_then(|(id, _)| id.parse().ok()) else { return Ok((0, Vec::new())) };
    let found = survey(&open(path)?, path, id)?;
    let mut wrong: Vec<String> = found.damage.iter().map(ToString::to_string).collect();
    if let Some(missing) = found.missing_records().filter(|missing| *missing > 0) {
        wrong.push(format!("{missing} records are missing"));
    }
    wrong.extend(found.harmless.iter().map(|damage| format!("{damage} (no record is missing)")));
    if state == "pending" && bucksaw_ingest::must_be_sealed(id) && found.seal.is_none() {
        wrong.push(format!(
            "damaged at byte {}: the segment was closed and has no sound seal, so records may be missing; a power cut can leave \
             the same of records that were not synced",
            found.end
        ));
    } else if let Tail::Broken(damage) = &found.tail {
        wrong.push(damage.to_string());
    }
    Ok((found.reach.records, wrong))
}

fn check_shelf(path: &Path) -> Result<(u64, Vec<String>), ReadError> {
    let reader = Reader::open(open(path)?, path)?;
    let mut wrong = Vec::new();
    let mut records = 0;
    for (number, entry) in reader.footer().blocks.iter().enumerate() {
        match reader.filter(number) {
            Ok(_) => {}
            Err(ReadError::Damaged { damage, .. }) => wrong.push(format!("block {number}: {damage}")),
            Err(error) => return Err(error),
        }
        match reader.block(number) {
            Ok(block) => {
                let found: u64 = block.chunks().map(|chunk| u64::from(chunk.rows.count)).sum();
                if found != entry.reach.records {
                    wrong.push(format!("block {number} has {found} records, its footer says {}", entry.reach.records));
                }
                records += found;
            }
            Err(ReadError::Damaged { damage, .. }) => wrong.push(format!("block {number}: {damage}")),
            Err(error) => return Err(error),
        }
    }
    let mended = reader.mended();
    let spares = if mended.is_empty() && wrong.is_empty() { reader.damaged_spares()? } else { Vec::new() };
    wrong.extend(mended.iter().chain(&spares).map(|damage| format!("{damage} (no record is missing)")));
    Ok((records, wrong))
}

impl Tally {
    fn take(&mut self, name: &str, (records, wrong): (u64, Vec<String>)) -> anyhow::Result<()> {
        self.segments += 1;
        self.records += records;
        self.damaged += u64::from(!wrong.is_empty());
        wrong.iter().try_for_each(|what| say(&format!("{name}: {what}")))
    }
}

fn say(line: &str) -> anyhow::Result<()> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(PipeClosed.into()),
        written => written.context("cannot write to standard output"),
    }
}
