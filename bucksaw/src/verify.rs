//! `bucksaw verify`: checks every file of a data directory, and with `--repair` repairs what can be repaired.
//!
//! A check changes nothing and may run beside a node: files being written are checked up to their end, and files that
//! vanish were merged or have expired. A repair takes the lock of the directory.

use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use bucksaw_env::{Env, FileLock, Fs};
use bucksaw_ingest::KeyFileReport;
use bucksaw_segment::health::{CheckedFile, QuarantineKind, RepairOutcome};
use bucksaw_segment::{Health, ReadError, RecordLoss};
use bucksaw_store::offline_repair::{ErasureFileReport, check_erasures};
use clap::Args;

use crate::encryption::EncryptionArgs;
use crate::exit::Exit;
use crate::failure::UsageError;
use crate::print::PipeClosed;
use crate::progress::Progress;
use crate::small_files;

/// The directory of erasures in a data directory.
const ERASURES: &str = "store/erasures";

/// Check every file of a data directory
///
/// Prints each damage and whether records are lost by it. Exits with 1 if anything is damaged. Changes nothing without
/// `--repair`.
#[derive(Clone, Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Data directory of a node
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Repair damaged segments; no node may use the directory
    ///
    /// Segments that lost no record are rewritten. The readable records of others are saved to a new segment, and the
    /// damaged file is kept beside it. Exits with 1 if anything is still damaged.
    #[arg(long)]
    repair: bool,

    #[command(flatten)]
    encryption: EncryptionArgs,
}

pub(crate) fn run(args: VerifyArgs) -> anyhow::Result<Exit> {
    let (mut env, dir) = (Env::real(), &args.dir);
    args.encryption.load(&mut env)?;
    let exists = |name: &str| env.fs.list(&dir.join(name)).is_ok();
    if !exists("queue") && !exists("store") {
        let shown = dir.display();
        return Err(UsageError(format!("{shown} is not a data directory: it has neither queue nor store")).into());
    }
    let _lock = if args.repair { Some(lock(&env, dir)?) } else { None };
    let loss = RecordLoss::default();
    let progress = Progress::new("checking");
    let mut run = Verification {
        env,
        repair: args.repair,
        segments: 0,
        records: 0,
        damaged: 0,
        keyless: 0,
        repaired: 0,
        loss,
        progress,
    };
    for name in small_files::FILES_WITH_BACKUP {
        let damage = small_files::check(&*run.env.fs, dir, name);
        run.small_file(name, damage, |fs| small_files::restore(fs, dir, name))?;
    }
    for file in small_files::UNBACKED_FILES {
        let damage = file.check(&*run.env.fs, dir);
        run.small_file(file.name, damage, |fs| fs.remove(&dir.join(file.name)).map(|()| true))?;
    }
    run.erasures(dir)?;
    for part in ["queue", "store", "store/trash"] {
        let mut names = match run.env.fs.list(&dir.join(part)) {
            Ok(names) => names,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(|| format!("cannot list {}", dir.join(part).display())),
        };
        names.sort_unstable();
        for name in names {
            let file = format!("{part}/{name}");
            run.show_progress(&file);
            if part == "queue" {
                run.key_file(&file, dir)?;
            }
            match check(&run.env, dir, part, &name) {
                Ok(None) => {}
                Ok(Some(checked)) => run.segment(part, &file, &*checked)?,
                Err(error) => {
                    run.segments += 1;
                    match error {
                        ReadError::MissingKey { .. } => run.keyless += 1,
                        _ => run.damaged += 1,
                    }
                    run.progress.clear();
                    print_line(&format!("{file}: {error}{}", cause(&error)))?;
                }
            }
        }
    }
    run.finish()
}

fn lock(env: &Env, dir: &Path) -> anyhow::Result<Box<dyn FileLock>> {
    let shown = dir.display();
    match env.fs.lock(&dir.join("LOCK")) {
        Ok(lock) => Ok(lock),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            bail!("a node uses {shown}: stop it before a repair, or check without --repair")
        }
        Err(error) => Err(error).with_context(|| format!("cannot lock the data directory {shown}")),
    }
}

