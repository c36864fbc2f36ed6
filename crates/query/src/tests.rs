#![expect(clippy::disallowed_types, reason = "tests damage the files of a segment store")]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{Clock, Env, Fs as _, real, sim};
use bucksaw_ingest::{self as ingest, Durability, FrameRecords, Queue, Source};
use bucksaw_record::{Expr, Id, Labels, Millis, Producer, RecordView};
use bucksaw_scan::{Plan, fields};
use bucksaw_segment::stored::SearchableBlock;
use bucksaw_segment::{Codec, RowMeta};
use bucksaw_store::{
    self as store, BlockSource as _, NoPeers, PeerTimeouts, Puller, SegmentStore, Store as _, StoreContext,
};
use prometheus_client::registry::Registry;
use proptest::prelude::*;

use super::*;
use crate::count::CountStream;
use crate::request::Cancel;
use crate::search::Search;
use crate::tail::Tail;

mod answers;
mod codecs;
mod erasures;
mod groups;
mod retention;
mod streams;
pub(crate) mod tenants;

pub(crate) struct TestEngine {
    pub(crate) fs: sim::Fs,
    pub(crate) clock: Arc<sim::Clock>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) store: Arc<SegmentStore>,
    tasks: Arc<sim::InlineTasks>,
    puller: Puller,
    next: u32,
    /// All accepted records by id.
    pub(crate) accepted: BTreeMap<Id, (Labels, Vec<u8>)>,
}

/// The histogram of a request, after a comparison with the one by level.
fn histogram(node: &TestEngine, request: &Request, buckets: usize) -> Histogram {
    let plain = node.histogram(request, Bucketing { buckets, grouping: Grouping::None }).0;
    let by_level = node.histogram(request, Bucketing { buckets, grouping: Grouping::Level }).0;
    let counts = |histogram: &Histogram| histogram.buckets.iter().map(|bucket| bucket.count).collect::<Vec<_>>();
    assert_eq!(counts(&plain), counts(&by_level));
    plain
}

/// Groupings of every kind, for lines such as `a=x level=info status=200` of the streams `app=s0` and `app=s1`.
pub(crate) fn groupings() -> Vec<Grouping> {
    let field = |name: &str, values: &[&str]| Grouping::Field {
        name: name.to_owned(),
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    };
    let stream = |text| Labels::parse(text).unwrap();
    vec![
        Grouping::None,
        Grouping::Level,
        field("a", &["x", "", "b"]),
        field("status", &["404", "200"]),
        field("app", &["s1", "other"]),
        Grouping::Streams(vec![stream("app=none"), stream("app=s1")]),
    ]
}

/// The counts of each group in `buckets`, by one record at a time.
pub(crate) fn naive_groups<'a>(
    grouping: &Grouping,
    buckets: &[Bucket],
    records: impl Iterator<Item = (Id, &'a Labels, RecordView<'a>)>,
) -> Vec<Vec<u64>> {
    let mut counts: Vec<Vec<u64>> = buckets.iter().map(|_| vec![0; grouping.values().len()]).collect();
    for (id, labels, record) in records {
        let bucket = buckets.iter().position(|bucket| bucket.from <= id.time() && id.time() < bucket.to).unwrap();
        let value = match grouping {
            Grouping::None => None,
            Grouping::Level => Level::of(labels, record).map(|level| level.name().to_owned()),
            Grouping::Streams(_) => Some(labels.to_string()),
            Grouping::Field { name, .. } => match labels.get(name) {
                Some(value) => Some(value.to_owned()),
                None => match record.attribute(name) {
                    Some(value) => Some(String::from_utf8_lossy(value).into_owned()),
                    None => {
                        fields::lookup(record.line(), name).map(|value| String::from_utf8_lossy(&value).into_owned())
                    }
                },
            },
        };
        let group = grouping.values().iter().position(|known| Some(&**known) == value.as_deref());
        if let Some(count) = group.and_then(|group| counts[bucket].get_mut(group)) {
            *count += 1;
        }
    }
    counts
}

/// The values of a field with their numbers of records.
pub(crate) fn counted(field: &FieldValues) -> Vec<(&str, u64)> {
    field.values.iter().map(|value| (str::from_utf8(&value.value).unwrap(), value.records)).collect()
}

impl TestEngine {
    fn new() -> Self {
        Self::on(sim::Fs::new())
    }

    fn on(fs: sim::Fs) -> Self {
        Self::with(fs, Config { tail_lag_bytes_max: 2_000, ..Config::default() }, 1)
    }

    /// An engine with this memory for results, and units `size` times as large.
    fn with_memory(held_bytes_max: u64, size: u64) -> Self {
        Self::with(sim::Fs::new(), Config { result_bytes_max: held_bytes_max, ..Config::default() }, size)
    }

    fn with(fs: sim::Fs, config: Config, size: u64) -> Self {
        Self::with_pool(fs, config, size, ScanPool::start(2, |_| ()).unwrap())
    }

    pub(crate) fn with_pool(fs: sim::Fs, config: Config, size: u64, pool: ScanPool) -> Self {
        let queue = ingest::Config { segment_bytes_max: 600 * size, ..ingest::Config::default() };
        Self::with_configs(fs, config, queue, small_store(size, Codec::ColumnsAlways(3)), pool)
    }

    fn with_configs(fs: sim::Fs, config: Config, queue: ingest::Config, store: store::Config, pool: ScanPool) -> Self {
        let clock = Arc::new(sim::Clock::at_unix_ms(1_700_000_000_000));
        let entropy = Arc::new(sim::Entropy::seeded(7));
        let env = Env { fs: Arc::new(fs.clone()), clock: Arc::clone(&clock) as _, entropy };
        let mut registry = Registry::default();
        let metrics = ingest::Metrics::new(&mut registry);
        let (queue, _) = Queue::open(env.clone(), Path::new("/queue"), queue, metrics).unwrap();
        let metrics = store::Metrics::new(&mut registry);
        let store = SegmentStore::open(env.clone(), Path::new("/store"), store, metrics).unwrap();
        let metrics = Metrics::new(&mut registry);
        let (queue, store) = (Arc::new(queue), Arc::new(store));
        let tasks = Arc::new(sim::InlineTasks::new(Arc::clone(&clock)));
        let context = StoreContext {
            node: Id::from_bits(1),
            store: Arc::clone(&store) as _,
            temp_dir: "/store".into(),
            env: env.clone(),
            peers: Arc::new(NoPeers),
            tasks: Arc::clone(&tasks) as _,
            net: Arc::new(real::OfflineNet),
            timeouts: PeerTimeouts::default(),
            metrics: store::Metrics::new(&mut prometheus_client::registry::Registry::default()),
            is_short_of_descriptors: Arc::default(),
        };
        let puller = Puller::new(context, Some(Arc::clone(&queue)));
        let engine = Engine::new(queue, Arc::clone(&store) as _, pool, env, config, metrics);
        Self { fs, clock, engine: Arc::new(engine), store, tasks, puller, next: 0, accepted: BTreeMap::new() }
    }

