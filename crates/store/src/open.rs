//! Opening the store: reads the footers, and finishes what a crash left half done.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_env::{Env, Shortage};
use bucksaw_ingest::Queue;
use bucksaw_record::{Id, Millis};
use bucksaw_segment::health::{DAMAGED_EXTENSION, SAVED_EXTENSION};
use bucksaw_segment::stored::Reader;
use bucksaw_segment::{OpenError, ReadError};
use tracing::{error, info, warn};

use crate::backlog::CompactionBacklog;
use crate::clock_guard::ClockGuard;
use crate::config::Config;
use crate::foreground::Foreground;
use crate::gather_batch_size::GatherBatchSize;
use crate::index_memory::{StoreIndexMemory, open_bytes_max};
use crate::lock::lock;
use crate::metrics::Metrics;
use crate::name;
use crate::repair::damage_file::{BLOCKS_PROOF_SUFFIX, DRAFT_SUFFIXES, FILE_PROOF_SUFFIX};
use crate::segment_store::{SegmentStore, StoreLogLimits};
use crate::stored_segment::{DamagedSegment, StoredSegment};
use crate::throttle::BackgroundThrottle;
use crate::trashed_segment;

impl SegmentStore {
    /// Opens the store in `dir`, which is made if it is missing. One process at a time; the caller holds the lock.
    ///
    /// # Errors
    /// [`OpenError`]. Damage is no error: it is logged, counted and set aside.
    pub fn open(env: Env, dir: &Path, config: Config, metrics: Metrics) -> Result<Self, OpenError> {
        let foreground = Foreground::new(Arc::clone(&env.clock));
        let throttle = || BackgroundThrottle::new(&foreground, &env.clock, &metrics, config.share_percent_min);
        let mut store = Self {
            gather_throttle: throttle(),
            merge_throttle: throttle(),
            repair_throttle: throttle(),
            backlog: CompactionBacklog::new(config.backlog_bytes_max, metrics.backlog_bytes.clone()),
            gather_batch_size: GatherBatchSize::new(config.gather_bytes_max()),
            foreground,
            env,
            dir: dir.to_owned(),
            config,
            metrics,
            segments: Mutex::default(),
            quarantined_files: Mutex::default(),
            receiving: Mutex::default(),
            evicted_until: Mutex::new(Millis(0)),
            clock_guard: Mutex::new(ClockGuard::new(Millis(0), Duration::ZERO)),
            clock_persisted: Mutex::new(Millis(0)),
            suspension: Mutex::default(),
            is_short_of_descriptors: AtomicBool::new(false),
            stored_bytes_at_open: 0,
            index_memory: StoreIndexMemory::default(),
            trashed: Mutex::default(),
            log_limits: StoreLogLimits::default(),
        };
        store.metrics.replication_factor.set(i64::try_from(store.config.replication_factor).unwrap_or(i64::MAX));
        store.env.fs.create_dir_all(dir).map_err(OpenError::io(dir))?;
        match store.env.fs.create_dir_all(&store.trash_dir()) {
            // Retention makes it when it is wanted, or removes what is past it.
            Err(error) if Shortage::is_disk_full(&error) => warn!(%error, "cannot make the trash"),
            made => made.map_err(OpenError::io(&store.trash_dir()))?,
        }
        let mut segments = Vec::new();
        let (bytes_max, mut bytes) = (open_bytes_max(store.config.index_bytes_max), 0_u64);
        let names = store.env.fs.list(dir).map_err(OpenError::io(dir))?;
        for file_name in names.into_iter().map(|name| store.restore_trash_name(name)) {
            let path = dir.join(&file_name);
            if file_name.strip_suffix(".tmp").is_some_and(|stem| stem.parse::<Id>().is_ok()) {
                store.discard(&path);
                continue;
            }
            // Files with other names were not made by us, and are left alone.
            let Some((low, high, _, extension)) = name::parse(&file_name) else { continue };
            match extension {
                "seg" => {
                    let file = store.env.fs.open(&path).map_err(OpenError::io(&path))?;
                    match Reader::open(file, &path) {
                        Ok(reader) => {
                            let stored = StoredSegment::new(reader);
                            bytes += stored.index_bytes();
                            // What a merge left behind is there twice, and is not counted below. More is only counted: to
                            // keep it could exhaust the memory of the node.
                            if bytes <= bytes_max.saturating_mul(2) {
                                store.restore_damage(&stored);
                                segments.push(Arc::new(stored));
                            }
                        }
                        Err(newer @ ReadError::Version { .. }) => return Err(OpenError::NewerVersion(newer)),
                        Err(ReadError::Io { source, .. }) => return Err(OpenError::io(&path)(source)),
                        Err(damaged) => store.quarantine(&path, low, high, &damaged),
                    }
                }
                DAMAGED_EXTENSION | SAVED_EXTENSION => {
                    let proof = store.proof_of(&path);
                    lock(&store.quarantined_files).push(DamagedSegment::quarantined_file(
                        file_name.clone(),
                        low,
                        high,
                        proof,
                    ));
                }
                proof if proof.ends_with(FILE_PROOF_SUFFIX) || proof == BLOCKS_PROOF_SUFFIX => {
                    store.remove_stale_proof(&path);
                }
                draft if DRAFT_SUFFIXES.iter().any(|end| draft.ends_with(end)) => store.discard(&path),
                _ => {}
            }
        }
        if bytes > bytes_max.saturating_mul(2) {
            return Err(OpenError::Memory { dir: dir.to_owned(), needed: bytes, max: bytes_max });
        }
        let segments = store.finish_merges(segments);
        let bytes = segments.iter().map(|segment| segment.index_bytes()).sum();
        if bytes > bytes_max {
            return Err(OpenError::Memory { dir: dir.to_owned(), needed: bytes, max: bytes_max });
        }
        store.stored_bytes_at_open = segments.iter().map(|segment| segment.file_bytes()).sum();
        store.replace_segments(&segments, &[]);
        store.restore_clock_guard();
        store.scan_trash();
        Ok(store)
    }

