//! `bucksaw verify`: checks every file of a data directory, and with `--repair` mends what can be mended.
//!
//! Without `--repair` it changes nothing and may run beside a node that uses the directory: what is being written is checked
//! as far as it goes, and a file that goes away meanwhile was merged or has expired. A repair takes the directory's lock.

use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use bucksaw_doors::{Doors, Fs, Lock};
use bucksaw_ingest::KeyNotes;
use bucksaw_segment::health::{Aside, Checked, Mended};
use bucksaw_segment::{Health, Loss, ReadError};

use crate::args::VerifyArgs;
use crate::exit::Exit;
use crate::failure::{PipeClosed, Usage};
use crate::small_files;

pub(crate) fn run(args: VerifyArgs) -> anyhow::Result<Exit> {
    let (doors, dir) = (Doors::real(), &args.dir);
    let present = |name: &str| doors.fs.list(&dir.join(name)).is_ok();
    if !present("queue") && !present("shelf") {
        let shown = dir.display();
        return Err(Usage(format!("{shown} is no data directory: there is neither queue nor shelf in it")).into());
    }
    let _lock = if args.repair { Some(lock(&doors, dir)?) } else { None };
    let loss = Loss::default();
    let mut tally = Tally { doors, repair: args.repair, segments: 0, records: 0, damaged: 0, mended: 0, loss };
    for name in small_files::KEPT_TWICE {
        let wrong = small_files::check(&*tally.doors.fs, dir, name);
        tally.take_small(name, wrong, |fs| small_files::mend(fs, dir, name))?;
    }
    for file in small_files::PLAIN {
        let wrong = file.check(&*tally.doors.fs, dir);
        tally.take_small(file.name, wrong, |fs| file.mend(fs, dir))?;
    }
    for part in ["queue", "shelf", "shelf/trash"] {
        let mut names = match tally.doors.fs.list(&dir.join(part)) {
            Ok(names) => names,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(|| format!("cannot list {}", dir.join(part).display())),
        };
        names.sort_unstable();
        for name in names {
            tally.take_keys(part, &name, dir)?;
            tally.take(part, &name, check(&tally.doors, dir, part, &name))?;
        }
    }
    tally.end()
}

fn lock(doors: &Doors, dir: &Path) -> anyhow::Result<Box<dyn Lock>> {
    let shown = dir.display();
    match doors.fs.lock(&dir.join("LOCK")) {
        Ok(lock) => Ok(lock),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            bail!("a node uses {shown}: stop it before a repair, or check without --repair")
        }
        Err(error) => Err(error).with_context(|| format!("cannot lock the data directory {shown}")),
    }
}