    pub(crate) fn put_as(&mut self, id: Id, labels: &str, line: &[u8]) {
        let labels = Labels::parse(labels).unwrap();
        let first = Id::new(Millis(self.clock.unix_ms()), id.producer(), id.sequence());
        let mut row_meta = Vec::new();
        let times = (id.time() != first.time()).then(|| vec![(id.time(), 0)]);
        let layout_bits = RowMeta { times, ..RowMeta::default() }.encode(first.time(), &mut row_meta);
        let records = FrameRecords {
            source: Source::Tcp,
            labels: &labels,
            first_id: first,
            count: 1,
            accepted: first.time(),
            layout_bits,
            row_meta: &row_meta,
            text: &[line, b"\n"],
        };
        self.engine.queue().append(Durability::Fast, &records, |_| {}).unwrap();
        self.accepted.insert(id, (labels, line.to_vec()));
    }

    pub(crate) fn put(&mut self, line: &str) -> Id {
        self.next += 1;
        let id = Id::new(Millis(self.clock.unix_ms()), Producer::new(1), self.next);
        self.put_as(id, "app=web", line.as_bytes());
        id
    }

    pub(crate) fn advance_clock(&self, ms: u64) {
        self.clock.advance(Duration::from_millis(ms));
        self.engine.queue().tick();
    }

    pub(crate) fn move_to_store(&self) {
        self.advance_clock(3_000);
        while self.tasks.run(self.puller.drain()) > 0 {}
    }

    fn search_all(&self, request: Request) -> (Vec<OwnedRecord>, QueryStats) {
        let mut search = self.engine.search(request, Cancel::default()).unwrap();
        let mut records = Vec::new();
        loop {
            let batch = next_batch(&mut search);
            if batch.is_empty() {
                return (records, search.stats.clone());
            }
            records.extend(batch);
        }
    }

    fn lines(&self, request: Request) -> Vec<String> {
        self.search_all(request).0.iter().map(|record| String::from_utf8_lossy(&record.text).into_owned()).collect()
    }

    pub(crate) fn answers(&self) -> Answers {
        Answers::new(Arc::clone(&self.engine), Arc::clone(&self.tasks) as _)
    }

    fn count(&self, request: &Request) -> u64 {
        self.count_with_stats(request).0
    }

    fn count_with_stats(&self, request: &Request) -> (u64, QueryStats) {
        self.tasks.run(self.answers().count(request.clone(), ())).unwrap()
    }

    pub(crate) fn histogram(&self, request: &Request, bucketing: Bucketing) -> (Histogram, QueryStats) {
        self.tasks.run(self.answers().histogram(request.clone(), bucketing, (), |_, _| {})).unwrap()
    }

    pub(crate) fn fields(&self, request: Request) -> (Fields, QueryStats) {
        self.tasks.run(self.answers().fields(request, ())).unwrap()
    }

    pub(crate) fn streams(&self, request: Request) -> (Streams, QueryStats) {
        self.tasks.run(self.answers().streams(request, ())).unwrap()
    }

    /// The records around one.
    pub(crate) fn context(
        &self,
        id: Id,
        before: u64,
        after: u64,
    ) -> Result<(Vec<OwnedRecord>, QueryStats), RequestError> {
        let records = self.tasks.run(self.answers().context(id, before, after, None))?;
        Ok(self.tasks.run(records.write_to(Vec::new())).unwrap())
    }

    /// Scans of a search that has ended may still run.
    fn assert_memory_is_released(&self) {
        wait_for_pool(&self.engine.pool);
        assert_eq!(self.engine.result_budget.reserved_bytes(), 0);
    }
}

/// Segments of 900 bytes and blocks of 200, times `size`, all of one codec.
fn small_store(size: u64, codec: Codec) -> store::Config {
    let (segment_bytes, block_bytes) = (900 * size, 200 * size);
    store::Config { segment_bytes, block_bytes, codec_quick: codec, codec_final: codec, ..store::Config::default() }
}

fn request_all_time(expr: &str) -> Request {
    Request::new(Expr::parse(expr.as_bytes()).unwrap(), Millis(0), Millis::MAX)
}

#[test]
fn expired_records_are_in_no_answer_and_the_trash_is_reported() {
    let mut node = TestEngine::new();
    let (queue, store) = (Arc::clone(node.engine.queue()), Arc::clone(&node.store));
    store.retain(&queue);
    node.put("stored");
    node.move_to_store();
    let late = Id::new(Millis(5), Producer::new(9), 1);
    let request = || Request::new(Expr::All, Millis(0), Millis::MAX);
    let count_all = |node: &TestEngine| node.count_with_stats(&request());
    // Six days and some hours later.
    node.advance_clock(6 * 24 * 3_600_000 + 9_000_000);
    node.put_as(late, "app=web", b"of 1970, loaded today");
    node.move_to_store();
    assert_eq!(count_all(&node).0, 2);
    node.advance_clock(24 * 3_600_000);
    let (count, stats) = count_all(&node);
    assert_eq!((count, stats.trashed, stats.is_partial()), (1, TrashStats::default(), false), "before it is removed");
    store.retain(&queue);
    let (count, stats) = count_all(&node);
    assert_eq!((count, stats.trashed, stats.is_partial()), (1, TrashStats { segments: 1, records: 1 }, false));
    let recent = Request::new(Expr::All, Millis(1_700_000_100_000), Millis::MAX);
    let stats = node.count_with_stats(&recent).1;
    assert_eq!(stats.trashed, TrashStats::default(), "it is of another time");
    // A clock jump hides and removes nothing.
    node.clock.jump(30 * 24 * 3_600_000);
    assert_eq!(count_all(&node).0, 1);
}

