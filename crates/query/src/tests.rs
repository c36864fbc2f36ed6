use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_doors::{Clock, Doors, Fs as _, sim};
use bucksaw_ingest::{self as ingest, Durability, Queue, Records, Source};
use bucksaw_record::{Expr, Id, Labels, Millis, Producer};
use bucksaw_scan::Plan;
use bucksaw_segment::Sides;
use bucksaw_segment::shelf::SearchForm;
use bucksaw_store::{self as store, Shelf};
use prometheus_client::registry::Registry;
use proptest::prelude::*;

use super::*;

pub(crate) struct Node {
    pub(crate) fs: sim::Fs,
    pub(crate) clock: Arc<sim::Clock>,
    pub(crate) engine: Arc<Engine>,
    next: u32,
    /// Every record that was accepted, by id.
    pub(crate) all: BTreeMap<Id, (Labels, Vec<u8>)>,
}

/// The histogram of a request: with levels and without, which must agree.
fn histogram(node: &Node, request: &Request, buckets: usize) -> Histogram {
    let ask = |by_level| {
        let division = Division { buckets, by_level };
        node.engine.histogram(request, &Cancel::default(), division, &mut |_, _| {}).unwrap().0
    };
    let (plain, levelled) = (ask(false), ask(true));
    let count = |histogram: &Histogram| histogram.buckets.iter().map(|bucket| bucket.count).collect::<Vec<_>>();
    assert_eq!(count(&plain), count(&levelled));
    plain
}

impl Node {
    fn new() -> Self {
        Self::on(sim::Fs::new())
    }

    fn on(fs: sim::Fs) -> Self {
        Self::with(fs, Config { tail_lag_bytes_max: 2_000, ..Config::default() }, 1)
    }

    /// A node whose queries share so many bytes, with units so many times as large as else.
    fn with_memory(held_bytes_max: u64, size: u64) -> Self {
        Self::with(sim::Fs::new(), Config { held_bytes_max, ..Config::default() }, size)
    }

    fn with(fs: sim::Fs, config: Config, size: u64) -> Self {
        Self::scanning(fs, config, size, Pool::start(2, |_| ()).unwrap())
    }

    pub(crate) fn scanning(fs: sim::Fs, config: Config, size: u64, pool: Pool) -> Self {
        let clock = Arc::new(sim::Clock::at(1_700_000_000_000));
        let entropy = Arc::new(sim::Entropy::seeded(7));
        let doors = Doors { fs: Arc::new(fs.clone()), clock: Arc::clone(&clock) as _, entropy };
        let mut registry = Registry::default();
        let small = ingest::Config { segment_bytes_max: 600 * size, ..ingest::Config::default() };
        let metrics = ingest::Metrics::new(&mut registry);
        let (queue, _) = Queue::open(doors.clone(), Path::new("/queue"), small, metrics).unwrap();
        let small = store::Config { segment_bytes: 900 * size, block_bytes: 200 * size, ..store::Config::default() };
        let metrics = store::Metrics::new(&mut registry);
        let shelf = Shelf::open(doors.clone(), Path::new("/shelf"), small, metrics).unwrap();
        let metrics = Metrics::new(&mut registry);
        let engine = Engine::new(Arc::new(queue), Arc::new(shelf), pool, doors, config, metrics);
        Self { fs, clock, engine: Arc::new(engine), next: 0, all: BTreeMap::new() }
    }

    pub(crate) fn put_as(&mut self, id: Id, labels: &str, line: &[u8]) {
        let labels = Labels::parse(labels).unwrap();
        let first = Id::new(Millis(self.clock.unix_ms()), id.producer(), id.sequence());
        let mut sides = Vec::new();
        let times = (id.at() != first.at()).then(|| vec![(id.at(), 0)]);
        let flags = Sides { times, ..Sides::default() }.encode(first.at(), &mut sides);
        let records = Records {
            source: Source::Tcp,
            labels: &labels,
            first,
            count: 1,
            accepted: first.at(),
            flags,
            sides: &sides,
            text: &[line, b"\n"],
        };
        self.engine.queue().append(Durability::Fast, &records, |_| {}).unwrap();
        self.all.insert(id, (labels, line.to_vec()));
    }

    pub(crate) fn put(&mut self, line: &str) -> Id {
        self.next += 1;
        let id = Id::new(Millis(self.clock.unix_ms()), Producer::new(1), self.next);
        self.put_as(id, "app=web", line.as_bytes());
        id
    }

    pub(crate) fn pass(&self, ms: u64) {
        self.clock.advance(Duration::from_millis(ms));
        self.engine.queue().tick();
    }

