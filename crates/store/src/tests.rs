use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_env::{Clock as _, Env, Fs as _, lock, real, sim};
use bucksaw_fixtures::{GoldenFiles, with_unknown_fields};
use bucksaw_ingest::lease::{self, LeaseServer};
use bucksaw_ingest::{self as ingest, Durability, FrameRecords, Queue, Source};
use bucksaw_record::{Id, LabelScope, Labels, Millis, Producer};
use bucksaw_segment::stored::BlockEntry;
use bucksaw_segment::{Chunk, Codec, RowMeta};
use prometheus_client::registry::Registry;

use super::*;
use call_network::{CallNetwork, OtherNode};

mod call_network;
mod disk;
mod encrypted_erasures;
mod encryption;
mod erasures;
mod index_memory;
mod offline_repair;
mod repair;
mod replication;
mod search_share;
mod throttle;
mod versions;

/// One node with a queue and a store, driven by hand.
struct StoreTestMachine {
    fs: sim::Fs,
    clock: Arc<sim::Clock>,
    tasks: Arc<sim::InlineTasks>,
    queue: Arc<Queue>,
    store: Arc<SegmentStore>,
    context: StoreContext,
    puller: Puller,
    sequence: u32,
    acknowledged: Arc<Mutex<BTreeMap<Id, String>>>,
    sent: BTreeMap<Id, String>,
}

const NODE: Id = Id::from_bits(1);

/// Wraps a file system, given a source of random numbers.
type WrapFs<'a> = dyn Fn(Arc<dyn bucksaw_env::Fs>, Arc<dyn bucksaw_env::Entropy>) -> Arc<dyn bucksaw_env::Fs> + 'a;

fn config() -> Config {
    Config { segment_bytes: 2_000, block_bytes: 300, codec_final: Codec::ColumnsAlways(3), ..Config::default() }
}

/// The codecs of all stored blocks.
fn block_codecs(machine: &StoreTestMachine) -> Vec<Codec> {
    let segments = machine.store.segments();
    segments.iter().flat_map(|segment| &segment.footer().blocks).filter_map(BlockEntry::text_codec).collect()
}

impl StoreTestMachine {
    fn start(fs: sim::Fs, config: Config) -> Self {
        Self::try_start(fs, config).unwrap()
    }

    fn try_start(fs: sim::Fs, config: Config) -> Option<Self> {
        Self::open(fs, &|fs, _| fs, config).ok()
    }

    /// A node on `fs` as `wrap` wraps it.
    fn open(fs: sim::Fs, wrap: &WrapFs<'_>, config: Config) -> Result<Self, bucksaw_segment::OpenError> {
        let clock = Arc::new(sim::Clock::at_unix_ms(1_700_000_000_000));
        let entropy = Arc::new(sim::Entropy::seeded(fs.sync_count() ^ 0x5eed));
        let entropy: Arc<dyn bucksaw_env::Entropy> = entropy;
        let wrapped = wrap(Arc::new(fs.clone()), Arc::clone(&entropy));
        let env = Env { fs: wrapped, clock: Arc::clone(&clock) as _, entropy };
        let mut registry = Registry::default();
        let queue_config = ingest::Config { segment_bytes_max: 700, ..ingest::Config::default() };
        let metrics = ingest::Metrics::new(&mut registry);
        let (queue, _) = Queue::open(env.clone(), Path::new("/d/queue"), queue_config, metrics)?;
        let store = SegmentStore::open(env, Path::new("/d/store"), config, Metrics::new(&mut registry))?;
        store.reconcile(&queue);
        let (queue, store) = (Arc::new(queue), Arc::new(store));
        let tasks = Arc::new(sim::InlineTasks::new(Arc::clone(&clock)));
        let context = StoreContext {
            node: NODE,
            store: Arc::clone(&store) as _,
            temp_dir: "/d/store".into(),
            env: store.env.clone(),
            peers: Arc::new(NoPeers),
            tasks: Arc::clone(&tasks) as _,
            net: Arc::new(real::OfflineNet),
            timeouts: PeerTimeouts::default(),
            metrics: store.metrics.clone(),
            is_short_of_descriptors: Arc::default(),
        };
        let puller = Puller::new(context.clone(), Some(Arc::clone(&queue)));
        let (acknowledged, sent) = (Arc::default(), BTreeMap::new());
        Ok(Self { fs, clock, tasks, queue, store, context, puller, sequence: 0, acknowledged, sent })
    }

