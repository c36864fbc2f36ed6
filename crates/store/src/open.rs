//! Opening the store: reads all footers, and completes or undoes merges that a crash interrupted.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_env::{Env, LogLimits, Shortage, file_name, lock, set_gauge};
use bucksaw_ingest::Queue;
use bucksaw_record::{Id, Millis};
use bucksaw_segment::health::{DAMAGED_EXTENSION, SAVED_EXTENSION};
use bucksaw_segment::stored::Reader;
use bucksaw_segment::{OpenError, ReadError};
use tracing::{error, info, warn};

use crate::backlog::CompactionBacklog;
use crate::clock_guard::ClockGuard;
use crate::config::Config;
use crate::erasure::ErasureBook;
use crate::foreground::Foreground;
use crate::gather_batch_size::GatherBatchSize;
use crate::index_memory::{StoreIndexMemory, open_bytes_max};
use crate::metrics::Metrics;
use crate::name;
use crate::repair::damage_file::{BLOCKS_PROOF_SUFFIX, DRAFT_SUFFIXES, FILE_PROOF_SUFFIX};
use crate::segment_store::SegmentStore;
use crate::stored_segment::{DamagedSegment, StoredSegment};
use crate::throttle::BackgroundThrottle;

impl SegmentStore {
    /// Opens the store in `dir`, which is created if missing. The caller holds the lock on the data directory.
    ///
    /// # Errors
    /// [`OpenError`]. Damage is no error: a damaged file is logged, counted and quarantined.
    pub fn open(env: Env, dir: &Path, config: Config, metrics: Metrics) -> Result<Self, OpenError> {
        let foreground = Foreground::new(Arc::clone(&env.clock));
        let erasures = ErasureBook::open(&env, &dir.join("erasures"), metrics.erased_records.clone())?;
        let start_id = env.entropy.next_u64();
        let throttle = || BackgroundThrottle::new(&foreground, &env.clock, &metrics);
        let mut store = Self {
            gather_throttle: throttle(),
            merge_throttle: throttle(),
            repair_throttle: throttle(),
            backlog: CompactionBacklog::new(config.backlog_bytes_max, metrics.backlog_bytes.clone()),
            gather_batch_size: GatherBatchSize::new(config.gather_bytes_max()),
            foreground,
            log_limits: LogLimits::new(Arc::clone(&env.clock)),
            env,
            dir: dir.to_owned(),
            config,
            metrics,
            segments: Mutex::default(),
            removals: AtomicU64::new(0),
            start_id,
            quarantined_files: Mutex::default(),
            keyless: Mutex::default(),
            receiving: Mutex::default(),
            evicted_until: Mutex::new(Millis(0)),
            clock_guard: Mutex::new(ClockGuard::new(Millis(0), Duration::ZERO)),
            clock_persisted: Mutex::new(Millis(0)),
            suspension: Mutex::default(),
            stored_bytes_at_open: 0,
            index_memory: StoreIndexMemory::default(),
            trashed: Mutex::default(),
            erasures: Arc::new(erasures),
            sink: None,
        };
        set_gauge(&store.metrics.replication_factor, store.config.replication_factor as u64);
        store.env.fs.create_dir_all(dir).map_err(OpenError::io(dir))?;
        match store.env.fs.create_dir_all(&store.trash_dir()) {
            // Retention creates it later, or removes expired segments at once.
            Err(error) if Shortage::is_disk_full(&error) => warn!(%error, "cannot create the trash directory"),
            created => created.map_err(OpenError::io(&store.trash_dir()))?,
        }
        let mut segments = Vec::new();
        let (bytes_max, mut bytes) = (open_bytes_max(store.config.index_bytes_max), 0_u64);
        let names = store.env.fs.list(dir).map_err(OpenError::io(dir))?;
        for file_name in names.into_iter().map(|name| store.restore_trash_name(name)) {
            let path = dir.join(&file_name);
            if file_name.strip_suffix(".tmp").is_some_and(|stem| stem.parse::<Id>().is_ok()) {
                store.remove_file(&path);
                continue;
            }
            // Files with other names are not the store's, and are ignored.
            let Some((low, high, _, extension)) = name::parse(&file_name) else { continue };
            match extension {
                "seg" => {
                    let file = store.env.fs.open(&path).map_err(OpenError::io(&path))?;
                    match Reader::open(file, &path) {
                        Ok(reader) => {
                            let stored = StoredSegment::new(reader);
                            bytes += stored.index_bytes();
                            // Leftovers of a merge count twice here, but not below. Beyond twice the maximum segments are
                            // only counted: keeping them could exhaust the node's memory.
                            if bytes <= bytes_max.saturating_mul(2) {
                                store.restore_damage(&stored);
                                segments.push(Arc::new(stored));
                            }
                        }
                        Err(newer @ ReadError::Version { .. }) => return Err(OpenError::NewerVersion(newer)),
                        Err(unreadable @ ReadError::MissingKey { .. }) => {
                            store.add_keyless(&path, (low, high), &unreadable);
                        }
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
                draft if DRAFT_SUFFIXES.iter().any(|end| draft.ends_with(end)) => store.remove_file(&path),
                _ => {}
            }
        }
        if bytes > bytes_max.saturating_mul(2) {
            return Err(OpenError::Memory { dir: dir.to_owned(), needed: bytes, max: bytes_max });
        }
        store.check_keys(&segments)?;
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

    /// Restores the name of a file that an operator moved here from the trash. Other names are unchanged.
    fn restore_trash_name(&self, file_name: String) -> String {
        let Some((_, name_before)) = name::parse_trashed(&file_name) else { return file_name };
        match self.env.fs.rename(&self.dir.join(&file_name), &self.dir.join(name_before)) {
            Ok(()) => {
                info!(segment = name_before, "a segment was restored from the trash");
                name_before.to_owned()
            }
            Err(error) => {
                warn!(segment = file_name, %error, "cannot rename a segment that was moved from the trash: it is ignored");
                file_name
            }
        }
    }

    fn quarantine(&self, path: &Path, low: Millis, high: Millis, damaged: &ReadError) {
        error!(error = %damaged, "a segment cannot be read: it is quarantined, and answers over its time are partial");
        let target = path.with_extension("damaged");
        if let Err(error) = self.env.fs.rename(path, &target) {
            warn!(path = %path.display(), %error, "cannot rename a damaged segment");
        }
        let name = file_name(&target);
        let proof = self.restarted_proof(&target);
        lock(&self.quarantined_files).push(DamagedSegment::quarantined_file(name, low, high, proof));
    }

    /// Completes or undoes interrupted merges. If all outputs of a merge exist, its remaining inputs are removed. If an output
    /// is missing and all inputs exist, the outputs are removed. Otherwise everything is kept: answers drop duplicates.
    fn finish_merges(&self, segments: Vec<Arc<StoredSegment>>) -> Vec<Arc<StoredSegment>> {
        let present: HashSet<Id> = segments.iter().map(|segment| segment.id()).collect();
        let mut obsolete: HashSet<Id> = HashSet::new();
        for segment in &segments {
            let Some(merge) = &segment.footer().merge else { continue };
            let inputs: Vec<Id> = merge.inputs.iter().filter(|input| present.contains(input)).copied().collect();
            let same =
                |other: &&Arc<StoredSegment>| other.footer().merge.as_ref().is_some_and(|other| other.id == merge.id);
            if segments.iter().filter(same).count() == merge.output_count as usize {
                obsolete.extend(inputs);
            } else if inputs.len() == merge.inputs.len() {
                obsolete.insert(segment.id());
            }
        }
        let (obsolete, segments): (Vec<_>, Vec<_>) =
            segments.into_iter().partition(|segment| obsolete.contains(&segment.id()));
        obsolete.iter().for_each(|segment| self.trash_leftover(segment.reader().path(), segment.id()));
        segments
    }

    /// Commits the queue segments that are already stored. Called once, before the first batch and the first query. With a
    /// replication factor above 1 it does nothing: it is unknown whether other stores have replicas, so the segments are
    /// stored again.
    pub fn reconcile(&self, queue: &Queue) {
        if self.config.replication_factor <= 1 {
            self.segments().iter().for_each(|segment| queue.commit(&segment.footer().sources));
        }
    }
}