    pub(crate) fn gather(&self) {
        self.pass(3_000);
        while self.engine.shelf().gather(self.engine.queue(), true).unwrap() > 0 {}
    }

    fn ask(&self, request: Request) -> (Vec<Record>, Stats) {
        let mut search = self.engine.search(request, Cancel::default()).unwrap();
        let mut records = Vec::new();
        loop {
            let batch = next_batch(&mut search);
            if batch.is_empty() {
                return (records, search.stats().clone());
            }
            records.extend(batch);
        }
    }

    fn lines(&self, request: Request) -> Vec<String> {
        self.ask(request).0.iter().map(|record| String::from_utf8_lossy(&record.text).into_owned()).collect()
    }

    /// Scans of a search that has ended may still be under way.
    fn wait_until_nothing_is_held(&self) {
        let looks = std::iter::repeat_with(|| std::thread::sleep(Duration::from_millis(1)));
        assert!(looks.take(30_000).any(|()| self.engine.budget.held() == 0), "{} bytes", self.engine.budget.held());
    }

    fn count(&self, request: &Request) -> u64 {
        self.engine.count(request, &Cancel::default()).unwrap().0
    }
}

fn all(expr: &str) -> Request {
    Request::new(Expr::parse(expr.as_bytes()).unwrap(), Millis(0), Millis::MAX)
}

#[test]
fn what_is_past_its_retention_is_in_no_answer_and_the_trash_is_told_of() {
    let mut node = Node::new();
    let (queue, shelf) = (Arc::clone(node.engine.queue()), Arc::clone(node.engine.shelf()));
    shelf.retain(&queue);
    node.put("stored");
    node.gather();
    let late = Id::new(Millis(5), Producer::new(9), 1);
    let request = || Request::new(Expr::All, Millis(0), Millis::MAX);
    let ask = |node: &Node| node.engine.count(&request(), &Cancel::default()).unwrap();
    // Six days and some hours later.
    node.pass(6 * 24 * 3_600_000 + 9_000_000);
    node.put_as(late, "app=web", b"of 1970, loaded today");
    node.gather();
    assert_eq!(ask(&node).0, 2);
    node.pass(24 * 3_600_000);
    let (count, stats) = ask(&node);
    assert_eq!((count, stats.trashed, stats.is_partial()), (1, Trashed::default(), false), "before it is removed");
    shelf.retain(&queue);
    let (count, stats) = ask(&node);
    assert_eq!((count, stats.trashed, stats.is_partial()), (1, Trashed { segments: 1, records: 1 }, false));
    let recent = Request::new(Expr::All, Millis(1_700_000_100_000), Millis::MAX);
    let stats = node.engine.count(&recent, &Cancel::default()).unwrap().1;
    assert_eq!(stats.trashed, Trashed::default(), "it is of another time");
    // A wrong clock hides nothing, and nothing is removed.
    node.clock.jump(30 * 24 * 3_600_000);
    assert_eq!(ask(&node).0, 1);
}

#[test]
fn of_a_segment_that_is_kept_the_blocks_past_their_retention_are_in_no_answer() {
    let mut node = Node::with(sim::Fs::new(), Config::default(), 4);
    node.engine.shelf().retain(node.engine.queue());
    let old = "o".repeat(300);
    for line in [&old, &"n".repeat(300)] {
        (0..4).for_each(|_| _ = node.put(line));
        node.pass(2_000_000);
    }
    node.gather();
    let segments = node.engine.shelf().segments();
    let blocks = segments[0].footer().blocks.clone();
    assert!(segments.len() == 1 && blocks.len() > 2, "{} segments, {} blocks", segments.len(), blocks.len());
    assert_eq!(node.count(&all("")), 8);
    // A week after the first of them, and less after the last.
    node.pass(7 * 24 * 3_600_000 - 3_000_000);
    node.engine.shelf().retain(node.engine.queue());
    assert_eq!(node.engine.shelf().segments().len(), 1, "what is new in it keeps the segment");
    // A block may have records of both.
    let since = node.engine.shelf().answers_since().unwrap();
    let kept = blocks.iter().filter(|block| block.reach.newest() >= since).map(|block| block.reach.records);
    let kept: u64 = kept.sum();
    assert!((4..8).contains(&kept), "{kept}");
    assert_eq!((node.count(&all("n")), node.count(&all("")), node.lines(all("")).len() as u64), (4, kept, kept));
}