    /// The same node, but its store fetches from its queue by calls, as from that of another node.
    fn with_remote_queue(mut self) -> Self {
        let server = LeaseServer::new(Arc::clone(&self.queue), Arc::clone(&self.tasks) as _);
        self.context.peers = Arc::new(OtherNode);
        self.context.net = Arc::new(CallNetwork::new(move |_, name, body| {
            let server = server.clone();
            Box::pin(async move {
                match name.as_str() {
                    lease::WAIT => server.wait(body).await,
                    lease::FETCH => server.fetch(body).await,
                    lease::ACK => server.ack(body).await,
                    _ => Err(std::io::ErrorKind::Unsupported.into()),
                }
            })
        }));
        self.puller = Puller::new(self.context.clone(), None);
        self
    }

    /// Stores one batch if one is due; returns its bytes of text.
    fn gather_due(&self) -> u64 {
        match self.tasks.poll_once(self.puller.wait()) {
            Some(Some(due)) => self.tasks.run(self.puller.store_batch(due)),
            _ => 0,
        }
    }

    /// Stores one batch, due or not; returns its bytes of text.
    fn gather_any(&self) -> u64 {
        self.tasks.run(self.puller.drain())
    }

    /// Appends a line whose source says that it happened `late_ms` ago.
    fn put(&mut self, durability: Durability, line: &str, late_ms: u64) {
        let now = Millis(self.clock.unix_ms());
        self.sequence += 1;
        let at = now.saturating_sub(late_ms);
        let first = Id::new(now, Producer::new(42), self.sequence);
        let id = Id::new(at, Producer::new(42), self.sequence);
        let mut row_meta = Vec::new();
        let times = (late_ms > 0).then(|| vec![(at, 0)]);
        let flags = RowMeta { times, ..RowMeta::default() }.encode(first.time(), &mut row_meta);
        let text = format!("{line}\n");
        let app = if self.sequence.is_multiple_of(3) { "app=a" } else { "app=b" };
        let records = FrameRecords {
            source: Source::Tcp,
            labels: &Labels::parse(app).unwrap(),
            first_id: first,
            count: 1,
            accepted: now,
            layout_bits: flags,
            row_meta: &row_meta,
            text: &[text.as_bytes()],
        };
        self.sent.insert(id, line.to_owned());
        let acknowledged = Arc::clone(&self.acknowledged);
        let line = line.to_owned();
        let _ = self.queue.append(durability, &records, move |result| {
            if result.is_ok() {
                acknowledged.lock().unwrap().insert(id, line);
            }
        });
    }

    fn advance(&self, time: Duration) {
        self.clock.advance(time);
        self.queue.tick();
    }

    fn gather_all(&self) {
        self.advance(Duration::from_secs(3));
        while self.gather_any() > 0 {}
    }