    /// A file that somebody moved here from the trash gets the name that it had before; all others keep theirs.
    fn restore_trash_name(&self, file_name: String) -> String {
        let Some((_, before)) = trashed_segment::parse(&file_name) else { return file_name };
        match self.env.fs.rename(&self.dir.join(&file_name), &self.dir.join(before)) {
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

    fn quarantine(&self, path: &Path, low: Millis, high: Millis, damaged: &ReadError) {
        error!(error = %damaged, "a segment cannot be read: it is set aside as damaged, and answers over its time are partial");
        let target = path.with_extension("damaged");
        if let Err(error) = self.env.fs.rename(path, &target) {
            warn!(path = %path.display(), %error, "cannot rename a damaged segment");
        }
        let name = target.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let proof = self.restarted_proof(&target);
        lock(&self.quarantined_files).push(DamagedSegment::quarantined_file(name, low, high, proof));
    }

    /// Finishes merges: when all that one made is there, what is left of its inputs goes; when not all of it is there but
    /// all inputs are, what it made goes, for the inputs have everything. In any other case all is kept: records that are
    /// there twice are answered once.
    fn finish_merges(&self, segments: Vec<Arc<StoredSegment>>) -> Vec<Arc<StoredSegment>> {
        let present: HashSet<Id> = segments.iter().map(|segment| segment.id()).collect();
        let mut gone: HashSet<Id> = HashSet::new();
        for segment in &segments {
            let Some(merge) = &segment.footer().merge else { continue };
            let inputs: Vec<Id> = merge.inputs.iter().filter(|input| present.contains(input)).copied().collect();
            let same =
                |other: &&Arc<StoredSegment>| other.footer().merge.as_ref().is_some_and(|other| other.id == merge.id);
            if segments.iter().filter(same).count() == merge.output_count as usize {
                gone.extend(inputs);
            } else if inputs.len() == merge.inputs.len() {
                gone.insert(segment.id());
            }
        }
        let (gone, kept): (Vec<_>, Vec<_>) = segments.into_iter().partition(|segment| gone.contains(&segment.id()));
        gone.iter().for_each(|segment| self.trash_leftover(segment.reader().path(), segment.id()));
        kept
    }

    /// Tells the queue what of it is on the store already. To be called once, before anything is gathered or answered. Where
    /// other stores have to keep a copy, too, it is not known whether they do, and the queue's segments are stored anew.
    pub fn reconcile(&self, queue: &Queue) {
        if self.config.replication_factor <= 1 {
            self.segments().iter().for_each(|segment| queue.commit(&segment.footer().sources));
        }
    }
}