/// A file that was checked; `None` when it is no segment, or is gone.
fn check(doors: &Doors, dir: &Path, part: &str, name: &str) -> Result<Option<Box<dyn Checked>>, ReadError> {
    let path = dir.join(part).join(name);
    let checked = if part == "queue" {
        bucksaw_ingest::mend::check(doors, &path).map(|file| file.map(|file| Box::new(file) as Box<dyn Checked>))
    } else {
        bucksaw_store::mend::check(&*doors.fs, &path).map(|file| file.map(|file| Box::new(file) as Box<dyn Checked>))
    };
    match checked {
        Err(ReadError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
        checked => checked,
    }
}

/// What was found so far, and what was done about it.
struct Tally {
    doors: Doors,
    repair: bool,
    segments: u64,
    records: u64,
    /// Files that are damaged, after the repair if there was one.
    damaged: u64,
    mended: u64,
    loss: Loss,
}

impl Tally {
    /// Takes a small file, with what is wrong with it.
    fn take_small(
        &mut self,
        name: &str,
        wrong: Option<String>,
        mend: impl FnOnce(&dyn Fs) -> io::Result<bool>,
    ) -> anyhow::Result<()> {
        let Some(wrong) = wrong else { return Ok(()) };
        say(&wrong)?;
        let mended = if self.repair { mend(&*self.doors.fs) } else { Ok(false) };
        match mended {
            Ok(true) => {
                self.mended += 1;
                return say(&format!("{name}: mended"));
            }
            Ok(false) => {}
            Err(error) => say(&format!("{name}: is left as it is: {error}"))?,
        }
        self.damaged += 1;
        Ok(())
    }

    /// Takes a file of idempotency keys; any other is left to [`Self::take`].
    fn take_keys(&mut self, part: &str, name: &str, dir: &Path) -> anyhow::Result<()> {
        if part != "queue" {
            return Ok(());
        }
        let file = format!("{part}/{name}");
        let wrong = match bucksaw_ingest::mend::check_keys(&self.doors, &dir.join(&file)) {
            Ok(Some(KeyNotes { damaged_at: Some(at), damaged: 0, .. })) => {
                format!(
                    "{file}: byte {at}: the header is damaged, and every batch key can be read (no record is missing)"
                )
            }
            Ok(Some(KeyNotes { damaged_at: Some(at), damaged, sound })) => format!(
                "{file}: byte {at}: {damaged} of {} notes of batch keys are damaged: a retry of such a batch may be stored \
                 as new records (no record is missing)",
                damaged + sound
            ),
            Err(error) if error.kind() != ErrorKind::NotFound => {
                format!("{file}: {error}: a retry of a batch with a key may be stored as new records")
            }
            Ok(_) | Err(_) => return Ok(()),
        };
        say(&wrong)?;
        if self.repair {
            say(&format!("{file}: is left as it is: a node replaces it with the next batch that has a key"))?;
        }
        self.damaged += 1;
        Ok(())
    }

    fn take(
        &mut self,
        part: &str,
        name: &str,
        checked: Result<Option<Box<dyn Checked>>, ReadError>,
    ) -> anyhow::Result<()> {
        let file = format!("{part}/{name}");
        let checked = match checked {
            Ok(Some(checked)) => checked,
            Ok(None) => return Ok(()),
            Err(error) => {
                self.segments += 1;
                self.damaged += 1;
                return say(&format!("{file}: {error}{}", cause(&error)));
            }
        };
        self.segments += 1;
        self.records += checked.health().records;
        tell(&file, &*checked)?;
        let is_damaged = !checked.health().is_sound() || checked.set_aside().is_some();
        if is_damaged && self.repair { self.mend(part, &file, &*checked) } else { self.leave(&file, &*checked) }
    }

    /// Counts a file that stays as it is.
    fn leave(&mut self, file: &str, checked: &dyn Checked) -> anyhow::Result<()> {
        let health = checked.health();
        if health.is_sound() && checked.set_aside().is_none() {
            return Ok(());
        }
        self.damaged += 1;
        self.loss += health.loss;
        match checked.set_aside() {
            Some(Aside::Saved) => Ok(()),
            _ => say(&format!("{file}: {}", advice(health))),
        }
    }

    fn mend(&mut self, part: &str, file: &str, checked: &dyn Checked) -> anyhow::Result<()> {
        let Health { records, loss, .. } = checked.health();
        let mended = match checked.mend(&*self.doors.fs) {
            Ok(mended) => mended,
            Err(error) => {
                self.damaged += 1;
                self.loss += *loss;
                return say(&format!("{file}: is left as it is: {error}{}", cause(&error)));
            }
        };
        match mended {
            Mended::Whole(name) => {
                self.mended += 1;
                return say(&format!("{file}: mended, nothing is lost: {part}/{name} has all {records} records"));
            }
            Mended::Saved { name, original } => say(&format!(
                "{file}: saved {records} records to {part}/{name}; {loss}, so the damaged file is kept as {part}/{original}"
            ))?,
            Mended::Aside(original) => {
                say(&format!("{file}: nothing of it can be read: it is kept as {part}/{original}"))?;
            }
            Mended::Left if checked.set_aside() == Some(Aside::Saved) => {}
            Mended::Left => say(&format!("{file}: is left as it is: {loss}"))?,
        }
        self.damaged += 1;
        self.loss += *loss;
        Ok(())
    }

    /// Says the sums.
    fn end(&self) -> anyhow::Result<Exit> {
        let Self { segments, records, damaged, mended, loss, .. } = self;
        if !loss.is_none() {
            say(&format!("altogether {loss}"))?;
        }
        let mended = if self.repair { format!(", {mended} mended") } else { String::new() };
        say(&format!("{segments} segments, {records} records{mended}, {damaged} damaged"))?;
        Ok(if *damaged == 0 { Exit::Done } else { Exit::Failed })
    }
}

/// Says what is wrong with a file, place by place.
fn tell(file: &str, checked: &dyn Checked) -> anyhow::Result<()> {
    let Health { harmless, harmful, .. } = checked.health();
    match checked.set_aside() {
        Some(Aside::Damaged) => say(&format!("{file}: was set aside as damaged"))?,
        Some(Aside::Saved) => {
            say(&format!("{file}: what can be read of it was saved; move it away when you have looked at it"))?;
        }
        None => {}
    }
    harmful.iter().try_for_each(|damage| say(&format!("{file}: {damage}")))?;
    harmless.iter().try_for_each(|damage| say(&format!("{file}: {damage} (no record is missing)")))?;
    checked.note().map_or(Ok(()), |note| say(&format!("{file}: no damage: {}", note.what)))
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
fn cause(error: &ReadError) -> String {
    std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default()
}

fn say(line: &str) -> anyhow::Result<()> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(PipeClosed.into()),
        written => written.context("cannot write to standard output"),
    }
}