#[test]
fn a_record_is_found_once_wherever_it_is() {
    let mut node = Node::new();
    for at in 0..60 {
        node.put(&format!("line {at:02} {}", if at % 4 == 0 { "odd one" } else { "plain" }));
        node.pass(100);
        if at % 9 == 0 {
            node.gather();
        }
        if at % 20 == 0 {
            node.engine.shelf().compact(&|| false).unwrap();
        }
        assert_eq!(node.count(&all("")), at + 1);
    }
    let want: Vec<String> = (0..60).step_by(4).map(|at| format!("line {at:02} odd one")).collect();
    assert_eq!(node.lines(all("odd")), want);
    let reversed: Vec<String> = want.iter().rev().cloned().collect();
    assert_eq!(node.lines(Request { order: Order::Descending, ..all("odd") }), reversed);
    assert_eq!(node.lines(Request { limit: Some(3), ..all("odd") }), want[..3]);
    assert_eq!(node.lines(Request { limit: Some(3), order: Order::Descending, ..all("odd") }), reversed[..3]);
    assert_eq!(node.count(&all("-odd")), 45);
}

#[test]
fn a_move_to_the_shelf_that_was_not_told_to_the_queue_doubles_nothing() {
    let mut node = Node::new();
    for at in 0..20 {
        node.put(&format!("line {at}"));
    }
    node.pass(3_000);
    let copies: Vec<_> = node.engine.queue().segments().iter().map(|view| view.path().to_owned()).collect();
    let copies: Vec<_> = copies.into_iter().map(|path| (node.fs.live_bytes(&path).unwrap(), path)).collect();
    node.gather();
    node.pass(11_000);
    for (bytes, path) in copies {
        node.fs.create(&path).unwrap().append(&[&bytes]).unwrap();
    }
    // The queue is not told what the shelf has, as it is between the store's commit and the queue's.
    let node = Node::on(node.fs.clone());
    assert!(!node.engine.queue().segments().is_empty());
    let (records, stats) = node.ask(all(""));
    assert_eq!((node.count(&all("")), records.len()), (20, 20));
    assert_eq!(stats.segments_read, node.engine.shelf().segments().len() as u64);
}

#[test]
fn what_another_store_has_just_taken_is_still_found() {
    let mut node = Node::new();
    for at in 0..20 {
        node.put(&format!("line {at}"));
    }
    node.pass(3_000);
    // The other one was looked at before it had them.
    let taken: Vec<Id> = node.engine.queue().segments().iter().map(|view| view.id).collect();
    node.engine.queue().commit(&taken);
    assert!(node.engine.queue().segments().is_empty());
    assert_eq!((node.lines(all("line")).len(), node.count(&all("line"))), (20, 20));
    // When nobody can have been looked at so long ago they go.
    node.pass(60_000);
    node.pass(100);
    assert_eq!((node.lines(all("line")).len(), node.count(&all("line"))), (0, 0));
}

#[test]
fn blocks_of_plain_text_stay_open_too() {
    let mut node = Node::new();
    node.put("too little to be packed as columns");
    node.gather();
    let segment = node.engine.shelf().segments().first().cloned().unwrap();
    assert!(matches!(segment.search_form(0), Ok(SearchForm::Text(_))));
    assert_eq!((node.count(&all("little")), node.engine.opened.found()), (1, 0));
    assert_eq!((node.count(&all("much")), node.lines(all("columns")).len(), node.engine.opened.found()), (0, 1, 2));
}

#[test]
fn records_sent_twice_are_one() {
    let mut node = Node::new();
    let ids: Vec<Id> = (0..10).map(|at| node.put(&format!("line {at}"))).collect();
    node.gather();
    for (at, id) in ids.iter().enumerate() {
        node.put_as(*id, "app=web", format!("line {at}").as_bytes());
        node.put_as(*id, "app=web", format!("line {at}").as_bytes());
    }
    assert_eq!((node.count(&all("line")), node.lines(all("line")).len()), (10, 10));
    node.gather();
    assert_eq!((node.count(&all("line")), node.lines(all("line")).len()), (10, 10));
    let histogram = histogram(&node, &all("line"), 7);
    assert_eq!(histogram.buckets.iter().map(|bucket| bucket.count).sum::<u64>(), 10);
}

