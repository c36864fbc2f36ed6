//! The sweep: scans the files of this node for records that erasures select, and rewrites or removes those that have some.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{lock, log_limited, set_gauge, to_millis};
use bucksaw_ingest::{Queue, QueueSegment, SegmentView};
use bucksaw_record::{Id, Millis};
use bucksaw_segment::queue::HEADER_LEN;
use bucksaw_segment::stored::Reader;
use bucksaw_segment::{ReadError, RecordSummary};

use super::erasure_set::ErasureSet;
use super::filtered_segment::FilteredSegment;
use super::progress::{ErasureStatus, NAMES_MAX};
use super::sweep_state::QueueScan;
use crate::error::StoreError;
use crate::segment_store::SegmentStore;
use crate::store::TrashedSegment;
use crate::stored_segment::StoredSegment;

/// How often the metrics of erasures are computed.
const MEASURE_PERIOD: Duration = Duration::from_secs(5);

/// Time after the longest retention, and the time in the trash, for which an erasure stays, in milliseconds: clocks differ.
const KEPT_AFTER_MS: u64 = 24 * 3_600_000;

impl SegmentStore {
    /// The erasures of this node.
    pub fn erasure_book(&self) -> &Arc<super::ErasureBook> {
        &self.erasures
    }

    /// Scans or rewrites the next file for the open erasures. Returns the bytes of text in it, at least 1; 0 when nothing is due.
    /// For one thread at a time, and not during [`Self::compact`].
    ///
    /// # Errors
    /// [`StoreError`]; the file is due again.
    pub fn sweep_erasures(&self, queue: &Queue, is_stopped: &dyn Fn() -> bool) -> Result<u64, StoreError> {
        let swept = self.sweep_next(queue, is_stopped);
        self.update_erasure_metrics(queue);
        swept
    }

    fn sweep_next(&self, queue: &Queue, is_stopped: &dyn Fn() -> bool) -> Result<u64, StoreError> {
        if self.erasures.set().is_empty() {
            return Ok(0);
        }
        self.remove_old_erasures();
        if self.erasures.rewrite_files() {
            self.update_metrics();
        }
        let erasures = self.erasures.set();
        self.sweep_queue(queue, &erasures);
        let swept = self.sweep_trash(&erasures)?;
        if swept > 0 {
            return Ok(swept);
        }
        for segment in self.segments().iter().filter(|segment| segment.erasures_checked() < erasures.last_number()) {
            match FilteredSegment::of(segment, &erasures) {
                None => segment.set_erasures_checked(erasures.last_number()),
                // It keeps its filter. Its damaged blocks may be repaired, and cannot be searched.
                Some(_) if segment.damaged_block_count() > 0 => {}
                Some(filtered) => return self.sweep_segment(segment, &filtered, erasures.last_number(), is_stopped),
            }
        }
        Ok(0)
    }