    /// Every record that can be read, with how often it is there.
    fn read(&self) -> BTreeMap<Id, (String, usize)> {
        let mut read: BTreeMap<Id, (String, usize)> = BTreeMap::new();
        let mut note = |chunk: &Chunk<'_>| {
            for (row, record) in (0..).zip(chunk.records()) {
                let entry = read.entry(chunk.rows.id(row).unwrap()).or_default();
                *entry = (String::from_utf8_lossy(record).into_owned(), entry.1 + 1);
            }
        };
        let waiting = self.queue.uncommitted_segments();
        let segments = self.store.segments();
        let taken: Vec<Id> = segments.iter().flat_map(|segment| segment.footer().sources.clone()).collect();
        for view in waiting.iter().filter(|view| !taken.contains(&view.id)) {
            let mut frames = view.frames(0);
            for place in view.frame_positions().unwrap().0 {
                frames.seek(place.offset);
                note(&frames.next_chunk().unwrap().unwrap());
            }
        }
        for segment in segments.iter() {
            for block in 0..segment.footer().blocks.len() {
                if let Ok(block) = segment.block(block) {
                    block.chunks().for_each(|chunk| note(&chunk));
                }
            }
        }
        read
    }

    fn lines(&self) -> BTreeMap<Id, String> {
        self.read().into_iter().map(|(id, (line, _))| (id, line)).collect()
    }

    /// What an answer about these times would lack. It selects no block.
    fn missing_from(&self, first: Millis, last: Millis) -> Selection {
        let filter = BlockSelector {
            may_contain: &|_| false,
            may_match: &|_| false,
            retention: &StreamRetention::default(),
            times: (first, last),
            ids: (Id::MIN, Id::MAX),
            expr: &bucksaw_record::Expr::All,
            stream: None,
            scope: None,
            share: None,
        };
        self.store.select(&filter, &mut std::collections::HashSet::new())
    }

    fn store_file_names(&self) -> Vec<String> {
        let mut names = self.fs.list(Path::new("/d/store")).unwrap();
        names.sort();
        names
    }
}

/// Some traffic: all three durabilities, late records, gatherings, merges, a retry.
fn script(machine: &mut StoreTestMachine) {
    for round in 0..12_u64 {
        for at in 0..6 {
            let late = if at == 4 { 5_000 * (round % 3) } else { 0 };
            let durability = if at % 2 == 0 { Durability::Durable } else { Durability::Fast };
            machine.put(durability, &format!("round {round} line {at} {}", "x".repeat(at * 20)), late);
            if at % 3 == 2 {
                machine.queue.commit_group();
            }
        }
        machine.put(Durability::Bulk, &format!("round {round} bulk"), 0);
        machine.queue.flush_bulk();
        machine.queue.commit_group();
        machine.advance(Duration::from_millis(if round % 2 == 0 { 3_000 } else { 700 }));
        let _ = if round % 2 == 0 { machine.gather_any() } else { machine.gather_due() };
        let _ = machine.store.compact(&|| false);
    }
    machine.queue.commit_group();
}

#[test]
fn records_move_from_the_queue_to_the_store_without_a_gap() {
    let mut machine = StoreTestMachine::start(sim::Fs::new(), config());
    for at in 0..40 {
        machine.put(Durability::Fast, &format!("line {at} {}", "y".repeat(at)), 0);
        assert_eq!(machine.lines(), machine.sent);
    }
    machine.gather_all();
    assert_eq!(machine.queue.uncommitted_segments().len(), 0);
    assert_eq!(machine.lines(), machine.sent);
    assert!(machine.read().values().all(|(_, times)| *times == 1));
    assert!(machine.store.segments().iter().any(|segment| segment.footer().blocks.len() > 1));
}

#[test]
fn gathering_waits_for_size_age_or_a_waiting_client() {
    let mut machine = StoreTestMachine::start(sim::Fs::new(), config());
    machine.put(Durability::Fast, "x", 0);
    assert_eq!(machine.gather_any(), 0, "an active segment is not gathered");
    machine.advance(Duration::from_secs(3));
    assert_eq!(machine.gather_due(), 0);
    machine.advance(Duration::from_secs(7));
    assert_eq!(machine.gather_due(), 2);
    machine.put(Durability::Bulk, "bulk", 0);
    machine.queue.flush_bulk();
    assert!(machine.acknowledged.lock().unwrap().len() == 1);
    assert_eq!(machine.gather_due(), 5);
    assert_eq!(machine.acknowledged.lock().unwrap().len(), 2);
}

#[test]
fn merging_keeps_every_record_and_fewer_files() {
    let mut machine = StoreTestMachine::start(sim::Fs::new(), config());
    for round in 0..30 {
        for at in 0..3 {
            machine.put(Durability::Fast, &format!("round {round} {at}"), if round % 7 == 0 { 20_000 } else { 0 });
        }
        machine.gather_all();
    }
    let before = machine.store.segments().len();
    while machine.store.compact(&|| false).unwrap() > 0 {}
    let segments = machine.store.segments();
    assert!(segments.len() * 3 < before, "{before} to {}", segments.len());
    assert_eq!(machine.lines(), machine.sent);
    assert!(machine.read().values().all(|(_, times)| *times == 1));
    assert_eq!(machine.store_file_names().len(), segments.len());
    for pair in segments.windows(2) {
        assert!(pair[0].reach().low < pair[1].reach().low);
    }
}