#[test]
fn spans_are_half_open_and_buckets_cover_them() {
    let mut node = Node::new();
    let start = node.clock.unix_ms();
    for _ in 0..10 {
        node.put("x");
        node.pass(1_000);
    }
    node.gather();
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
fn what_cannot_match_is_not_read() {
    let mut node = Node::new();
    let first = node.clock.unix_ms();
    (0..10).for_each(|at| {
        node.put(&format!("early {at}"));
    });
    node.gather();
    node.pass(60_000);
    let id = Id::new(Millis(node.clock.unix_ms()), Producer::new(2), 1);
    node.put_as(id, "app=db", b"late");
    node.gather();
    let (_, stats) = node.ask(Request::new(Expr::All, Millis(first + 30_000), Millis::MAX));
    assert_eq!((stats.segments_read, stats.segments_skipped, stats.matched), (1, 1, 1));
    let (records, stats) = node.ask(all("app=db"));
    assert_eq!((records.len(), stats.segments_read, stats.bytes_scanned), (1, 1, 5));
    assert!(stats.bytes_skipped > 0);
}

#[test]
fn damage_is_told_of() {
    let mut node = Node::new();
    (0..10).for_each(|at| {
        node.put(&format!("line {at} {}", "x".repeat(60)));
    });
    node.gather();
    let segment = Arc::clone(&node.engine.shelf().segments()[0]);
    let block = &segment.footer().blocks[1];
    // The block and what it could be rebuilt from.
    node.fs.spoil(segment.reader().path(), block.at..block.at + block.packed_bytes() + 1);
    let (records, stats) = node.ask(all(""));
    assert!(!records.is_empty() && records.len() < 10);
    assert!(stats.is_partial() && stats.damaged.iter().all(|name| name.contains("at byte")));
    let (count, stats) = node.engine.count(&all(""), &Cancel::default()).unwrap();
    assert!(count == records.len() as u64 && stats.is_partial());
    let elsewhere = Request::new(Expr::All, Millis(0), Millis(5));
    assert!(!node.ask(elsewhere.clone()).1.is_partial());
    // Of what time the records of a damaged queue segment are nobody knows.
    node.put("a line more");
    let id = node.engine.queue().segments().last().unwrap().id;
    while node.engine.queue().damaged().is_empty() {
        node.engine.queue().unreadable(id);
    }
    assert!(node.ask(elsewhere).1.damaged.contains(&format!("{id}.damaged")));
}

#[test]
fn a_cancelled_search_ends_and_says_so() {
    let mut node = Node::new();
    (0..50).for_each(|at| {
        node.put(&format!("line {at}"));
    });
    let cancel = Cancel::default();
    let mut search = node.engine.search(all(""), cancel.clone()).unwrap();
    cancel.cancel();
    assert!(next_batch(&mut search).is_empty() && search.is_cancelled());
    assert!(matches!(node.engine.count(&all(""), &cancel), Err(RequestError::Cancelled)));
}

#[test]
fn an_answer_ends_at_the_time_limit_and_says_so() {
    let limited = |time_max| Node::with(sim::Fs::new(), Config { time_max: Some(time_max), ..Config::default() }, 1);
    let mut node = limited(Duration::ZERO);
    let ids: Vec<Id> = (0..50).map(|at| node.put(&format!("line {at}"))).collect();
    let reasons = |stats: &Stats| {
        assert_eq!((stats.timed_out, stats.is_partial(), stats.damaged.len()), (Some(Duration::ZERO), true, 0));
        assert!(stats.partial_reasons()[0].contains("its time limit of 0 s"), "{:?}", stats.partial_reasons());
    };
    let (records, stats) = node.ask(all(""));
    assert!(records.is_empty());
    reasons(&stats);
    let (count, stats) = node.engine.count(&all("-x"), &Cancel::default()).unwrap();
    assert_eq!(count, 0);
    reasons(&stats);
    reasons(&node.engine.fields(all(""), Cancel::default()).unwrap().1);
    let error = node.engine.context(ids[7], 1, 1, &Cancel::default()).unwrap_err();
    assert!(error.to_string().contains("time limit"), "{error}");

    // While its reader has other things to do, a query takes no time; nor does one that was answered.
    let mut node = limited(Duration::from_secs(1));
    (0..5_000).for_each(|at| {
        node.put(&format!("line {at}"));
    });
    let (mut search, mut found) = (node.engine.search(all(""), Cancel::default()).unwrap(), 0);
    loop {
        node.clock.advance(Duration::from_secs(100));
        match next_batch(&mut search).len() {
            0 => break,
            records => found += records,
        }
    }
    assert_eq!((found, search.stats().is_partial()), (5_000, false));
    assert!(!around(&node.engine, *node.all.keys().next().unwrap(), 1, 1).unwrap().1.is_partial());
}

/// Each look at it takes a second.
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
}