#[test]
fn expired_blocks_of_a_retained_segment_are_in_no_answer() {
    let mut node = TestEngine::with(sim::Fs::new(), Config::default(), 4);
    node.store.retain(node.engine.queue());
    let old = "o".repeat(300);
    for line in [&old, &"n".repeat(300)] {
        (0..4).for_each(|_| _ = node.put(line));
        node.advance_clock(2_000_000);
    }
    node.move_to_store();
    let segments = node.store.segments();
    let blocks = segments[0].footer().blocks.clone();
    assert!(segments.len() == 1 && blocks.len() > 2, "{} segments, {} blocks", segments.len(), blocks.len());
    assert_eq!(node.count(&request_all_time("")), 8);
    // A week after the first records, and less after the last.
    node.advance_clock(7 * 24 * 3_600_000 - 3_000_000);
    node.store.retain(node.engine.queue());
    assert_eq!(node.store.segments().len(), 1, "its new records keep the segment");
    // A block may have old and new records.
    let since = node.store.answers_since().unwrap();
    let kept = blocks.iter().filter(|block| block.summary.newest() >= since).map(|block| block.summary.records);
    let kept: u64 = kept.sum();
    assert!((4..8).contains(&kept), "{kept}");
    assert_eq!(
        (
            node.count(&request_all_time("n")),
            node.count(&request_all_time("")),
            node.lines(request_all_time("")).len() as u64
        ),
        (4, kept, kept)
    );
}

#[test]
fn a_record_is_found_once_wherever_it_is() {
    let mut node = TestEngine::new();
    for at in 0..60 {
        node.put(&format!("line {at:02} {}", if at % 4 == 0 { "odd one" } else { "plain" }));
        node.advance_clock(100);
        if at % 9 == 0 {
            node.move_to_store();
        }
        if at % 20 == 0 {
            node.store.compact(&|| false).unwrap();
        }
        assert_eq!(node.count(&request_all_time("")), at + 1);
    }
    let want: Vec<String> = (0..60).step_by(4).map(|at| format!("line {at:02} odd one")).collect();
    assert_eq!(node.lines(request_all_time("odd")), want);
    let reversed: Vec<String> = want.iter().rev().cloned().collect();
    assert_eq!(node.lines(Request { order: Order::Descending, ..request_all_time("odd") }), reversed);
    assert_eq!(node.lines(Request { limit: Some(3), ..request_all_time("odd") }), want[..3]);
    assert_eq!(
        node.lines(Request { limit: Some(3), order: Order::Descending, ..request_all_time("odd") }),
        reversed[..3]
    );
    assert_eq!(node.count(&request_all_time("-odd")), 45);
}

#[test]
fn an_uncommitted_move_to_the_store_duplicates_nothing() {
    let mut node = TestEngine::new();
    for at in 0..20 {
        node.put(&format!("line {at}"));
    }
    node.advance_clock(3_000);
    let copies: Vec<_> = node.engine.queue().uncommitted_segments().iter().map(|view| view.path().to_owned()).collect();
    let copies: Vec<_> = copies.into_iter().map(|path| (node.fs.live_bytes(&path).unwrap(), path)).collect();
    node.move_to_store();
    node.advance_clock(11_000);
    for (bytes, path) in copies {
        node.fs.create(&path).unwrap().append(&[&bytes]).unwrap();
    }
    // As between the commit of the store and that of the queue.
    let node = TestEngine::on(node.fs.clone());
    assert!(!node.engine.queue().uncommitted_segments().is_empty());
    let (records, stats) = node.search_all(request_all_time(""));
    assert_eq!((node.count(&request_all_time("")), records.len()), (20, 20));
    assert_eq!(stats.segments_read, node.store.segments().len() as u64);
}

#[test]
fn records_that_another_store_has_just_fetched_are_found() {
    let mut node = TestEngine::new();
    for at in 0..20 {
        node.put(&format!("line {at}"));
    }
    node.advance_clock(3_000);
    // A query may have read the other store before it had them.
    let taken: Vec<Id> = node.engine.queue().uncommitted_segments().iter().map(|view| view.id).collect();
    node.engine.queue().commit(&taken);
    assert!(node.engine.queue().uncommitted_segments().is_empty());
    assert_eq!((node.lines(request_all_time("line")).len(), node.count(&request_all_time("line"))), (20, 20));
    // After a minute every query reads the store with them.
    node.advance_clock(60_000);
    node.advance_clock(100);
    assert_eq!((node.lines(request_all_time("line")).len(), node.count(&request_all_time("line"))), (0, 0));
}

#[test]
fn blocks_of_text_are_cached() {
    let (queue, store) = (ingest::Config::default(), small_store(1, Codec::Lz4));
    let mut node = TestEngine::with_configs(sim::Fs::new(), Config::default(), queue, store, ScanPool::inline());
    node.put("a little line without columns");
    node.move_to_store();
    let segment = node.store.segments().first().cloned().unwrap();
    assert!(matches!(segment.open(0), Ok(SearchableBlock::Text(_))));
    assert_eq!((node.count(&request_all_time("little")), node.engine.block_cache.hits.get()), (1, 0));
    assert_eq!(
        (
            node.count(&request_all_time("much")),
            node.lines(request_all_time("columns")).len(),
            node.engine.block_cache.hits.get()
        ),
        (0, 1, 2)
    );
}

#[test]
fn a_block_whose_cached_filter_admits_no_match_takes_no_job() {
    let mut node = TestEngine::new();
    node.put("a line of some length, so that it is a block of columns");
    node.move_to_store();
    let units = |text: &str| {
        let (engine, request) = (&node.engine, request_all_time(text));
        let bucketing = Bucketing { buckets: 1, ..Bucketing::default() };
        let count =
            CountStream::start(Arc::clone(engine), request.clone(), Cancel::default(), bucketing, false).unwrap();
        let mut search = engine.search(request, Cancel::default()).unwrap();
        while !next_batch(&mut search).is_empty() {}
        (count.units_total, search.scans_started, search.stats.segments_read)
    };
    let counts =
        || [node.count_with_stats(&request_all_time("absent")), node.count_with_stats(&request_all_time("line"))];
    assert_eq!(units("absent"), (1, 1, 1), "its filter is not read before a job");
    let first = counts();
    assert_eq!((first[0].0, first[0].1.segments_read, first[1].0), (0, 1, 1));
    assert_eq!((units("absent"), units("line")), ((0, 0, 1), (1, 1, 1)));
    assert_eq!(counts(), first);
}

/// A search with this limit over five segments of ten records each that all match.
fn limited_search(limit: u64) -> (TestEngine, Search) {
    let mut node = TestEngine::new();
    for _ in 0..5 {
        for at in 0..10 {
            node.put(&format!("line {at}"));
        }
        node.move_to_store();
    }
    assert_eq!(node.store.segments().len(), 5);
    let request = Request { limit: Some(limit), ..request_all_time("line") };
    let mut search = node.engine.search(request, Cancel::default()).unwrap();
    search.start_scans();
    (node, search)
}