#[test]
fn large_blocks_are_carried_over_unchanged() {
    let config = Config { segment_bytes: 1 << 20, block_bytes: 100, ..Config::default() };
    let config = Config { codec_quick: config.codec_final, ..config };
    let mut machine = StoreTestMachine::start(sim::Fs::new(), config);
    for round in 0..8 {
        machine.put(Durability::Fast, &format!("{round} {}", "z".repeat(120)), 0);
        machine.gather_all();
    }
    let blocks = |machine: &StoreTestMachine| -> Vec<u64> {
        let segments = machine.store.segments();
        let entries = segments.iter().flat_map(|segment| segment.footer().blocks.clone());
        entries.map(|entry| entry.packed_bytes()).collect()
    };
    let before = blocks(&machine);
    assert!(machine.store.compact(&|| false).unwrap() > 0);
    assert_eq!((machine.store.segments().len(), blocks(&machine)), (1, before));
    assert_eq!(machine.lines(), machine.sent);
}

#[test]
fn blocks_encoded_quickly_are_encoded_again_once() {
    let mut machine = StoreTestMachine::start(sim::Fs::new(), config());
    let put = |machine: &mut StoreTestMachine| {
        (0..8).for_each(|at| machine.put(Durability::Fast, &format!("{at} {}", "z".repeat(120)), 0));
    };
    machine.put(Durability::Fast, "too little to stay", 0);
    machine.gather_all();
    assert_eq!(machine.store.compact(&|| false).unwrap(), 0);
    put(&mut machine);
    machine.gather_all();
    assert_eq!(machine.store.compact(&|| false).unwrap(), 0, "there was time to pack it for good");
    put(&mut machine);
    machine.advance(Duration::from_secs(20));
    machine.gather_all();
    let last = |machine: &StoreTestMachine| machine.store.segments().last().cloned().unwrap();
    let first = last(&machine);
    assert_eq!(machine.store.compact(&|| false).unwrap(), first.reach().text_bytes);
    let anew = last(&machine);
    assert_eq!(anew.footer().merge.as_ref().unwrap().inputs, [first.id()]);
    assert_ne!(anew.footer().blocks[0].packed_bytes(), first.footer().blocks[0].packed_bytes());
    // A query that saw the queue before must not answer it from there as well.
    assert!(!first.footer().sources.is_empty());
    assert_eq!(anew.footer().sources, first.footer().sources);
    assert_eq!(machine.lines(), machine.sent);
    assert_eq!(machine.store.compact(&|| false).unwrap(), 0);
    let machine = StoreTestMachine::start(machine.fs.clone(), config());
    assert_eq!(machine.store.compact(&|| false).unwrap(), 0, "nor after a restart");
    assert_eq!(machine.lines().len(), 17);
}

#[test]
fn equal_ids_are_stored_once() {
    let mut machine = StoreTestMachine::start(sim::Fs::new(), config());
    for _ in 0..3 {
        machine.sequence = 0;
        (0..5).for_each(|at| machine.put(Durability::Fast, &format!("line {at}"), 0));
        machine.queue.tick();
    }
    machine.gather_all();
    assert!(machine.read().values().all(|(_, times)| *times == 1));
    machine.sequence = 0;
    machine.clock.jump(-3_000);
    (0..5).for_each(|at| machine.put(Durability::Fast, &format!("line {at}"), 0));
    assert_eq!((machine.lines().len(), machine.read().values().map(|(_, times)| times).sum::<usize>()), (5, 10));
}

#[test]
fn a_stopped_merge_changes_nothing() {
    let mut machine = StoreTestMachine::start(sim::Fs::new(), config());
    for _ in 0..8 {
        machine.put(Durability::Fast, "x", 0);
        machine.gather_all();
    }
    let before = machine.store_file_names();
    assert!(matches!(machine.store.compact(&|| true), Err(StoreError::Stopped)));
    assert_eq!(machine.store_file_names(), before);
}