#[test]
fn wherever_the_time_limit_strikes_an_answer_that_lacks_something_says_so() {
    for is_stored in [false, true] {
        let mut node = Node::with(sim::Fs::new(), Config::default(), 100);
        (0..40).for_each(|at| {
            node.put(&format!("line {at}"));
        });
        if is_stored {
            node.gather();
        }
        let (mut partial, mut whole) = (0, 0);
        for seconds in 1..120 {
            let (queue, shelf) = (Arc::clone(node.engine.queue()), Arc::clone(node.engine.shelf()));
            let doors = Doors { clock: Arc::new(Ticking(Arc::clone(&node.clock))), ..node.engine.doors.clone() };
            let config = Config { time_max: Some(Duration::from_secs(seconds)), ..Config::default() };
            let (pool, metrics) = (Pool::start(1, |_| ()).unwrap(), Metrics::new(&mut Registry::default()));
            node.engine = Arc::new(Engine::new(queue, shelf, pool, doors, config, metrics));
            let mut tell = |found: usize, stats: &Stats, what: &str| {
                assert!(found == 40 || stats.timed_out.is_some(), "{what} after {seconds} s: {found} {stats:?}");
                if stats.is_partial() { partial += 1 } else { whole += 1 }
            };
            let (records, stats) = node.ask(all("/l(i)ne/"));
            tell(records.len(), &stats, "records");
            let (count, stats) = node.engine.count(&all("/l(i)ne/"), &Cancel::default()).unwrap();
            tell(count as usize, &stats, "count");
        }
        assert!(partial > 3 && whole > 3, "{partial} {whole}");
    }
}

#[test]
fn context_stays_in_the_stream() {
    let mut node = Node::new();
    let mut middle = Id::MIN;
    for at in 0..20_u32 {
        let id = node.put(&format!("web {at}"));
        if at == 10 {
            middle = id;
        }
        let other = Id::new(Millis(node.clock.unix_ms()), Producer::new(9), at);
        node.put_as(other, "app=db", b"db");
        node.pass(10);
        if at == 12 {
            node.gather();
        }
    }
    let (records, _) = around(&node.engine, middle, 2, 3).unwrap();
    let lines: Vec<_> = records.iter().map(|record| String::from_utf8_lossy(&record.text).into_owned()).collect();
    assert_eq!(lines, ["web 8", "web 9", "web 10", "web 11", "web 12", "web 13"]);
    let nothing = Id::from_bits(5);
    assert!(matches!(node.engine.context(nothing, 1, 1, &Cancel::default()), Err(RequestError::NoRecord(_))));
}

#[test]
fn fields_have_their_commonest_values() {
    let mut node = Node::new();
    for at in 0..30 {
        node.put(&format!("level={} id={at} msg=\"a b\"", if at % 3 == 0 { "error" } else { "info" }));
    }
    let (fields, _) = node.engine.fields(all(""), Cancel::default()).unwrap();
    let field = |name: &str| fields.fields.iter().find(|field| field.name == name).unwrap();
    assert_eq!((fields.records, fields.sampled), (30, false));
    assert_eq!(field("level").values, [(b"info".to_vec(), 20), (b"error".to_vec(), 10)]);
    assert_eq!((field("id").distinct, field("id").values.len()), (Some(30), 20));
    assert_eq!((field("app").label, field("msg").label), (true, false));
}

#[test]
fn followers_see_what_is_accepted_once() {
    let mut node = Node::new();
    node.put("before");
    let mut tail = node.engine.tail(&Expr::parse(b"-quiet").unwrap()).unwrap();
    assert!(tail.poll().is_empty());
    let mut seen = Vec::new();
    for at in 0..40 {
        node.put(&format!("line {at}"));
        node.put("quiet");
        if at % 3 == 0 {
            seen.extend(followed(&mut tail));
        }
        if at % 10 == 0 {
            node.gather();
            node.pass(11_000);
        }
    }
    seen.extend(followed(&mut tail));
    assert_eq!(seen, (0..40).map(|at| format!("line {at}")).collect::<Vec<_>>());
    (0..60).for_each(|_| {
        node.put(&"x".repeat(50));
    });
    assert!(tail.poll().skipped_bytes > 2_000);
    node.put("after");
    assert_eq!(followed(&mut tail).len(), 1);
}

#[test]
fn a_poll_of_many_segments_reads_no_more_than_its_budget() {
    // No memory is left: 65,536 bytes a poll.
    let mut node = Node::with_memory(0, 100);
    let mut tail = node.engine.tail(&Expr::parse(b"line").unwrap()).unwrap();
    for at in 0..8 {
        // Each in a segment of its own.
        node.put(&format!("line {at} {}", "x".repeat(40_000)));
    }
    assert_eq!(node.engine.queue().readable().len(), 8);
    let polls: Vec<(usize, bool)> = (0..4).map(|_| (followed(&mut tail).len(), tail.has_more())).collect();
    assert_eq!(polls, [(2, true), (2, true), (2, true), (2, false)]);
}