#[test]
fn a_search_with_a_limit_starts_the_scans_that_it_needs_at_least() {
    for (limit, want) in [(1, 1), (10, 1), (11, 2), (30, 3), (1_000, 4)] {
        assert_eq!(limited_search(limit).1.scans_started, want, "{limit}");
    }
}

#[test]
fn records_that_are_found_need_no_further_scan() {
    for (limit, may_start) in [(40, false), (41, true)] {
        let (_node, mut search) = limited_search(limit);
        search.wait_for_scan();
        assert_eq!((search.scans_started, search.may_start_scan()), (4, may_start), "{limit}");
    }
}

#[test]
fn records_sent_twice_are_one() {
    let mut node = TestEngine::new();
    let ids: Vec<Id> = (0..10).map(|at| node.put(&format!("line {at}"))).collect();
    node.move_to_store();
    for (at, id) in ids.iter().enumerate() {
        node.put_as(*id, "app=web", format!("line {at}").as_bytes());
        node.put_as(*id, "app=web", format!("line {at}").as_bytes());
    }
    assert_eq!((node.count(&request_all_time("line")), node.lines(request_all_time("line")).len()), (10, 10));
    node.move_to_store();
    assert_eq!((node.count(&request_all_time("line")), node.lines(request_all_time("line")).len()), (10, 10));
    let histogram = histogram(&node, &request_all_time("line"), 7);
    assert_eq!(histogram.buckets.iter().map(|bucket| bucket.count).sum::<u64>(), 10);
}

#[test]
fn spans_are_half_open_and_buckets_cover_them() {
    let mut node = TestEngine::new();
    let start = node.clock.unix_ms();
    for _ in 0..10 {
        node.put("x");
        node.advance_clock(1_000);
    }
    node.move_to_store();
    let request = |from: u64, to: u64| Request::new(Expr::All, Millis(start + from), Millis(start + to));
    assert_eq!(node.count(&request(0, 10_000)), 10);
    assert_eq!(node.count(&request(1_000, 3_000)), 2);
    assert_eq!(node.count(&request(1_001, 3_001)), 2);
    assert_eq!(node.count(&request(5_000, 5_000)), 0);
    let histogram = histogram(&node, &request(0, 10_000), 5);
    assert_eq!(histogram.buckets.iter().map(|bucket| bucket.count).collect::<Vec<_>>(), [2; 5]);
    assert!(histogram.buckets.windows(2).all(|pair| pair[0].to == pair[1].from));
    assert_eq!(histogram.buckets[4].to, Millis(start + 10_000));
}

#[test]
fn segments_that_cannot_match_are_not_read() {
    let mut node = TestEngine::new();
    let first = node.clock.unix_ms();
    (0..10).for_each(|at| {
        node.put(&format!("early {at}"));
    });
    node.move_to_store();
    node.advance_clock(60_000);
    let id = Id::new(Millis(node.clock.unix_ms()), Producer::new(2), 1);
    node.put_as(id, "app=db", b"late");
    node.move_to_store();
    let (_, stats) = node.search_all(Request::new(Expr::All, Millis(first + 30_000), Millis::MAX));
    assert_eq!((stats.segments_read, stats.segments_skipped, stats.matched), (1, 1, 1));
    let (records, stats) = node.search_all(request_all_time("app=db"));
    assert_eq!((records.len(), stats.segments_read, stats.bytes_scanned), (1, 1, 5));
    assert!(stats.bytes_skipped > 0);
}

#[test]
fn damage_is_reported() {
    let mut node = TestEngine::new();
    (0..10).for_each(|at| {
        node.put(&format!("line {at} {}", "x".repeat(60)));
    });
    node.move_to_store();
    let segment = Arc::clone(&node.store.segments()[0]);
    let block = &segment.footer().blocks[1];
    // The block and its recovery record.
    node.fs.corrupt(segment.reader().path(), block.offset..block.offset + block.packed_bytes() + 1);
    let (records, stats) = node.search_all(request_all_time(""));
    assert!(!records.is_empty() && records.len() < 10);
    assert!(stats.is_partial() && stats.damaged.iter().all(|name| name.contains("at byte")));
    let (count, stats) = node.count_with_stats(&request_all_time(""));
    assert!(count == records.len() as u64 && stats.is_partial());
    let elsewhere = Request::new(Expr::All, Millis(0), Millis(5));
    assert!(!node.search_all(elsewhere.clone()).1.is_partial());
    // The times of the records in a damaged queue segment are unknown.
    node.put("a line more");
    let id = node.engine.queue().uncommitted_segments().last().unwrap().id;
    while node.engine.queue().damaged_file_names().is_empty() {
        node.engine.queue().record_unreadable(id);
    }
    assert!(node.search_all(elsewhere).1.damaged.contains(&format!("{id}.damaged")));
    assert_eq!(node.engine.damaged_files(), [Path::new("queue").join(format!("{id}.damaged"))]);
}

#[test]
fn a_cancelled_search_ends_as_cancelled() {
    let mut node = TestEngine::new();
    (0..50).for_each(|at| {
        node.put(&format!("line {at}"));
    });
    let cancel = Cancel::default();
    let mut search = node.engine.search(request_all_time(""), cancel.clone()).unwrap();
    cancel.cancel();
    assert!(next_batch(&mut search).is_empty() && search.is_cancelled());
    let bucketing = Bucketing { buckets: 1, grouping: Grouping::None };
    let counted = node.engine.histogram(request_all_time(""), cancel, bucketing, &mut |_, _| {});
    assert!(matches!(counted, Err(RequestError::Cancelled)));
}

