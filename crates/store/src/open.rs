//! Opening the shelf: reads the footers, and finishes what a crash left half done.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_doors::{Doors, Shortage};
use bucksaw_ingest::Queue;
use bucksaw_record::{Id, Millis};
use bucksaw_segment::health::{DAMAGED, SAVED};
use bucksaw_segment::shelf::Reader;
use bucksaw_segment::{OpenError, ReadError};
use tracing::{error, info, warn};

use crate::aside::Aside;
use crate::clock_guard::ClockGuard;
use crate::config::Config;
use crate::debt::Debt;
use crate::foreground::Foreground;
use crate::index_memory::{IndexMemory, opened_max};
use crate::metrics::Metrics;
use crate::name;
use crate::repair::kept::{DRAFTS, OF_BLOCKS, OF_FILE};
use crate::room::Batch;
use crate::shelf::{Errors, Shelf, lock};
use crate::stored::{Broken, Stored};
use crate::trash;

impl Shelf {
    /// Opens the shelf in `dir`, which is made if it is missing. One process at a time; the caller holds the lock.
    ///
    /// # Errors
    /// [`OpenError`]. Damage is no error: it is logged, counted and set aside.
    pub fn open(doors: Doors, dir: &Path, config: Config, metrics: Metrics) -> Result<Self, OpenError> {
        let foreground = Foreground::new(Arc::clone(&doors.clock));
        let aside = || Aside::new(&foreground, &doors.clock, &metrics, config.share_min);
        let mut shelf = Self {
            gather_aside: aside(),
            merge_aside: aside(),
            repair_aside: aside(),
            debt: Debt::new(config.debt_bytes_max, metrics.debt_bytes.clone()),
            batch: Batch::new(config.gathered()),
            foreground,
            doors,
            dir: dir.to_owned(),
            config,
            metrics,
            segments: Mutex::default(),
            set_aside: Mutex::default(),
            receiving: Mutex::default(),
            let_go: Mutex::new(Millis(0)),
            clock: Mutex::new(ClockGuard::new(Millis(0), Duration::ZERO)),
            clock_kept: Mutex::new(Millis(0)),
            suspension: Mutex::default(),
            crowded: AtomicBool::new(false),
            opened_bytes: 0,
            index: IndexMemory::default(),
            trashed: Mutex::default(),
            errors: Errors::default(),
        };
        shelf.metrics.copies.set(i64::try_from(shelf.config.copies).unwrap_or(i64::MAX));
        shelf.doors.fs.create_dir_all(dir).map_err(OpenError::io(dir))?;
        match shelf.doors.fs.create_dir_all(&shelf.trash()) {
            // Retention makes it when it is wanted, or removes what is past it.
            Err(error) if Shortage::is_space(&error) => warn!(%error, "cannot make the trash"),
            made => made.map_err(OpenError::io(&shelf.trash()))?,
        }
        let mut segments = Vec::new();
        let (bytes_max, mut bytes) = (opened_max(shelf.config.index_bytes_max), 0_u64);
        let names = shelf.doors.fs.list(dir).map_err(OpenError::io(dir))?;
        for file_name in names.into_iter().map(|name| shelf.as_before_the_trash(name)) {
            let path = dir.join(&file_name);
            if file_name.strip_suffix(".tmp").is_some_and(|stem| stem.parse::<Id>().is_ok()) {
                shelf.discard(&path);
                continue;
            }
            // Files with other names were not made by us, and are left alone.
            let Some((low, high, _, extension)) = name::parse(&file_name) else { continue };
            match extension {
                "seg" => {
                    let file = shelf.doors.fs.open(&path).map_err(OpenError::io(&path))?;
                    match Reader::open(file, &path) {
                        Ok(reader) => {
                            let stored = Stored::new(reader);
                            bytes += stored.index_bytes();
                            // What a merge left behind is there twice, and is not counted below. More is only counted: to
                            // keep it could exhaust the memory of the node.
                            if bytes <= bytes_max.saturating_mul(2) {
                                shelf.recall(&stored);
                                segments.push(Arc::new(stored));
                            }
                        }
                        Err(newer @ ReadError::Version { .. }) => return Err(OpenError::Newer(newer)),
                        Err(ReadError::Io { source, .. }) => return Err(OpenError::io(&path)(source)),
                        Err(damaged) => shelf.put_aside(&path, low, high, &damaged),
                    }
                }
                DAMAGED | SAVED => {
                    let proof = shelf.proof_of(&path);
                    lock(&shelf.set_aside).push(Broken::file(file_name.clone(), low, high, proof));
                }
                proof if proof.ends_with(OF_FILE) || proof == OF_BLOCKS => shelf.drop_stale(&path),
                draft if DRAFTS.iter().any(|end| draft.ends_with(end)) => shelf.discard(&path),
                _ => {}
            }
        }
        if bytes > bytes_max.saturating_mul(2) {
            return Err(OpenError::Memory { dir: dir.to_owned(), needed: bytes, max: bytes_max });
        }
        let segments = shelf.without_leftovers(segments);
        let bytes = segments.iter().map(|segment| segment.index_bytes()).sum();
        if bytes > bytes_max {
            return Err(OpenError::Memory { dir: dir.to_owned(), needed: bytes, max: bytes_max });
        }
        shelf.opened_bytes = segments.iter().map(|segment| segment.file_bytes()).sum();
        shelf.replace(&segments, &[]);
        shelf.start_clock();
        shelf.look_at_trash();
        Ok(shelf)
    }