    fn sweep_segment(
        &self,
        segment: &Arc<StoredSegment>,
        filtered: &FilteredSegment,
        number: u64,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<u64, StoreError> {
        let text_bytes = segment.reach().text_bytes.max(1);
        if self.count_erased(segment, filtered, is_stopped)?.is_empty() {
            segment.set_erasures_checked(number);
            return Ok(text_bytes);
        }
        // The output is scanned too, before it counts as checked.
        let (_, mergeable_bytes) = self.plan_merge();
        self.merge(std::slice::from_ref(segment), mergeable_bytes, is_stopped)?;
        Ok(text_bytes)
    }

    /// The selected records of a segment by erasure, with the bytes of their text.
    fn count_erased(
        &self,
        segment: &StoredSegment,
        filtered: &FilteredSegment,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<BTreeMap<Id, (u64, u64)>, StoreError> {
        let is_backlogged = || crate::store::Store::is_backlogged(self);
        let throttle = self.merge_throttle.begin(Some(&is_backlogged));
        let mut counts: BTreeMap<Id, (u64, u64)> = BTreeMap::new();
        for block in 0..segment.footer().blocks.len() {
            throttle.yield_to_queries(is_stopped);
            if is_stopped() {
                return Err(StoreError::Stopped);
            }
            let mut count = |erasure: Id, records: u64, bytes: u64| {
                let sum = counts.entry(erasure).or_default();
                *sum = (sum.0 + records, sum.1 + bytes);
            };
            filtered.remaining(block, &mut count).map_err(StoreError::input(segment.id()))?;
        }
        Ok(counts)
    }

    /// Scans queue segments that were not scanned, or have grown. Those with matches are gathered without them.
    fn sweep_queue(&self, queue: &Queue, erasures: &ErasureSet) {
        let segments = queue.readable_segments();
        let known = std::mem::take(&mut lock(&self.erasures.sweep).queue);
        let scan = |segment: &Arc<QueueSegment>| {
            let view = segment.view();
            let known = known.get(&view.id).copied().unwrap_or_default();
            let is_current = known.number == erasures.last_number() && known.end == view.end;
            let scan = if is_current { known } else { scan_queue_segment(&view, erasures) };
            (view.id, scan)
        };
        let scanned = segments.iter().map(scan).collect();
        lock(&self.erasures.sweep).queue = scanned;
    }

    /// Removes the next file of the trash that has selected records, or cannot be searched. Returns its bytes.
    fn sweep_trash(&self, erasures: &ErasureSet) -> Result<u64, StoreError> {
        let last = erasures.last_number();
        let files = self.trashed();
        let checked = {
            let mut sweep = lock(&self.erasures.sweep);
            sweep.trash.retain(|name, _| files.iter().any(|file| file.name == *name));
            sweep.keyless_trash.clear();
            sweep.trash.clone()
        };
        for file in files.iter() {
            let checked = checked.get(&file.name).copied().unwrap_or_default();
            if checked >= last {
                continue;
            }
            let overlapping = erasures.overlapping(&trashed_reach(file), checked);
            if overlapping.is_empty() {
                lock(&self.erasures.sweep).trash.insert(file.name.clone(), last);
                continue;
            }
            let path = self.trash_dir().join(&file.name);
            let found = self.count_erased_in_trash(&path, erasures);
            let found: Vec<Id> = match found {
                Ok(counts) if counts.is_empty() => {
                    lock(&self.erasures.sweep).trash.insert(file.name.clone(), last);
                    return Ok(file.bytes.max(1));
                }
                Ok(counts) => counts.into_keys().collect(),
                // An operator may name its key, and restore the file.
                Err(StoreError::Input { source: ReadError::MissingKey { .. }, .. }) => {
                    lock(&self.erasures.sweep).keyless_trash.insert(file.name.clone());
                    continue;
                }
                // The operating system failed, not the file.
                Err(StoreError::Input { source: ReadError::Io { source, .. }, .. })
                    if source.kind() != std::io::ErrorKind::NotFound =>
                {
                    return Err(StoreError::Io { verb: "read", path, source });
                }
                Err(_) => overlapping.ids(),
            };
            match self.env.fs.remove(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(StoreError::Io { verb: "remove", path, source: error });
                }
                _ => {}
            }
            log_limited!(self.log_limits, info, segment = file.name, "removed a segment from the trash for an erasure");
            self.scan_trash();
            found.into_iter().for_each(|id| self.erasures.add_progress(id, |progress| progress.trash_files += 1));
            return Ok(file.bytes.max(1));
        }
        Ok(0)
    }

    fn count_erased_in_trash(
        &self,
        path: &std::path::Path,
        erasures: &ErasureSet,
    ) -> Result<BTreeMap<Id, (u64, u64)>, StoreError> {
        let unknown = Id::MIN;
        let io = |source| ReadError::Io { path: path.to_owned(), source };
        let file = self.env.fs.open(path).map_err(io).map_err(StoreError::input(unknown))?;
        let segment = Arc::new(StoredSegment::new(Reader::open(file, path).map_err(StoreError::input(unknown))?));
        match FilteredSegment::of(&segment, erasures) {
            None => Ok(BTreeMap::new()),
            Some(filtered) => self.count_erased(&segment, &filtered, &|| false),
        }
    }

    /// Removes the erasures that are older than the longest retention.
    fn remove_old_erasures(&self) {
        let ages = self.config.retention_labels.iter().map(|rule| rule.age).chain([self.config.retention_age]);
        let Some(ages) = ages.collect::<Option<Vec<_>>>() else { return };
        let kept = ages.into_iter().max().unwrap_or_default() + self.config.trash_age;
        // Only while the clock is trusted.
        if self.trusts_clock() {
            self.erasures.remove_before(self.now().saturating_sub(to_millis(kept)).saturating_sub(KEPT_AFTER_MS));
        }
    }

    /// Publishes how far the erasures are, every few seconds.
    fn update_erasure_metrics(&self, queue: &Queue) {
        let now = self.env.clock.uptime();
        {
            let mut sweep = lock(&self.erasures.sweep);
            if sweep.measured_at.is_some_and(|at| now.saturating_sub(at) < MEASURE_PERIOD) {
                return;
            }
            sweep.measured_at = Some(now);
        }
        let known = self.erasures.in_effect_since();
        let (mut incomplete, mut seconds_max, mut left, mut unsearchable) = (0, 0, 0, BTreeSet::new());
        for (id, since) in &known {
            let Some(status) = self.status_of_erasure(*id, queue).filter(|status| !status.is_done) else { continue };
            incomplete += 1;
            seconds_max = seconds_max.max(now.saturating_sub(*since).as_secs());
            left += status.segments_left + status.queue_segments_left;
            unsearchable.extend(status.damaged);
        }
        let metrics = &self.metrics;
        set_gauge(&metrics.erasures, known.len() as u64);
        set_gauge(&metrics.erasures_incomplete, incomplete);
        set_gauge(&metrics.erasures_incomplete_max_seconds, seconds_max);
        set_gauge(&metrics.erasure_files_left, left);
        set_gauge(&metrics.erasure_files_unsearchable, unsearchable.len() as u64);
        set_gauge(&metrics.damaged_erasures, self.erasures.damaged_files().len() as u64);
    }

    /// How far an erasure is on this node; `None` if it is not known.
    pub fn status_of_erasure(&self, id: Id, queue: &Queue) -> Option<ErasureStatus> {
        let (open, progress) = self.erasures.get(id)?;
        let (erasure, number) = (&open.erasure, open.number);
        let (low, high) = (Id::first_at(erasure.from), Id::first_at(erasure.to));
        let overlaps = |reach: &RecordSummary| erasure.overlaps(reach.low, reach.high);
        let segments = self.segments();
        let unchecked =
            segments.iter().filter(|segment| segment.erasures_checked() < number && overlaps(segment.reach()));
        let (damaged, left): (Vec<_>, Vec<_>) = unchecked.partition(|segment| segment.damaged_block_count() > 0);
        let is_trash_left = |file: &&TrashedSegment| {
            let checked = lock(&self.erasures.sweep).trash.get(&file.name).copied().unwrap_or_default();
            checked < number && overlaps(&trashed_reach(file))
        };
        let trash = self.trashed();
        let (keyless_trash, trash_left): (Vec<&TrashedSegment>, Vec<_>) = trash
            .iter()
            .filter(is_trash_left)
            .partition(|file| lock(&self.erasures.sweep).keyless_trash.contains(&file.name));
        let is_queue_left = |segment: &&Arc<QueueSegment>| {
            let is_overlapping = segment.with_summary(|_, reach| overlaps(reach)).unwrap_or_default();
            let scan = lock(&self.erasures.sweep).queue.get(&segment.id()).copied();
            let is_clean =
                scan.is_some_and(|scan| scan.number >= number && scan.end == segment.end() && !scan.has_match);
            is_overlapping && !is_clean
        };
        let queue_left = queue.readable_segments().iter().filter(is_queue_left).count();
        let is_in_time = |from: Millis, to: Millis| erasure.overlaps(Id::first_at(from), Id::first_at(to));
        let quarantined = self.quarantined_files().into_iter().filter(|file| is_in_time(file.low, file.high));
        let queue_damaged = queue.damaged_files().into_iter().filter(|file| is_in_time(file.low, file.high));
        let mut names: BTreeSet<String> = damaged.into_iter().map(|segment| segment.file_name()).collect();
        names.extend(quarantined.map(|file| file.name).chain(queue_damaged.map(|file| file.name)));
        // Segments whose key is missing cannot be searched either.
        let keyless = self.keyless_segments().into_iter().filter(|file| is_in_time(file.low, file.high));
        names.extend(keyless.map(|file| file.name));
        names.extend(keyless_trash.into_iter().map(|file| file.name.clone()));
        let segments_left = (left.len() + trash_left.len()) as u64;
        let is_done = segments_left == 0 && queue_left == 0 && names.is_empty() && low < high;
        let damaged = names.into_iter().take(NAMES_MAX).collect();
        Some(ErasureStatus { progress, is_done, segments_left, queue_segments_left: queue_left as u64, damaged })
    }
}

fn trashed_reach(file: &TrashedSegment) -> RecordSummary {
    let high = Id::from_bits(Id::first_at(file.high.saturating_add(1)).bits().saturating_sub(1));
    let mut reach = RecordSummary::default();
    (reach.low, reach.high) = (Id::first_at(file.low), high);
    reach
}

/// A segment that cannot be read has a match: it is quarantined or read again.
fn scan_queue_segment(view: &SegmentView, erasures: &ErasureSet) -> QueueScan {
    let number = erasures.last_number();
    let erasures = erasures.overlapping(&view.reach, 0);
    let mut has_match = false;
    if !erasures.is_empty() {
        let (mut frames, mut visit) = (view.frames(HEADER_LEN as u64), |chunk: &bucksaw_segment::Chunk<'_>| {
            has_match |= erasures.retained(chunk).is_some();
            if has_match { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let result = match view.salvaged_frames() {
            None => loop {
                match frames.next_chunk() {
                    Ok(Some(chunk)) if visit(&chunk).is_continue() => {}
                    Ok(_) => break Ok(()),
                    Err(error) => break Err(error),
                }
            },
            Some(salvaged) => salvaged.iter().try_for_each(|frame| {
                frames.seek(frame.offset);
                if let Some(chunk) = frames.next_chunk()? {
                    let _ = visit(&chunk);
                }
                Ok::<(), ReadError>(())
            }),
        };
        has_match |= result.is_err();
    }
    QueueScan { number, end: view.end, has_match }
}