#[test]
fn an_answer_ends_at_the_time_limit_and_is_partial() {
    let limited =
        |time_max| TestEngine::with(sim::Fs::new(), Config { query_timeout: Some(time_max), ..Config::default() }, 1);
    let mut node = limited(Duration::ZERO);
    let ids: Vec<Id> = (0..50).map(|at| node.put(&format!("line {at}"))).collect();
    let reasons = |stats: &QueryStats| {
        assert_eq!((stats.timed_out, stats.is_partial(), stats.damaged.len()), (Some(Duration::ZERO), true, 0));
        assert!(stats.partial_reasons()[0].contains("its time limit of 0 s"), "{:?}", stats.partial_reasons());
    };
    let (records, stats) = node.search_all(request_all_time(""));
    assert!(records.is_empty());
    reasons(&stats);
    let (count, stats) = node.count_with_stats(&request_all_time("-x"));
    assert_eq!(count, 0);
    reasons(&stats);
    reasons(&node.fields(request_all_time("")).1);
    let error = node.context(ids[7], 1, 1).unwrap_err();
    assert!(error.to_string().contains("time limit"), "{error}");

    // The time that a query waits for its reader does not count, nor does the time after its end.
    let mut node = limited(Duration::from_secs(1));
    (0..5_000).for_each(|at| {
        node.put(&format!("line {at}"));
    });
    let (mut search, mut found) = (node.engine.search(request_all_time(""), Cancel::default()).unwrap(), 0);
    loop {
        node.clock.advance(Duration::from_secs(100));
        match next_batch(&mut search).len() {
            0 => break,
            records => found += records,
        }
    }
    assert_eq!((found, search.stats.is_partial()), (5_000, false));
    assert!(!node.context(*node.accepted.keys().next().unwrap(), 1, 1).unwrap().1.is_partial());
}

/// Advances by a second per read.
#[derive(Debug)]
struct Ticking(Arc<sim::Clock>);

impl Clock for Ticking {
    fn unix_ms(&self) -> u64 {
        self.0.unix_ms()
    }

    fn uptime(&self) -> Duration {
        self.0.advance(Duration::from_secs(1));
        self.0.uptime()
    }

    fn sleep(&self, time: Duration) {
        self.0.sleep(time);
    }
}

#[test]
fn an_answer_that_the_time_limit_cuts_anywhere_is_partial() {
    for is_stored in [false, true] {
        let mut node = TestEngine::with(sim::Fs::new(), Config::default(), 100);
        (0..40).for_each(|at| {
            node.put(&format!("line {at}"));
        });
        if is_stored {
            node.move_to_store();
        }
        let (mut partial, mut whole) = (0, 0);
        for seconds in 1..120 {
            let (queue, store) = (Arc::clone(node.engine.queue()), Arc::clone(&node.store));
            let env = Env { clock: Arc::new(Ticking(Arc::clone(&node.clock))), ..node.engine.env.clone() };
            let config = Config { query_timeout: Some(Duration::from_secs(seconds)), ..Config::default() };
            let (pool, metrics) = (ScanPool::start(1, |_| ()).unwrap(), Metrics::new(&mut Registry::default()));
            node.engine = Arc::new(Engine::new(queue, store, pool, env, config, metrics));
            let mut record = |found: usize, stats: &QueryStats, what: &str| {
                assert!(found == 40 || stats.timed_out.is_some(), "{what} after {seconds} s: {found} {stats:?}");
                if stats.is_partial() { partial += 1 } else { whole += 1 }
            };
            let (records, stats) = node.search_all(request_all_time("/l(i)ne/"));
            record(records.len(), &stats, "records");
            let (count, stats) = node.count_with_stats(&request_all_time("/l(i)ne/"));
            record(count as usize, &stats, "count");
        }
        assert!(partial > 3 && whole > 3, "{partial} {whole}");
    }
}

#[test]
fn context_stays_in_the_stream() {
    let mut node = TestEngine::new();
    let mut middle = Id::MIN;
    for at in 0..20_u32 {
        let id = node.put(&format!("web {at}"));
        if at == 10 {
            middle = id;
        }
        let other = Id::new(Millis(node.clock.unix_ms()), Producer::new(9), at);
        node.put_as(other, "app=db", b"db");
        node.advance_clock(10);
        if at == 12 {
            node.move_to_store();
        }
    }
    let (records, _) = node.context(middle, 2, 3).unwrap();
    let lines: Vec<_> = records.iter().map(|record| String::from_utf8_lossy(&record.text).into_owned()).collect();
    assert_eq!(lines, ["web 8", "web 9", "web 10", "web 11", "web 12", "web 13"]);
    let nothing = Id::from_bits(5);
    assert!(matches!(node.context(nothing, 1, 1), Err(RequestError::RecordNotFound(_))));
}

#[test]
fn fields_have_their_most_frequent_values() {
    let mut node = TestEngine::new();
    for at in 0..30 {
        node.put(&format!("level={} id={at} msg=\"a b\"", if at % 3 == 0 { "error" } else { "info" }));
    }
    let (fields, _) = node.fields(request_all_time(""));
    let field = |name: &str| fields.fields.iter().find(|field| field.name == name).unwrap();
    assert_eq!((fields.records, fields.is_sampled), (30, false));
    assert_eq!(counted(field("level")), [("info", 20), ("error", 10)]);
    assert_eq!((field("id").distinct, field("id").values.len()), (Some(30), 20));
    assert_eq!((field("app").kind, field("msg").kind), (FieldKind::Label, FieldKind::Key));
}

#[test]
fn a_tail_shows_accepted_records_once_and_skips_its_lag() {
    let mut node = TestEngine::new();
    node.put("before");
    let mut tail = node.engine.tail(request_all_time("-quiet")).unwrap();
    assert!(drain_tail(&mut tail).is_empty());
    let mut seen = Vec::new();
    for at in 0..40 {
        node.put(&format!("line {at}"));
        node.put("quiet");
        if at % 3 == 0 {
            seen.extend(drain_tail(&mut tail));
        }
        if at % 10 == 0 {
            node.move_to_store();
            node.advance_clock(11_000);
        }
    }
    seen.extend(drain_tail(&mut tail));
    assert_eq!(seen, (0..40).map(|at| format!("line {at}")).collect::<Vec<_>>());
    (0..60).for_each(|_| {
        node.put(&"x".repeat(50));
    });
    assert!(tail.poll().1 > 2_000);
    node.put("after");
    assert_eq!(drain_tail(&mut tail).len(), 1);
}

#[test]
fn a_poll_of_many_segments_reads_no_more_than_its_budget() {
    // Without memory a poll reads 65,536 bytes.
    let mut node = TestEngine::with_memory(0, 100);
    let mut tail = node.engine.tail(request_all_time("line")).unwrap();
    for at in 0..8 {
        // Each in a segment of its own.
        node.put(&format!("line {at} {}", "x".repeat(40_000)));
    }
    assert_eq!(node.engine.queue().readable_segments().len(), 8);
    let polls: Vec<(usize, bool)> = (0..4).map(|_| (drain_tail(&mut tail).len(), tail.has_more)).collect();
    assert_eq!(polls, [(2, true), (2, true), (2, true), (2, false)]);
}