    /// A file that somebody moved here from the trash gets the name that it had before; all others keep theirs.
    fn as_before_the_trash(&self, file_name: String) -> String {
        let Some((_, before)) = trash::parse(&file_name) else { return file_name };
        match self.doors.fs.rename(&self.dir.join(&file_name), &self.dir.join(before)) {
            Ok(()) => {
                info!(segment = before, "a segment was taken back from the trash");
                before.to_owned()
            }
            Err(error) => {
                warn!(segment = file_name, %error, "cannot rename a segment that was taken back from the trash: it is left alone");
                file_name
            }
        }
    }

    fn put_aside(&self, path: &Path, low: Millis, high: Millis, damaged: &ReadError) {
        error!(error = %damaged, "a segment cannot be read: it is set aside as damaged, and answers over its time are partial");
        let target = path.with_extension("damaged");
        if let Err(error) = self.doors.fs.rename(path, &target) {
            warn!(path = %path.display(), %error, "cannot rename a damaged segment");
        }
        let name = target.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let proof = self.proof_before(&target);
        lock(&self.set_aside).push(Broken::file(name, low, high, proof));
    }

    /// Finishes merges: when all that one made is there, what is left of its inputs goes; when not all of it is there but
    /// all inputs are, what it made goes, for the inputs have everything. In any other case all is kept: records that are
    /// there twice are answered once.
    fn without_leftovers(&self, segments: Vec<Arc<Stored>>) -> Vec<Arc<Stored>> {
        let present: HashSet<Id> = segments.iter().map(|segment| segment.id()).collect();
        let mut gone: HashSet<Id> = HashSet::new();
        for segment in &segments {
            let Some(merge) = &segment.footer().merge else { continue };
            let inputs: Vec<Id> = merge.inputs.iter().filter(|input| present.contains(input)).copied().collect();
            let same = |other: &&Arc<Stored>| other.footer().merge.as_ref().is_some_and(|other| other.id == merge.id);
            if segments.iter().filter(same).count() == merge.parts as usize {
                gone.extend(inputs);
            } else if inputs.len() == merge.inputs.len() {
                gone.insert(segment.id());
            }
        }
        let (gone, kept): (Vec<_>, Vec<_>) = segments.into_iter().partition(|segment| gone.contains(&segment.id()));
        gone.iter().for_each(|segment| self.to_trash(segment.reader().path(), segment.id()));
        kept
    }

    /// Tells the queue what of it is on the shelf already. To be called once, before anything is gathered or answered. Where
    /// other stores have to keep a copy, too, it is not known whether they do, and the queue's segments are stored anew.
    pub fn reconcile(&self, queue: &Queue) {
        if self.config.copies <= 1 {
            self.segments().iter().for_each(|segment| queue.commit(&segment.footer().sources));
        }
    }
}