#[test]
fn retention_goes_by_age_and_by_bytes_and_through_the_trash() {
    let age = Config { retention_age: Some(Duration::from_secs(100)), ..config() };
    let mut machine = StoreTestMachine::start(sim::Fs::new(), age);
    machine.put(Durability::Fast, "old", 0);
    machine.put(Durability::Fast, "loaded late", 90_000_000);
    machine.gather_all();
    machine.advance(Duration::from_secs(90));
    machine.store.retain(&machine.queue);
    assert_eq!(machine.lines().len(), 2, "what was loaded late is kept as long as the rest");
    machine.advance(Duration::from_secs(20));
    machine.store.retain(&machine.queue);
    assert_eq!(machine.lines().len(), 0);
    let trash = || machine.fs.list(Path::new("/d/store/trash")).unwrap().len();
    assert_eq!(trash(), 1);
    machine.advance(Duration::from_secs(3_600));
    machine.store.retain(&machine.queue);
    assert_eq!(trash(), 0);

    let bytes = Config { retention_bytes: Some(12_000), ..config() };
    let mut machine = StoreTestMachine::start(sim::Fs::new(), bytes);
    for round in 0..10 {
        machine.put(Durability::Fast, &format!("round {round}"), 0);
        machine.gather_all();
        machine.store.retain(&machine.queue);
    }
    assert!(machine.store.file_bytes() <= 12_000);
    assert_eq!(machine.lines().values().next_back().map(String::as_str), Some("round 9"));
}

#[test]
fn retention_by_bytes_keeps_the_newest_segment_however_large_it_is() {
    let bytes = Config { retention_bytes: Some(100), ..config() };
    let mut machine = StoreTestMachine::start(sim::Fs::new(), bytes);
    for round in 0..3 {
        machine.put(Durability::Fast, &format!("round {round}"), 0);
        machine.gather_all();
        machine.store.retain(&machine.queue);
        machine.store.retain(&machine.queue);
        assert_eq!(machine.lines().values().collect::<Vec<_>>(), [&format!("round {round}")]);
    }
}

#[test]
fn a_clock_that_jumps_expires_nothing_and_empties_no_trash() {
    let day = 24 * 3_600;
    let mut machine = StoreTestMachine::start(sim::Fs::new(), config());
    machine.put(Durability::Fast, "old", 0);
    machine.gather_all();
    machine.store.retain(&machine.queue);
    machine.advance(Duration::from_secs(8 * day));
    machine.store.retain(&machine.queue);
    let trash = |machine: &StoreTestMachine| machine.fs.list(Path::new("/d/store/trash")).unwrap().len();
    assert_eq!((machine.lines().len(), trash(&machine)), (0, 1), "without a jump it expires");
    machine.put(Durability::Fast, "kept", 0);
    machine.gather_all();
    machine.clock.jump(8 * 24 * 3_600_000);
    for _ in 0..12 {
        machine.advance(Duration::from_secs(1));
        machine.store.retain(&machine.queue);
    }
    assert_eq!((machine.lines().len(), trash(&machine)), (1, 1), "the clock is ahead");
    assert_eq!(machine.store.metrics.retention_suspended.get(), 1);
    machine.clock.jump(-8 * 24 * 3_600_000);
    machine.store.retain(&machine.queue);
    assert_eq!((machine.lines().len(), trash(&machine)), (1, 1), "the clock is right again");
    assert_eq!(machine.store.metrics.retention_suspended.get(), 0);
}