#[test]
fn a_tail_reads_the_rest_of_a_segment_without_a_new_append() {
    let mut node = TestEngine::with_memory(0, 10_000);
    let mut tail = node.engine.tail(request_all_time("line")).unwrap();
    (0..5).for_each(|at| _ = node.put(&format!("line {at} {}", "x".repeat(40_000))));
    assert_eq!(node.engine.queue().readable_segments().len(), 1);
    let polls: Vec<(usize, bool)> = (0..3).map(|_| (drain_tail(&mut tail).len(), tail.has_new_appends())).collect();
    assert_eq!(polls, [(2, true), (2, true), (1, false)]);
}

#[test]
fn stalled_readers_reserve_little_and_block_no_other() {
    const RECORDS: usize = 4_000;
    let budget = 256 << 10;
    let mut node = TestEngine::with_memory(budget, 4_000);
    for at in 0..RECORDS {
        node.put(&format!("{at:04} {}", "x".repeat(if at % 1_000 == 250 { 50_000 } else { 400 })));
        node.clock.advance(Duration::from_millis(1));
        if at == RECORDS / 2 {
            node.move_to_store();
        }
    }
    let reserved = || node.engine.result_budget.reserved_bytes();
    let start = |order| {
        let mut search = node.engine.search(Request { order, ..request_all_time("x") }, Cancel::default()).unwrap();
        let batch = next_batch(&mut search);
        assert!(!batch.is_empty());
        (search, batch)
    };
    let stalled: Vec<_> = (0..12).flat_map(|_| [start(Order::Ascending), start(Order::Descending)]).collect();
    // A batch, and its last slabs.
    assert!(reserved() <= budget + 24 * (512 << 10), "{} bytes are reserved", reserved());
    let lines = node.lines(request_all_time("x"));
    assert!(lines.len() == RECORDS && lines.is_sorted());
    assert_eq!(node.count(&request_all_time("x")), RECORDS as u64);
    for (number, (mut search, mut records)) in stalled.into_iter().enumerate() {
        if number % 3 == 0 {
            search.release_memory();
        }
        loop {
            let batch = next_batch(&mut search);
            if batch.is_empty() {
                break;
            }
            records.extend(batch);
        }
        assert_eq!(records.len(), RECORDS, "a reader that continues receives all records");
        let ascends = number % 2 == 0;
        assert!(records.is_sorted_by(|a, b| if ascends { a.id < b.id } else { a.id > b.id }));
    }
    assert_eq!(reserved(), 0);
}

#[test]
fn an_answer_releases_memory_while_it_is_read() {
    let mut node = TestEngine::with_memory(128 << 20, 10_000);
    (0..8_000).for_each(|_| {
        node.put(&"x".repeat(400));
    });
    let mut search = node.engine.search(request_all_time(""), Cancel::default()).unwrap();
    let reserved: Vec<u64> =
        std::iter::repeat_with(|| (next_batch(&mut search).len(), node.engine.result_budget.reserved_bytes()))
            .take_while(|(count, _)| *count > 0)
            .map(|(_, reserved)| reserved)
            .collect();
    assert!(reserved.len() > 8 && reserved.is_sorted_by(|a, b| a >= b), "{reserved:?}");
    assert!(reserved[0] > 3_000_000 && reserved[reserved.len() - 2] < 1_000_000, "{reserved:?}");
    assert_eq!(node.engine.result_budget.reserved_bytes(), 0);
    let mut search = node.engine.search(request_all_time(""), Cancel::default()).unwrap();
    let first = next_batch(&mut search).len();
    assert!(node.engine.result_budget.reserved_bytes() > 0);
    search.release_memory();
    assert_eq!(node.engine.result_budget.reserved_bytes(), 0);
    let batches = std::iter::repeat_with(|| next_batch(&mut search).len()).take_while(|count| *count > 0);
    assert_eq!(first + batches.sum::<usize>(), 8_000);
}

#[test]
fn a_search_runs_ahead_of_a_slow_reader() {
    // One thread scans in order; only whether a third unit starts early is left to chance.
    let mut node = TestEngine::with_pool(sim::Fs::new(), Config::default(), 1, ScanPool::start(1, |_| ()).unwrap());
    (0..400).for_each(|at| {
        node.put(&format!("line {at:03} of some length"));
    });
    node.advance_clock(3_000);
    let (_, whole) = node.search_all(request_all_time("line"));
    assert!(whole.segments_read > 10, "{whole:?}");
    // While the thread still works for the first query, an extra one would scan.
    wait_for_pool(&node.engine.pool);
    let mut search = node.engine.search(request_all_time("line"), Cancel::default()).unwrap();
    let (mut shown, mut ahead) = (0, 0);
    while search.stats.bytes_scanned < whole.bytes_scanned {
        shown += search.visit_batch(&mut |_| ControlFlow::Break(()));
        let found = 400 * search.stats.bytes_scanned / whole.bytes_scanned;
        ahead = ahead.max(found - shown as u64);
        wait_for_pool(&node.engine.pool);
    }
    // Units have six records each.
    assert!((11..18).contains(&ahead), "{ahead} of 400 were found and not returned");
}

#[test]
fn a_search_with_a_limit_starts_with_one_scan() {
    let mut node = TestEngine::new();
    (0..400).for_each(|at| {
        node.put(&format!("line {at:03} of some length"));
    });
    node.advance_clock(3_000);
    let scanned = |expr: &str, limit| {
        let (records, stats) = node.search_all(Request { limit, ..request_all_time(expr) });
        (records.len(), stats.bytes_scanned)
    };
    let (_, all) = scanned("line", None);
    let (records, first) = scanned("line", Some(1));
    assert!(records == 1 && 0 < first && first * 40 < all, "{first} of {all} bytes");
    // More scans follow where the first ones found too little.
    assert_eq!(scanned("399", Some(1)), (1, all));
    let (records, few) = scanned("line", Some(20));
    assert!(records == 20 && first < few && few < all / 4, "{few} of {all} bytes");
}

#[test]
fn context_of_long_records_is_cut() {
    let mut node = TestEngine::new();
    let ids: Vec<Id> = (0..12).map(|at| node.put(&format!("{at} {}", "x".repeat(1 << 20)))).collect();
    let (records, stats) = node.context(ids[6], 10, 10).unwrap();
    let found: Vec<Id> = records.iter().map(|record| record.id).collect();
    assert_eq!(found, ids[2..=10], "four megabytes on either side");
    assert_eq!(stats.matched, 9);
}

/// A slow reader of one record at a time, which makes the search release its memory after every third.
struct StallingSink {
    engine: Arc<Engine>,
    found: Vec<Id>,
    reserved_bytes_max: u64,
    is_closed: bool,
}