/// Checks a segment; `None` if the file is no segment or has vanished.
fn check(env: &Env, dir: &Path, part: &str, name: &str) -> Result<Option<Box<dyn CheckedFile>>, ReadError> {
    let path = dir.join(part).join(name);
    let checked = if part == "queue" {
        bucksaw_ingest::offline_repair::check(env, &path)
            .map(|file| file.map(|file| Box::new(file) as Box<dyn CheckedFile>))
    } else {
        bucksaw_store::offline_repair::check(&*env.fs, &path)
            .map(|file| file.map(|file| Box::new(file) as Box<dyn CheckedFile>))
    };
    match checked {
        Err(ReadError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
        checked => checked,
    }
}

/// A run of the command, with its results so far.
struct Verification {
    env: Env,
    repair: bool,
    segments: u64,
    records: u64,
    /// Files that are damaged, after their repair.
    damaged: u64,
    /// Files that were not checked, because they are encrypted with other keys.
    keyless: u64,
    repaired: u64,
    loss: RecordLoss,
    progress: Progress,
}

impl Verification {
    fn show_progress(&mut self, file: &str) {
        if self.progress.is_due() {
            let (segments, records) = (self.segments, self.records);
            self.progress.show(&format!(", {segments} segments with {records} records checked, now {file}"));
        }
    }

    /// Reports the damage of a small file, and repairs it.
    fn small_file(
        &mut self,
        name: &str,
        damage: Option<String>,
        repair: impl FnOnce(&dyn Fs) -> io::Result<bool>,
    ) -> anyhow::Result<()> {
        let Some(damage) = damage else { return Ok(()) };
        self.progress.clear();
        print_line(&damage)?;
        match if self.repair { repair(&*self.env.fs) } else { Ok(false) } {
            Ok(true) => {
                self.repaired += 1;
                return print_line(&format!("{name}: repaired"));
            }
            Ok(false) => {}
            Err(error) => print_line(&format!("{name}: not repaired: {error}"))?,
        }
        self.damaged += 1;
        Ok(())
    }

    /// Reports damaged files of erasures, and restores a damaged copy from the other.
    fn erasures(&mut self, dir: &Path) -> anyhow::Result<()> {
        let reports = check_erasures(&*self.env.fs, &dir.join(ERASURES));
        let reports = reports.with_context(|| format!("cannot list {}", dir.join(ERASURES).display()))?;
        for ErasureFileReport { name, outcome } in reports {
            let name = format!("{ERASURES}/{name}");
            match outcome {
                Ok(damage) => {
                    let damage = damage.map(|damage| format!("{name} {damage} (the erasure is in effect)"));
                    self.small_file(&name, damage, |fs| small_files::restore(fs, dir, &name))?;
                }
                Err(error @ ReadError::MissingKey { .. }) => {
                    self.keyless += 1;
                    self.progress.clear();
                    print_line(&format!("{name}: {error}: a node does not start without it"))?;
                }
                Err(error) => {
                    let damage = format!(
                        "{name}: {error}{}: answers may have what it erases until another node sends it again",
                        cause(&error)
                    );
                    self.small_file(&name, Some(damage), |_| Ok(false))?;
                }
            }
        }
        Ok(())
    }

    /// Reports the damage of a file of idempotency keys; ignores other files.
    fn key_file(&mut self, file: &str, dir: &Path) -> anyhow::Result<()> {
        let damage = match bucksaw_ingest::offline_repair::check_keys(&self.env, &dir.join(file)) {
            Ok(Some(KeyFileReport { damaged_at: Some(at), damaged: 0, .. })) => {
                format!(
                    "byte {at}: the header is damaged, and every idempotency key can be read (no record is missing)"
                )
            }
            Ok(Some(KeyFileReport { damaged_at: Some(at), damaged, sound })) => format!(
                "byte {at}: {damaged} of {} idempotency keys are damaged: a retry of such a batch may be stored as new \
                 records (no record is missing)",
                damaged + sound
            ),
            Err(error) if error.kind() != ErrorKind::NotFound => {
                format!("{error}: a retry of a batch with an idempotency key may be stored as new records")
            }
            Ok(_) | Err(_) => return Ok(()),
        };
        self.progress.clear();
        print_line(&format!("{file}: {damage}"))?;
        if self.repair {
            print_line(&format!("{file}: not repaired: a node replaces it with the next batch that has a key"))?;
        }
        self.damaged += 1;
        Ok(())
    }

    /// Reports the damage of a segment, and repairs it.
    fn segment(&mut self, part: &str, file: &str, checked: &dyn CheckedFile) -> anyhow::Result<()> {
        let (health, is_saved) = (checked.health(), checked.quarantine_kind() == Some(QuarantineKind::Saved));
        let Health { records, loss, .. } = health;
        self.segments += 1;
        self.records += records;
        if !health.is_intact() || checked.quarantine_kind().is_some() || checked.note().is_some() {
            self.progress.clear();
        }
        print_findings(file, checked)?;
        if health.is_intact() && checked.quarantine_kind().is_none() {
            return Ok(());
        }
        let result = match self.repair.then(|| checked.repair(&*self.env.fs)) {
            None if is_saved => None,
            None => Some(advice(health)),
            Some(Err(error)) => Some(format!("not repaired: {error}{}", cause(&error))),
            Some(Ok(RepairOutcome::Repaired(name))) => {
                self.repaired += 1;
                return print_line(&format!(
                    "{file}: repaired without a loss: {part}/{name} has all {records} records"
                ));
            }
            Some(Ok(RepairOutcome::Saved { name, original })) => Some(format!(
                "saved {records} records to {part}/{name}; {loss}, so the damaged file is kept as {part}/{original}"
            )),
            Some(Ok(RepairOutcome::Quarantined(original))) => {
                Some(format!("nothing of it can be read: it is kept as {part}/{original}"))
            }
            Some(Ok(RepairOutcome::Unchanged)) => (!is_saved).then(|| format!("not repaired: {loss}")),
        };
        self.damaged += 1;
        self.loss += *loss;
        result.map_or(Ok(()), |result| print_line(&format!("{file}: {result}")))
    }

    /// Prints the totals.
    fn finish(&mut self) -> anyhow::Result<Exit> {
        self.progress.clear();
        let Self { segments, records, damaged, keyless, repaired, loss, .. } = self;
        if !loss.is_none() {
            print_line(&format!("in total {loss}"))?;
        }
        let repaired = if self.repair { format!(", {repaired} repaired") } else { String::new() };
        let keyless = if *keyless > 0 { format!(", {keyless} not checked for want of a key") } else { String::new() };
        print_line(&format!("{segments} segments, {records} records{repaired}, {damaged} damaged{keyless}"))?;
        Ok(if *damaged == 0 && self.keyless == 0 { Exit::Done } else { Exit::Failed })
    }
}

/// Prints each damage of a segment.
fn print_findings(file: &str, checked: &dyn CheckedFile) -> anyhow::Result<()> {
    let Health { harmless, harmful, .. } = checked.health();
    match checked.quarantine_kind() {
        Some(QuarantineKind::Damaged) => print_line(&format!("{file}: is quarantined"))?,
        Some(QuarantineKind::Saved) => {
            print_line(&format!("{file}: its readable records were saved; move it away after you have inspected it"))?;
        }
        None => {}
    }
    harmful.iter().try_for_each(|damage| print_line(&format!("{file}: {damage}")))?;
    harmless.iter().try_for_each(|damage| print_line(&format!("{file}: {damage} (no record is missing)")))?;
    checked.note().map_or(Ok(()), |note| print_line(&format!("{file}: no damage: {}", note.what)))
}

/// The effect of a repair.
fn advice(Health { records, loss, .. }: &Health) -> String {
    match (loss.is_none(), records) {
        (true, _) => "nothing is lost: --repair repairs it".to_owned(),
        (false, 0) => format!("{loss}, and none can be read"),
        (false, records) => format!("{loss}: --repair saves the {records} records that can be read"),
    }
}

/// The error of the operating system behind this one.
fn cause(error: &ReadError) -> String {
    std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default()
}

fn print_line(line: &str) -> anyhow::Result<()> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(PipeClosed.into()),
        written => written.context("cannot write to standard output"),
    }
}