#[test]
fn a_machine_that_was_off_for_long_expires_a_day_after_its_start() {
    let day = 24 * 3_600;
    let mut machine = StoreTestMachine::start(sim::Fs::new(), config());
    machine.put(Durability::Fast, "old", 0);
    machine.gather_all();
    machine.store.retain(&machine.queue);
    // With the kept time, and with the newest arrival alone.
    for forgets in [false, true] {
        let fs = machine.fs.clone();
        if forgets {
            fs.remove(Path::new("/d/store/clock.json")).unwrap();
            fs.remove(Path::new("/d/store/clock.backup")).unwrap();
        }
        let config = Config { segment_bytes: 2_000, block_bytes: 300, ..Config::default() };
        let clock = Arc::new(sim::Clock::at_unix_ms(1_700_000_000_000 + 8 * 24 * 3_600_000));
        let entropy = Arc::new(sim::Entropy::seeded(7));
        let env = Env { fs: Arc::new(fs), clock: Arc::clone(&clock) as _, entropy };
        let store =
            SegmentStore::open(env, Path::new("/d/store"), config, Metrics::new(&mut Registry::default())).unwrap();
        store.retain(&machine.queue);
        assert_eq!(store.segments().len(), 1, "at the start");
        if forgets {
            clock.advance(Duration::from_secs(day));
            store.retain(&machine.queue);
            assert_eq!(store.segments().len(), 0, "a day later");
        }
    }
}

#[test]
fn no_flipped_bit_changes_the_trusted_time() {
    let now = 1_700_000_000_000;
    for path in ["/d/store/clock.json", "/d/store/clock.backup"] {
        let machine = StoreTestMachine::start(sim::Fs::new(), config());
        machine.store.retain(&machine.queue);
        let kept = || machine.fs.live_bytes("/d/store/clock.json").unwrap();
        let (trusted, bits) = (kept(), machine.fs.live_bytes(path).unwrap().len() as u64 * 8);
        for bit in 0..bits {
            assert!(machine.fs.flip_bit(path, bit));
            machine.store.restore_clock_guard();
            assert!(lock(&machine.store.clock_guard).trusted_max.0.abs_diff(now) < 60_000, "bit {bit} of {path}");
            machine.store.retain(&machine.queue);
            assert_eq!(kept(), trusted, "bit {bit} of {path} is mended");
        }
    }
}

#[test]
fn clock_files_of_all_versions_are_read() {
    let files = GoldenFiles::new(env!("CARGO_MANIFEST_DIR"), 1);
    let machine = StoreTestMachine::start(sim::Fs::new(), config());
    machine.store.retain(&machine.queue);
    let (file, backup) = ("/d/store/clock.json", "/d/store/clock.backup");
    let written = |path: &str| machine.fs.live_bytes(path).unwrap();
    let trusted = lock(&machine.store.clock_guard).trusted_max;
    files.check("clock", &written(file));
    files.check("clock-backup", &written(backup));
    let read = |file_bytes: Option<&[u8]>, backup_bytes: Option<&[u8]>| {
        for (path, bytes) in [(file, file_bytes), (backup, backup_bytes)] {
            machine.fs.remove(Path::new(path)).ok();
            if let Some(bytes) = bytes {
                machine.fs.create(Path::new(path)).unwrap().append(&[bytes]).unwrap();
            }
        }
        // Of an empty store the wall clock is taken where nothing is kept.
        machine.clock.advance(Duration::from_secs(3_600));
        machine.store.restore_clock_guard();
        assert_eq!(lock(&machine.store.clock_guard).trusted_max, trusted);
    };
    files.read_all("clock").iter().for_each(|kept| read(Some(kept), None));
    files.read_all("clock-backup").iter().for_each(|kept| read(None, Some(kept)));
    (0..20).for_each(|seed| read(Some(&with_unknown_fields(&files.read_all("clock")[0], seed).unwrap()), None));
}

/// A store with eight segments, whose third has a block that cannot be read.
fn with_a_damaged_block() -> StoreTestMachine {
    let mut machine = StoreTestMachine::start(sim::Fs::new(), config());
    for round in 0..8 {
        machine.put(Durability::Fast, &format!("round {round}"), 0);
        machine.gather_all();
    }
    let segments = machine.store.segments();
    let block = &segments[2].footer().blocks[0];
    machine.fs.corrupt(segments[2].reader().path(), block.offset..block.offset + block.packed_bytes() + 1);
    machine
}

