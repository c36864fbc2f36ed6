//! `bucksaw verify`: checks every file of a data directory, and with `--repair` mends what can be mended.
//!
//! Without `--repair` it changes nothing and may run beside a node that uses the directory: what is being written is checked
//! as far as it goes, and a file that goes away meanwhile was merged or has expired. A repair takes the directory's lock.

use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use bucksaw_env::{Env, FileLock, Fs};
use bucksaw_ingest::KeyFileReport;
use bucksaw_segment::health::{CheckedFile, QuarantineKind, RepairOutcome};
use bucksaw_segment::{Health, ReadError, RecordLoss};

use crate::args::VerifyArgs;
use crate::exit::Exit;
use crate::failure::{PipeClosed, UsageError};
use crate::small_files;

pub(crate) fn run(args: VerifyArgs) -> anyhow::Result<Exit> {
    let (env, dir) = (Env::real(), &args.dir);
    let present = |name: &str| env.fs.list(&dir.join(name)).is_ok();
    if !present("queue") && !present("store") {
        let shown = dir.display();
        return Err(UsageError(format!("{shown} is no data directory: there is neither queue nor store in it")).into());
    }
    let _lock = if args.repair { Some(lock(&env, dir)?) } else { None };
    let loss = RecordLoss::default();
    let mut tally = VerifySummary { env, repair: args.repair, segments: 0, records: 0, damaged: 0, repaired: 0, loss };
    for name in small_files::FILES_WITH_BACKUP {
        let wrong = small_files::check(&*tally.env.fs, dir, name);
        tally.add_small_file(name, wrong, |fs| small_files::restore(fs, dir, name))?;
    }
    for file in small_files::UNBACKED_FILES {
        let wrong = file.check(&*tally.env.fs, dir);
        tally.add_small_file(file.name, wrong, |fs| file.remove(fs, dir))?;
    }
    for part in ["queue", "store", "store/trash"] {
        let mut names = match tally.env.fs.list(&dir.join(part)) {
            Ok(names) => names,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(|| format!("cannot list {}", dir.join(part).display())),
        };
        names.sort_unstable();
        for name in names {
            tally.add_key_file(part, &name, dir)?;
            tally.add_segment(part, &name, check(&tally.env, dir, part, &name))?;
        }
    }
    tally.print_summary()
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

/// A file that was checked; `None` when it is no segment, or is gone.
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

/// What was found so far, and what was done about it.
struct VerifySummary {
    env: Env,
    repair: bool,
    segments: u64,
    records: u64,
    /// Files that are damaged, after the repair if there was one.
    damaged: u64,
    repaired: u64,
    loss: RecordLoss,
}

impl VerifySummary {
    /// Takes a small file, with what is wrong with it.
    fn add_small_file(
        &mut self,
        name: &str,
        wrong: Option<String>,
        mend: impl FnOnce(&dyn Fs) -> io::Result<bool>,
    ) -> anyhow::Result<()> {
        let Some(wrong) = wrong else { return Ok(()) };
        print_line(&wrong)?;
        let mended = if self.repair { mend(&*self.env.fs) } else { Ok(false) };
        match mended {
            Ok(true) => {
                self.repaired += 1;
                return print_line(&format!("{name}: mended"));
            }
            Ok(false) => {}
            Err(error) => print_line(&format!("{name}: is left as it is: {error}"))?,
        }
        self.damaged += 1;
        Ok(())
    }

    /// Takes a file of idempotency keys; any other is left to [`Self::take`].
    fn add_key_file(&mut self, part: &str, name: &str, dir: &Path) -> anyhow::Result<()> {
        if part != "queue" {
            return Ok(());
        }
        let file = format!("{part}/{name}");
        let wrong = match bucksaw_ingest::offline_repair::check_keys(&self.env, &dir.join(&file)) {
            Ok(Some(KeyFileReport { damaged_at: Some(at), damaged: 0, .. })) => {
                format!(
                    "{file}: byte {at}: the header is damaged, and every batch key can be read (no record is missing)"
                )
            }
            Ok(Some(KeyFileReport { damaged_at: Some(at), damaged, sound })) => format!(
                "{file}: byte {at}: {damaged} of {} entries of batch keys are damaged: a retry of such a batch may be stored \
                 as new records (no record is missing)",
                damaged + sound
            ),
            Err(error) if error.kind() != ErrorKind::NotFound => {
                format!("{file}: {error}: a retry of a batch with a key may be stored as new records")
            }
            Ok(_) | Err(_) => return Ok(()),
        };
        print_line(&wrong)?;
        if self.repair {
            print_line(&format!("{file}: is left as it is: a node replaces it with the next batch that has a key"))?;
        }
        self.damaged += 1;
        Ok(())
    }

    fn add_segment(
        &mut self,
        part: &str,
        name: &str,
        checked: Result<Option<Box<dyn CheckedFile>>, ReadError>,
    ) -> anyhow::Result<()> {
        let file = format!("{part}/{name}");
        let checked = match checked {
            Ok(Some(checked)) => checked,
            Ok(None) => return Ok(()),
            Err(error) => {
                self.segments += 1;
                self.damaged += 1;
                return print_line(&format!("{file}: {error}{}", hint(&error)));
            }
        };
        self.segments += 1;
        self.records += checked.health().records;
        print_findings(&file, &*checked)?;
        let is_damaged = !checked.health().is_intact() || checked.quarantine_kind().is_some();
        if is_damaged && self.repair {
            self.repair_segment(part, &file, &*checked)
        } else {
            self.count_damaged(&file, &*checked)
        }
    }

    /// Counts a file that stays as it is.
    fn count_damaged(&mut self, file: &str, checked: &dyn CheckedFile) -> anyhow::Result<()> {
        let health = checked.health();
        if health.is_intact() && checked.quarantine_kind().is_none() {
            return Ok(());
        }
        self.damaged += 1;
        self.loss += health.loss;
        match checked.quarantine_kind() {
            Some(QuarantineKind::Saved) => Ok(()),
            _ => print_line(&format!("{file}: {}", advice(health))),
        }
    }

    fn repair_segment(&mut self, part: &str, file: &str, checked: &dyn CheckedFile) -> anyhow::Result<()> {
        let Health { records, loss, .. } = checked.health();
        let mended = match checked.repair(&*self.env.fs) {
            Ok(mended) => mended,
            Err(error) => {
                self.damaged += 1;
                self.loss += *loss;
                return print_line(&format!("{file}: is left as it is: {error}{}", hint(&error)));
            }
        };
        match mended {
            RepairOutcome::Repaired(name) => {
                self.repaired += 1;
                return print_line(&format!(
                    "{file}: mended, nothing is lost: {part}/{name} has all {records} records"
                ));
            }
            RepairOutcome::Saved { name, original } => print_line(&format!(
                "{file}: saved {records} records to {part}/{name}; {loss}, so the damaged file is kept as {part}/{original}"
            ))?,
            RepairOutcome::Quarantined(original) => {
                print_line(&format!("{file}: nothing of it can be read: it is kept as {part}/{original}"))?;
            }
            RepairOutcome::Unchanged if checked.quarantine_kind() == Some(QuarantineKind::Saved) => {}
            RepairOutcome::Unchanged => print_line(&format!("{file}: is left as it is: {loss}"))?,
        }
        self.damaged += 1;
        self.loss += *loss;
        Ok(())
    }

    /// Says the sums.
    fn print_summary(&self) -> anyhow::Result<Exit> {
        let Self { segments, records, damaged, repaired: mended, loss, .. } = self;
        if !loss.is_none() {
            print_line(&format!("altogether {loss}"))?;
        }
        let mended = if self.repair { format!(", {mended} mended") } else { String::new() };
        print_line(&format!("{segments} segments, {records} records{mended}, {damaged} damaged"))?;
        Ok(if *damaged == 0 { Exit::Done } else { Exit::Failed })
    }
}

/// Says what is wrong with a file, place by place.
fn print_findings(file: &str, checked: &dyn CheckedFile) -> anyhow::Result<()> {
    let Health { harmless, harmful, .. } = checked.health();
    match checked.quarantine_kind() {
        Some(QuarantineKind::Damaged) => print_line(&format!("{file}: was set aside as damaged"))?,
        Some(QuarantineKind::Saved) => {
            print_line(&format!("{file}: what can be read of it was saved; move it away when you have looked at it"))?;
        }
        None => {}
    }
    harmful.iter().try_for_each(|damage| print_line(&format!("{file}: {damage}")))?;
    harmless.iter().try_for_each(|damage| print_line(&format!("{file}: {damage} (no record is missing)")))?;
    checked.note().map_or(Ok(()), |note| print_line(&format!("{file}: no damage: {}", note.what)))
}

/// What a repair would do.
fn advice(Health { records, loss, .. }: &Health) -> String {
    match (loss.is_none(), records) {
        (true, _) => "nothing is lost: --repair mends it".to_owned(),
        (false, 0) => format!("{loss}, and none can be read"),
        (false, records) => format!("{loss}: --repair saves the {records} records that can be read"),
    }
}

/// What the operating system said of it.
fn hint(error: &ReadError) -> String {
    std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default()
}

fn print_line(line: &str) -> anyhow::Result<()> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(PipeClosed.into()),
        written => written.context("cannot write to standard output"),
    }
}