#[test]
fn readers_that_stall_hold_little_and_stop_nobody() {
    const RECORDS: usize = 4_000;
    let budget = 256 << 10;
    let mut node = Node::with_memory(budget, 4_000);
    for at in 0..RECORDS {
        node.put(&format!("{at:04} {}", "x".repeat(if at % 1_000 == 250 { 50_000 } else { 400 })));
        node.clock.advance(Duration::from_millis(1));
        if at == RECORDS / 2 {
            node.gather();
        }
    }
    let held = || node.engine.budget.held();
    let begin = |order| {
        let mut search = node.engine.search(Request { order, ..all("x") }, Cancel::default()).unwrap();
        let batch = next_batch(&mut search);
        assert!(!batch.is_empty());
        (search, batch)
    };
    let stalled: Vec<_> = (0..12).flat_map(|_| [begin(Order::Ascending), begin(Order::Descending)]).collect();
    // A batch, and the slabs that it ends in.
    assert!(held() <= budget + 24 * (512 << 10), "{} bytes are held", held());
    let lines = node.lines(all("x"));
    assert!(lines.len() == RECORDS && lines.is_sorted());
    assert_eq!(node.count(&all("x")), RECORDS as u64);
    for (number, (mut search, mut records)) in stalled.into_iter().enumerate() {
        if number % 3 == 0 {
            search.let_go();
        }
        loop {
            let batch = next_batch(&mut search);
            if batch.is_empty() {
                break;
            }
            records.extend(batch);
        }
        assert_eq!(records.len(), RECORDS, "who reads on gets all");
        let rises = number % 2 == 0;
        assert!(records.is_sorted_by(|a, b| if rises { a.id < b.id } else { a.id > b.id }));
    }
    assert_eq!(held(), 0);
}

#[test]
fn an_answer_gives_its_memory_back_while_it_is_read() {
    let mut node = Node::with_memory(128 << 20, 10_000);
    (0..8_000).for_each(|_| {
        node.put(&"x".repeat(400));
    });
    let mut search = node.engine.search(all(""), Cancel::default()).unwrap();
    let helds: Vec<u64> = std::iter::repeat_with(|| (next_batch(&mut search).len(), node.engine.budget.held()))
        .take_while(|(count, _)| *count > 0)
        .map(|(_, held)| held)
        .collect();
    assert!(helds.len() > 8 && helds.is_sorted_by(|a, b| a >= b), "{helds:?}");
    assert!(helds[0] > 3_000_000 && helds[helds.len() - 2] < 1_000_000, "{helds:?}");
    assert_eq!(node.engine.budget.held(), 0);
    let mut search = node.engine.search(all(""), Cancel::default()).unwrap();
    let first = next_batch(&mut search).len();
    assert!(node.engine.budget.held() > 0);
    search.let_go();
    assert_eq!(node.engine.budget.held(), 0);
    let batches = std::iter::repeat_with(|| next_batch(&mut search).len()).take_while(|count| *count > 0);
    assert_eq!(first + batches.sum::<usize>(), 8_000);
}

#[test]
fn some_is_searched_ahead_of_a_slow_reader() {
    // One thread, which searches in order: so all that is left to chance is whether a third unit is begun with two others.
    let mut node = Node::scanning(sim::Fs::new(), Config::default(), 1, Pool::start(1, |_| ()).unwrap());
    (0..400).for_each(|at| {
        node.put(&format!("line {at:03} of some length"));
    });
    node.pass(3_000);
    let (_, whole) = node.ask(all("line"));
    assert!(whole.segments_read > 10, "{whole:?}");
    // A thread that has not come back from the first query is busy, and an extra one would search beside it.
    work_off(&node.engine.pool);
    let mut search = node.engine.search(all("line"), Cancel::default()).unwrap();
    let (mut shown, mut ahead) = (0, 0);
    while search.stats().bytes_scanned < whole.bytes_scanned {
        shown += search.show_batch(&mut |_| ControlFlow::Break(()));
        let found = 400 * search.stats().bytes_scanned / whole.bytes_scanned;
        ahead = ahead.max(found - shown as u64);
        work_off(&node.engine.pool);
    }
    // Units have six records each.
    assert!((11..18).contains(&ahead), "{ahead} of 400 were found and not shown");
}

#[test]
fn context_of_long_records_is_cut() {
    let mut node = Node::new();
    let ids: Vec<Id> = (0..12).map(|at| node.put(&format!("{at} {}", "x".repeat(1 << 20)))).collect();
    let (records, stats) = around(&node.engine, ids[6], 10, 10).unwrap();
    let found: Vec<Id> = records.iter().map(|record| record.id).collect();
    assert_eq!(found, ids[2..=10], "four megabytes before it, and four behind");
    assert_eq!(stats.matched, 9);
}