#[test]
fn damage_is_reported_kept_and_not_merged() {
    let machine = with_a_damaged_block();
    let segments = machine.store.segments();
    let last = segments[7].reader().path().to_owned();
    // Both footers.
    let block = &segments[7].footer().blocks[0];
    machine.fs.corrupt(&last, block.offset + block.packed_bytes()..segments[7].file_bytes());
    drop(segments);
    assert_eq!(machine.lines().len(), 7);
    assert_eq!(machine.store.segments()[2].damaged_block_count(), 1);
    let machine = StoreTestMachine::start(machine.fs.clone(), config());
    let quarantined = machine.store.quarantined_files();
    assert_eq!(quarantined.len(), 1);
    assert!(quarantined[0].low <= quarantined[0].high && quarantined[0].name.ends_with(".damaged"));
    assert_eq!(machine.lines().len(), 6);
    while machine.store.compact(&|| false).unwrap() > 0 {}
    assert_eq!(machine.lines().len(), 6);
    assert!(machine.store_file_names().iter().any(|name| name.ends_with(".damaged")));
    assert!(machine.store.segments().iter().any(|segment| segment.damaged_block_count() == 1));
}

#[test]
fn a_quarantined_file_is_missing_from_answers_of_its_time_unless_it_is_re_replicated() {
    let machine = with_a_damaged_block();
    let segment = Arc::clone(&machine.store.segments()[7]);
    machine.fs.corrupt(segment.reader().path(), 0..segment.file_bytes());
    let machine = StoreTestMachine::start(machine.fs.clone(), config());
    let file = machine.store.quarantined_files().remove(0);
    let damaged = |first: Millis, last: Millis| machine.missing_from(first, last).damaged;
    let name = [file.name.clone()];
    assert_eq!((damaged(Millis(0), file.low), damaged(file.high, Millis::MAX)), (name.to_vec(), name.to_vec()));
    assert_eq!(damaged(Millis(0), Millis(file.low.0 - 1)), [""; 0]);
    assert_eq!(damaged(Millis(file.high.0 + 1), Millis::MAX), [""; 0]);
    machine.store.persist_damage(&DamagedSegment { proof: crate::repair::proof::Proof::proven(), ..file });
    assert_eq!(damaged(Millis(0), Millis::MAX), [""; 0]);
}

#[test]
fn damage_that_a_merge_meets_is_counted_at_once() {
    let machine = StoreTestMachine::start(with_a_damaged_block().fs.clone(), config());
    machine.store.compact(&|| false).unwrap_err();
    assert_eq!(machine.store.metrics.damaged.get(), 1);
}

#[test]
fn a_queue_segment_that_rots_does_not_hold_up_the_rest() {
    let mut machine = StoreTestMachine::start(sim::Fs::new(), config());
    (0..20).for_each(|at| machine.put(Durability::Fast, &format!("line {at} {}", "w".repeat(30)), 0));
    machine.advance(Duration::from_secs(3));
    let view = machine.queue.uncommitted_segments().remove(0);
    machine.fs.flip_bit(view.path(), (view.end - 5) * 8);
    (0..9).for_each(|_| _ = machine.gather_any());
    assert_eq!((machine.queue.uncommitted_segments().len(), machine.queue.damaged_file_names().len()), (0, 1));
    assert_eq!(machine.lines().len(), 19);
}

#[test]
fn a_full_disk_stops_the_store_and_room_starts_it_again() {
    let mut machine = StoreTestMachine::start(sim::Fs::new(), config());
    (0..20).for_each(|at| machine.put(Durability::Fast, &format!("line {at}"), 0));
    machine.advance(Duration::from_secs(3));
    machine.fs.set_capacity(Some(0));
    assert_eq!((machine.gather_any(), machine.store.metrics.gather_failed.get()), (0, 1));
    assert_eq!((machine.lines(), machine.store_file_names()), (machine.sent.clone(), vec![]));
    machine.fs.set_capacity(None);
    machine.gather_all();
    assert_eq!((machine.lines(), machine.queue.uncommitted_segments().len()), (machine.sent.clone(), 0));
}