impl StallingSink {
    fn new(node: &TestEngine) -> Self {
        Self { engine: Arc::clone(&node.engine), found: Vec::new(), reserved_bytes_max: 0, is_closed: false }
    }
}

impl RecordSink for StallingSink {
    fn push(&mut self, record: RecordRef<'_>) -> ControlFlow<()> {
        self.found.push(record.id);
        ControlFlow::Break(())
    }

    fn flush_blocking(&mut self, release_memory: &mut dyn FnMut()) -> Result<(), SinkClosed> {
        self.reserved_bytes_max = self.reserved_bytes_max.max(self.engine.result_budget.reserved_bytes());
        if self.found.len().is_multiple_of(3) {
            release_memory();
            assert_eq!(self.engine.result_budget.reserved_bytes(), 0);
        }
        if self.is_closed { Err(SinkClosed) } else { Ok(()) }
    }
}

#[test]
fn context_stays_within_the_memory_of_queries() {
    let mut node = TestEngine::with_memory(4 << 20, 16);
    let ids: Vec<Id> = (0..12).map(|at| node.put(&format!("{at} {}", "x".repeat(1 << 20)))).collect();
    let records = node.tasks.run(node.answers().context(ids[6], 10, 10, None)).unwrap();
    let (sink, stats) = node.tasks.run(records.write_to(StallingSink::new(&node))).unwrap();
    assert_eq!((&sink.found[..], stats.matched), (&ids[2..=10], 9));
    assert!(sink.reserved_bytes_max <= 4 << 20, "{}", sink.reserved_bytes_max);
    let records = node.tasks.run(node.answers().context(ids[6], 10, 10, None)).unwrap();
    let closed = StallingSink { is_closed: true, ..StallingSink::new(&node) };
    assert!(node.tasks.run(records.write_to(closed)).is_none(), "the answer is not complete");
    node.assert_memory_is_released();
}

#[test]
fn records_accepted_later_are_not_before_the_record_in_its_context() {
    let mut node = TestEngine::new();
    let ids: Vec<Id> = (0..9)
        .map(|at| {
            node.advance_clock(10);
            node.put(&format!("line {at}"))
        })
        .collect();
    let records = node.tasks.run(node.answers().context(ids[5], 3, 2, None)).unwrap();
    for id in [ids[1], ids[3], ids[5]] {
        let between = Id::new(Millis(id.time().0 + 5), Producer::new(77), 0);
        node.put_as(between, &node.accepted[&id].0.to_string(), b"late");
    }
    let (found, stats) = node.tasks.run(records.write_to(Vec::<OwnedRecord>::new())).unwrap();
    let lines: Vec<_> = found.iter().map(|record| String::from_utf8_lossy(&record.text)).collect();
    // After the record the new one is next.
    assert_eq!(lines, ["line 2", "line 3", "line 4", "line 5", "late", "line 6"]);
    assert_eq!(stats.matched, 6);
}

#[test]
fn fields_of_many_names_and_values_stay_within_the_memory() {
    let mut node = TestEngine::with_memory(1 << 20, 64);
    for at in 0..400 {
        let many: String = (0..50).map(|of| format!("n{at:0>199}x{of}={} ", "v".repeat(200))).collect();
        node.put(&format!("level=info {}=1 {many}", "n".repeat(300)));
    }
    let mut collector = crate::fields::FieldCollector::new(&node.engine);
    let reserved = node.engine.result_budget.reserved_bytes();
    assert_eq!(reserved, (1 << 20) / 8);
    let (fields, _) = node.fields(request_all_time(""));
    let bytes =
        |field: &FieldValues| field.name.len() + field.values.iter().map(|value| value.value.len()).sum::<usize>();
    let taken: usize = fields.fields.iter().map(bytes).sum();
    assert!((50_000..=reserved as usize).contains(&taken), "{taken}");
    let level = fields.fields.iter().find(|field| field.name == "level").unwrap();
    assert_eq!((level.records, level.distinct), (400, Some(1)));
    let first = fields.fields.iter().map(|field| field.name.len()).max();
    assert!(first <= Some(256), "{first:?}");
    node.accepted.iter().for_each(|(id, (labels, text))| {
        collector.add(RecordRef {
            id: *id,
            nanos: 0,
            flags: 0,
            labels,
            view: RecordView::line_only(text),
            is_stored: false,
        });
    });
    drop(collector);
    assert_eq!(node.engine.result_budget.reserved_bytes(), 0);
}

/// Waits until the pool has run all jobs.
fn wait_for_pool(pool: &ScanPool) {
    while !pool.is_idle() {
        std::thread::yield_now();
    }
}

/// The next records of an answer.
fn next_batch(search: &mut Search) -> Vec<OwnedRecord> {
    let mut records = Vec::new();
    search.visit_batch(&mut |record| {
        records.push(record.to_owned_record());
        ControlFlow::Continue(())
    });
    records
}

/// The text of an answer in runs, and its number of records.
fn collect_runs(mut search: Search) -> (Vec<u8>, usize) {
    let (mut lines, mut records) = (Vec::new(), 0);
    loop {
        let shown = search.visit_runs(&mut |run| {
            records += run.records;
            lines.extend_from_slice(run.lines);
        });
        if shown == 0 {
            return (lines, records);
        }
    }
}

/// The lines of the next poll.
fn drain_tail(tail: &mut Tail) -> Vec<String> {
    let mut matches = tail.poll().0;
    std::iter::from_fn(|| matches.visit_next(|record| String::from_utf8_lossy(record.view.line()).into_owned()))
        .collect()
}