#[test]
fn context_holds_no_more_than_queries_may() {
    let mut node = Node::with_memory(4 << 20, 16);
    let ids: Vec<Id> = (0..12).map(|at| node.put(&format!("{at} {}", "x".repeat(1 << 20)))).collect();
    let mut context = node.engine.context(ids[6], 10, 10, &Cancel::default()).unwrap();
    let (mut found, mut most) = (Vec::new(), 0);
    let mut see = |record: RecordRef<'_>| {
        found.push(record.id);
        ControlFlow::Break(())
    };
    while context.show_batch(&mut see).unwrap() > 0 {
        most = most.max(node.engine.budget.held());
        // A reader who stalls is searched for again.
        if context.stats().matched % 3 == 0 {
            context.let_go();
            assert_eq!(node.engine.budget.held(), 0);
        }
    }
    assert_eq!(found, ids[2..=10]);
    assert!(most <= 4 << 20, "{most}");
}

#[test]
fn what_comes_between_is_not_in_the_context() {
    let mut node = Node::new();
    let ids: Vec<Id> = (0..9)
        .map(|at| {
            node.pass(10);
            node.put(&format!("line {at}"))
        })
        .collect();
    let mut context = node.engine.context(ids[5], 3, 2, &Cancel::default()).unwrap();
    for id in [ids[1], ids[3], ids[5]] {
        let between = Id::new(Millis(id.at().0 + 5), Producer::new(77), 0);
        node.put_as(between, &node.all[&id].0.to_string(), b"late");
    }
    let mut found = Vec::new();
    let mut keep = |record: RecordRef<'_>| {
        found.push(String::from_utf8_lossy(record.text).into_owned());
        ControlFlow::Continue(())
    };
    while context.show_batch(&mut keep).unwrap() > 0 {}
    // Behind the record the new one is the next.
    assert_eq!(found, ["line 2", "line 3", "line 4", "line 5", "late", "line 6"]);
    assert_eq!(context.stats().matched, 6);

    let cancel = Cancel::default();
    let mut context = node.engine.context(ids[5], 3, 2, &cancel).unwrap();
    cancel.cancel();
    assert!(matches!(context.show_batch(&mut |_| ControlFlow::Continue(())), Err(RequestError::Cancelled)));
}

#[test]
fn fields_of_many_names_and_values_stay_within_the_memory() {
    let mut node = Node::with_memory(1 << 20, 64);
    for at in 0..400 {
        let many: String = (0..50).map(|of| format!("{at:0>200}x{of}={} ", "v".repeat(200))).collect();
        node.put(&format!("level=info {}=1 {many}", "n".repeat(300)));
    }
    let mut gathered = crate::fields::Gathered::new(&node.engine);
    let held = node.engine.budget.held();
    assert_eq!(held, (1 << 20) / 8);
    let (fields, _) = node.engine.fields(all(""), Cancel::default()).unwrap();
    let bytes =
        |field: &FieldValues| field.name.len() + field.values.iter().map(|(value, _)| value.len()).sum::<usize>();
    let taken: usize = fields.fields.iter().map(bytes).sum();
    assert!((50_000..=held as usize).contains(&taken), "{taken}");
    let level = fields.fields.iter().find(|field| field.name == "level").unwrap();
    assert_eq!((level.records, level.distinct), (400, Some(1)));
    let first = fields.fields.iter().map(|field| field.name.len()).max();
    assert!(first <= Some(256), "{first:?}");
    node.all.iter().for_each(|(id, (labels, text))| {
        gathered.add(RecordRef { id: *id, nanos: 0, marks: 0, labels, text, stored: false });
    });
    drop(gathered);
    assert_eq!(node.engine.budget.held(), 0);
}

/// The records around one.
pub(crate) fn around(
    engine: &Arc<Engine>,
    id: Id,
    before: u64,
    after: u64,
) -> Result<(Vec<Record>, Stats), RequestError> {
    let mut context = engine.context(id, before, after, &Cancel::default())?;
    let mut records = Vec::new();
    let mut keep = |record: RecordRef<'_>| {
        records.push(record.to_record());
        ControlFlow::Continue(())
    };
    while context.show_batch(&mut keep)? > 0 {}
    Ok((records, context.stats().clone()))
}

/// Waits until the pool has done all jobs.
fn work_off(pool: &Pool) {
    while !pool.is_quiet() {
        std::thread::yield_now();
    }
}

/// The next records of an answer.
fn next_batch(search: &mut Search) -> Vec<Record> {
    let mut records = Vec::new();
    search.show_batch(&mut |record| {
        records.push(record.to_record());
        ControlFlow::Continue(())
    });
    records
}