#[test]
fn a_failed_sync_of_the_store_commits_nothing() {
    let mut machine = StoreTestMachine::start(sim::Fs::new(), config());
    machine.put(Durability::Fast, "x", 0);
    machine.advance(Duration::from_secs(3));
    machine.fs.fail_next_syncs(1);
    assert_eq!((machine.gather_any(), machine.store.metrics.gather_failed.get()), (0, 1));
    assert_eq!((machine.store_file_names(), machine.queue.backlog().segments), (vec![], 1));
    machine.gather_all();
    assert_eq!(machine.lines(), machine.sent);
}

/// Checks after a power cut: every acknowledged durable or bulk record exists, no unsent record exists, and the store works.
fn check_after(cut: sim::Fs, before: &StoreTestMachine, kept: &BTreeMap<Id, String>, story: &str) {
    let mut machine = StoreTestMachine::start(cut, config());
    let found = machine.lines();
    for (id, line) in kept {
        assert_eq!(found.get(id), Some(line), "{story}: lost {id} {line}");
    }
    for (id, line) in &found {
        assert_eq!(before.sent.get(id), Some(line), "{story}: {id} {line} was never sent");
    }
    machine.sequence = 1 << 20;
    machine.clock.advance(Duration::from_secs(3_600));
    machine.put(Durability::Durable, "after", 0);
    machine.queue.commit_group();
    machine.gather_all();
    while machine.store.compact(&|| false).unwrap() > 0 {}
    let after = machine.lines();
    assert_eq!(after.len(), found.len() + 1, "{story}: after recovery");
    assert!(found.iter().all(|(id, line)| after.get(id) == Some(line)), "{story}: after recovery");
}

/// Only these survive a power cut.
fn durable_records(machine: &StoreTestMachine) -> BTreeMap<Id, String> {
    let acknowledged = machine.acknowledged.lock().unwrap();
    let safe = acknowledged.iter().filter(|(id, line)| {
        let fast = line.split(' ').nth(3).and_then(|at| at.parse::<u32>().ok()).is_some_and(|at| at % 2 == 1);
        !fast && machine.sent.contains_key(id)
    });
    safe.map(|(id, line)| (*id, line.clone())).collect()
}

/// Cuts the power at every sync point of the script, and checks what each kind of loss leaves. The machine is as `start`
/// makes it.
fn check_every_sync_point(start: fn(sim::Fs) -> StoreTestMachine) {
    let mut undisturbed = start(sim::Fs::new());
    let first = undisturbed.fs.sync_count();
    script(&mut undisturbed);
    let last = undisturbed.fs.sync_count();
    assert!(last - first > 60, "only {} sync points", last - first);
    assert_eq!(undisturbed.lines(), undisturbed.sent);
    assert!(block_codecs(&undisturbed).contains(&Codec::Columns(0)), "{:?}", block_codecs(&undisturbed));
    let mut durable_max = 0;
    for point in first..=last {
        let fs = sim::Fs::new();
        fs.halt_at_sync(point);
        let mut machine = start(fs);
        script(&mut machine);
        let durable = durable_records(&machine);
        durable_max = durable_max.max(durable.len());
        let mut cuts = vec![(sim::PowerCutLoss::All, 0), (sim::PowerCutLoss::None, 0)];
        cuts.extend((0..6).map(|seed| (sim::PowerCutLoss::Torn, seed + point * 100)));
        for (loss, seed) in cuts {
            let case = format!("sync {point}, {loss:?}, seed {seed}");
            check_after(machine.fs.cut_power(loss, seed), &machine, &durable, &case);
        }
    }
    assert!(durable_max > 30, "the test must have something to lose: {durable_max}");
}

#[test]
fn a_power_cut_at_any_sync_point_loses_no_durable_record() {
    check_every_sync_point(|fs| StoreTestMachine::start(fs, config()));
}

#[test]
fn a_power_cut_at_any_sync_point_loses_no_durable_record_of_a_remote_queue() {
    check_every_sync_point(|fs| {
        let config = Config { gather_age: Duration::ZERO, ..config() };
        StoreTestMachine::start(fs, config).with_remote_queue()
    });
}