/// Short lines, some with a level, a duration or a size.
fn drawn_line() -> impl Strategy<Value = String> {
    let fields = prop::sample::select(vec![
        "level=info d=2ms a=x",
        "level=warn d=2.5ms",
        "ERROR d=1500us size=2MB",
        "a [error] size=900kB d=90s",
        "{\"level\":\"error\",\"d\":\"1m30s\"}",
        "d=2 size=2000000",
        "DEBUG b",
    ]);
    prop_oneof![3 => "[ab =x]{0,12}", 1 => fields.prop_map(str::to_owned)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Whatever happened before, an answer equals a plain filter over all accepted records.
    #[test]
    fn answers_equal_the_plain_filter(
        steps in prop::collection::vec((0_u8..12, 0_u64..3_000, drawn_line(), 0_u64..9_000), 1..60),
        expr in prop::sample::select(vec![
            "", "a", "a b", "a OR x", "-a", "/a.?b/", "a=x", "app=s1", "app!=s0 a", "@level>=warn", "@level=none a",
            "@level!=error", "d=*", "d!=* x", "d>2ms", "d<=1.5s", "-(size>900kB)", "size<1MB OR d>=1m", "app=* @level=*",
        ]),
        (from, to, limit) in (0_u64..60_000, 0_u64..60_000, 1_u64..40),
        (memory, size) in prop::sample::select(vec![(0, 1), (20_000, 1), (128 << 20, 1), (0, 100), (20_000, 100)]),
        codec in prop::sample::select(vec![Codec::ColumnsAlways(3), Codec::Lz4]),
    ) {
        let config = Config { result_bytes_max: memory, ..Config::default() };
        let queue = ingest::Config { segment_bytes_max: 600 * size, ..ingest::Config::default() };
        let (store, pool) = (small_store(size, codec), ScanPool::start(2, |_| ()).unwrap());
        let mut node = TestEngine::with_configs(sim::Fs::new(), config, queue, store, pool);
        let start = node.clock.unix_ms();
        for (number, (what, wait, line, late)) in (1_u32..).zip(steps) {
            match what {
                0 => node.move_to_store(),
                1 => drop(node.store.compact(&|| false)),
                2 => node.advance_clock(wait),
                kind => {
                    let late = if kind == 3 { late } else { 0 };
                    let id = Id::new(Millis(node.clock.unix_ms() - late), Producer::new(u64::from(kind)), number);
                    node.put_as(id, &format!("app=s{}", kind % 2), line.as_bytes());
                    if kind == 4 {
                        node.put_as(id, &format!("app=s{}", kind % 2), line.as_bytes());
                    }
                }
            }
        }
        let expr = Expr::parse(expr.as_bytes()).unwrap();
        let request = Request::new(expr.clone(), Millis(start - 5_000 + from), Millis(start - 5_000 + from + to));
        let plan = Plan::compile(&expr).unwrap();
        let wanted = node.accepted.iter().filter(|(id, (labels, line))| request.contains(**id) && plan.matches(labels, RecordView::line_only(line)));
        let want: Vec<(Id, Vec<u8>)> = wanted.map(|(id, (_, line))| (*id, line.clone())).collect();
        let got = |request: Request| -> Vec<(Id, Vec<u8>)> {
            node.search_all(request).0.iter().map(|record| (record.id, record.text.clone())).collect()
        };
        prop_assert_eq!(got(request.clone()), want.clone());
        prop_assert_eq!(node.count(&request), want.len() as u64);
        let histogram = histogram(&node, &request, 13);
        for bucket in &histogram.buckets {
            let inside = want.iter().filter(|(id, _)| bucket.from <= id.time() && id.time() < bucket.to).count();
            prop_assert_eq!(bucket.count, inside as u64);
        }
        for labels in ["", "app=s1", "app!=s0", "-(app=s0 OR app=s1)", "other=x"] {
            let expr = Expr::parse(labels.as_bytes()).unwrap();
            let plan = Plan::compile(&expr).unwrap();
            let mut want = BTreeMap::<String, u64>::new();
            for (id, (labels, _)) in &node.accepted {
                if request.contains(*id) && plan.matches(labels, RecordView::line_only(b"")) {
                    *want.entry(labels.to_string()).or_default() += 1;
                }
            }
            let (streams, stats) = node.streams(Request { expr, ..request.clone() });
            let counted = streams.streams.iter().map(|stream| (stream.labels.to_string(), stream.records));
            prop_assert_eq!(counted.collect::<BTreeMap<_, _>>(), want, "{}", labels);
            prop_assert!(streams.streams.is_sorted_by(|a, b| a.records >= b.records));
            prop_assert_eq!((streams.is_approximate, streams.is_cut, stats.is_partial()), (false, false, false));
        }
        for grouping in groupings() {
            let grouped = node.histogram(&request, Bucketing { buckets: 13, grouping: grouping.clone() }).0;
            let records = want.iter().map(|(id, line)| (*id, &node.accepted[id].0, RecordView::line_only(line)));
            let groups: Vec<Vec<u64>> = grouped.buckets.iter().map(|bucket| bucket.groups.clone()).collect();
            prop_assert_eq!(groups, naive_groups(&grouping, &grouped.buckets, records), "{:?}", grouping);
        }
        let mut search = node.engine.search(request.clone(), Cancel::default()).unwrap();
        let mut released = Vec::new();
        loop {
            let batch = next_batch(&mut search);
            search.release_memory();
            if batch.is_empty() {
                break;
            }
            released.extend(batch.iter().map(|record| (record.id, record.text.clone())));
        }
        prop_assert_eq!(released, want.clone());
        let runs = |request: &Request| collect_runs(node.engine.search(request.clone(), Cancel::default()).unwrap());
        let as_runs = |records: &[(Id, Vec<u8>)]| {
            let lines: Vec<u8> = records.iter().flat_map(|(_, line)| line.iter().copied().chain([b'\n'])).collect();
            (lines, records.len())
        };
        prop_assert_eq!(runs(&request), as_runs(&want));
        let oldest = Request { limit: Some(limit), ..request.clone() };
        let first: Vec<_> = want.iter().take(limit as usize).cloned().collect();
        prop_assert_eq!(runs(&oldest), as_runs(&first));
        prop_assert_eq!(got(oldest), first);
        let newest = Request { order: Order::Descending, limit: Some(limit), ..request };
        let reversed: Vec<_> = want.into_iter().rev().take(limit as usize).collect();
        prop_assert_eq!(runs(&newest), as_runs(&reversed));
        prop_assert_eq!(got(newest), reversed);
        node.assert_memory_is_released();
    }
}

#[test]
fn every_scan_counts_as_foreground_work() {
    let mut node = TestEngine::new();
    let store = Arc::clone(&node.store);
    node.put("a line");
    node.advance_clock(1_000);
    assert!(!store.foreground().is_busy(), "no query has run");
    let all = || Request::new(Expr::All, Millis(0), Millis::MAX);
    let mut search = node.engine.search(all(), Cancel::default()).unwrap();
    node.advance_clock(1_000);
    assert!(!store.foreground().is_busy(), "no record was read yet");
    assert_eq!(next_batch(&mut search).len(), 1);
    assert!(store.foreground().is_busy(), "another query may follow");
    node.advance_clock(1_000);
    assert!(!store.foreground().is_busy(), "a slow reader delays no background work");
    assert_eq!(node.count_with_stats(&all()).0, 1);
    assert!(store.foreground().is_busy());
}