/// All of an answer, shown in runs, and how many records that were.
fn in_runs(mut search: Search) -> (Vec<u8>, usize) {
    let (mut lines, mut records) = (Vec::new(), 0);
    loop {
        let shown = search.show_runs(&mut |run| {
            records += run.records;
            lines.extend_from_slice(run.lines);
        });
        if shown == 0 {
            return (lines, records);
        }
    }
}

/// The lines that a follower sees next.
fn followed(tail: &mut Tail) -> Vec<String> {
    let mut tailed = tail.poll();
    std::iter::from_fn(|| tailed.show(|record| String::from_utf8_lossy(record.text).into_owned())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Whatever happened between, an answer is what a plain filter over all that was accepted gives.
    #[test]
    fn answers_equal_the_plain_filter(
        steps in prop::collection::vec((0_u8..12, 0_u64..3_000, "[ab =x]{0,12}", 0_u64..9_000), 1..60),
        expr in prop::sample::select(vec!["", "a", "a b", "a OR x", "-a", "/a.?b/", "a=x", "app=s1", "app!=s0 a"]),
        (from, to, limit) in (0_u64..60_000, 0_u64..60_000, 1_u64..40),
        (memory, size) in prop::sample::select(vec![(0, 1), (20_000, 1), (128 << 20, 1), (0, 100), (20_000, 100)]),
    ) {
        let mut node = Node::with_memory(memory, size);
        let start = node.clock.unix_ms();
        for (number, (what, wait, line, late)) in (1_u32..).zip(steps) {
            match what {
                0 => node.gather(),
                1 => drop(node.engine.shelf().compact(&|| false)),
                2 => node.pass(wait),
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
        let wanted = node.all.iter().filter(|(id, (labels, line))| request.wants(**id) && plan.matches(labels, line));
        let want: Vec<(Id, Vec<u8>)> = wanted.map(|(id, (_, line))| (*id, line.clone())).collect();
        let got = |request: Request| -> Vec<(Id, Vec<u8>)> {
            node.ask(request).0.iter().map(|record| (record.id, record.text.clone())).collect()
        };
        prop_assert_eq!(got(request.clone()), want.clone());
        prop_assert_eq!(node.count(&request), want.len() as u64);
        let histogram = histogram(&node, &request, 13);
        for bucket in &histogram.buckets {
            let inside = want.iter().filter(|(id, _)| bucket.from <= id.at() && id.at() < bucket.to).count();
            prop_assert_eq!(bucket.count, inside as u64);
        }
        let mut search = node.engine.search(request.clone(), Cancel::default()).unwrap();
        let mut stalling = Vec::new();
        loop {
            let batch = next_batch(&mut search);
            search.let_go();
            if batch.is_empty() {
                break;
            }
            stalling.extend(batch.iter().map(|record| (record.id, record.text.clone())));
        }
        prop_assert_eq!(stalling, want.clone());
        let runs = |request: &Request| in_runs(node.engine.search(request.clone(), Cancel::default()).unwrap());
        let in_a_row = |records: &[(Id, Vec<u8>)]| {
            let lines: Vec<u8> = records.iter().flat_map(|(_, line)| line.iter().copied().chain([b'\n'])).collect();
            (lines, records.len())
        };
        prop_assert_eq!(runs(&request), in_a_row(&want));
        let oldest = Request { limit: Some(limit), ..request.clone() };
        let first: Vec<_> = want.iter().take(limit as usize).cloned().collect();
        prop_assert_eq!(runs(&oldest), in_a_row(&first));
        prop_assert_eq!(got(oldest), first);
        let newest = Request { order: Order::Descending, limit: Some(limit), ..request };
        let reversed: Vec<_> = want.into_iter().rev().take(limit as usize).collect();
        prop_assert_eq!(runs(&newest), in_a_row(&reversed));
        prop_assert_eq!(got(newest), reversed);
        node.wait_until_nothing_is_held();
    }
}

#[test]
fn the_shelf_hears_of_every_scan() {
    let mut node = Node::new();
    let shelf = Arc::clone(node.engine.shelf());
    node.put("a line");
    node.pass(1_000);
    assert!(!shelf.foreground().is_busy(), "nothing was asked");
    let everything = || Request::new(Expr::All, Millis(0), Millis::MAX);
    let mut search = node.engine.search(everything(), Cancel::default()).unwrap();
    node.pass(1_000);
    assert!(!shelf.foreground().is_busy(), "nothing was wanted yet");
    assert_eq!(next_batch(&mut search).len(), 1);
    assert!(shelf.foreground().is_busy(), "another question may follow");
    node.pass(1_000);
    assert!(!shelf.foreground().is_busy(), "a reader who is slow holds up nobody");
    assert_eq!(node.engine.count(&everything(), &Cancel::default()).unwrap().0, 1);
    assert!(shelf.foreground().is_busy());
}
