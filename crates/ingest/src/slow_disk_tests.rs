//! While one file operation does not return, only threads that write to the same file wait.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use bucksaw_env::{DirEntry, Env, File, FileLock, FileStat, Fs, Space, lock, sim};
use bucksaw_record::{Id, Labels, Millis, Producer};
use prometheus_client::registry::Registry;

use crate::{
    Config, Durability, FrameRecords, HaltReason, IdempotentBatch, IngestError, Metrics, Queue, SegmentState, Source,
};

const TIMEOUT: Duration = Duration::from_secs(20);

/// A simulated disk on which one operation waits until the test releases it.
#[derive(Clone, Debug)]
struct SlowFs {
    fs: sim::Fs,
    gate: Gate,
}

#[derive(Clone, Debug, Default)]
struct Gate(Arc<(Mutex<GateState>, Condvar)>);

#[derive(Debug, Default)]
struct GateState {
    held: Option<Operation>,
    /// The number of operations that wait.
    waiting: usize,
}

#[derive(Clone, Debug, PartialEq)]
enum Operation {
    /// Gives a name with this extension to a file.
    Name(&'static str),
    /// Appends to the file that was created with this name.
    Append(PathBuf),
}

#[derive(Debug)]
struct SlowFile {
    file: Arc<dyn File>,
    path: PathBuf,
    gate: Gate,
}

impl Gate {
    fn hold(&self, operation: Operation) {
        lock(&self.0.0).held = Some(operation);
    }

    fn release(&self) {
        lock(&self.0.0).held = None;
        self.0.1.notify_all();
    }

    fn wait_until_held(&self) {
        let waited = self.0.1.wait_timeout_while(lock(&self.0.0), TIMEOUT, |state| state.waiting == 0).unwrap();
        assert!(!waited.1.timed_out(), "no operation reached the disk");
    }

    fn pass(&self, is_operation: impl Fn(&Operation) -> bool) {
        let mut state = lock(&self.0.0);
        state.waiting += 1;
        self.0.1.notify_all();
        let is_held = |state: &mut GateState| state.held.as_ref().is_some_and(&is_operation);
        let (mut state, timeout) = self.0.1.wait_timeout_while(state, 2 * TIMEOUT, is_held).unwrap();
        state.waiting -= 1;
        drop(state);
        assert!(!timeout.timed_out(), "the test did not release the disk");
    }

    fn pass_name(&self, path: &Path) {
        let has_extension = |held: &str| path.extension().is_some_and(|extension| extension == held);
        self.pass(|operation| matches!(operation, Operation::Name(held) if has_extension(held)));
    }
}

impl SlowFs {
    fn new() -> Self {
        Self { fs: sim::Fs::new(), gate: Gate::default() }
    }

    fn names(&self) -> Vec<String> {
        let mut names = self.fs.list(Path::new("/q")).unwrap();
        names.retain(|name| name.contains('.'));
        names
    }
}

impl Fs for SlowFs {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.gate.pass_name(path);
        let (file, path, gate) = (self.fs.create(path)?, path.to_owned(), self.gate.clone());
        Ok(Arc::new(SlowFile { file, path, gate }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.fs.open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.gate.pass_name(to);
        self.fs.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.fs.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.fs.list(dir)
    }

    fn entries(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.fs.entries(dir)
    }

    fn stat(&self, path: &Path) -> io::Result<FileStat> {
        self.fs.stat(path)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.fs.create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.fs.sync_dir(dir)
    }

    fn space(&self, dir: &Path) -> io::Result<Space> {
        self.fs.space(dir)
    }

    fn boot_id(&self) -> Option<u128> {
        self.fs.boot_id()
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        self.fs.lock(path)
    }
}

impl File for SlowFile {
    fn append(&self, parts: &[&[u8]]) -> io::Result<()> {
        self.gate.pass(|operation| matches!(operation, Operation::Append(held) if *held == self.path));
        self.file.append(parts)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buffer)
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn stat(&self) -> io::Result<FileStat> {
        self.file.stat()
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.file.truncate(size)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

fn open(fs: &SlowFs) -> (Arc<Queue>, Arc<sim::Clock>) {
    let clock = Arc::new(sim::Clock::at_unix_ms(1_000_000));
    let env =
        Env { fs: Arc::new(fs.clone()), clock: Arc::clone(&clock) as _, entropy: Arc::new(sim::Entropy::seeded(1)) };
    let config = Config { fast_slots: 1, ..Config::default() };
    let queue = Queue::open(env, Path::new("/q"), config, Metrics::new(&mut Registry::default())).unwrap().0;
    (Arc::new(queue), clock)
}

fn append(queue: &Queue, durability: Durability, sequence: u32) {
    let records = FrameRecords {
        source: Source::Tcp,
        labels: &Labels::parse("app=test").unwrap(),
        first_id: Id::new(Millis(1_000_000), Producer::new(1), sequence),
        count: 1,
        accepted: Millis(1_000_000),
        layout_bits: 0,
        row_meta: &[],
        text: &[b"line\n"],
    };
    queue.append(durability, &records, |_| {}).unwrap();
}

/// Runs something on a thread of its own and fails if it waits for the held operation.
fn must_not_wait<T: Send + 'static>(what: &str, run: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, result) = std::sync::mpsc::channel();
    thread::spawn(move || sender.send(run()));
    result.recv_timeout(TIMEOUT).unwrap_or_else(|_| panic!("{what} waits for the disk"))
}

/// Starts `slow` on a thread, runs `meanwhile` while its operation waits, and then lets both end.
fn while_held(fs: &SlowFs, operation: Operation, slow: impl FnOnce() + Send + 'static, meanwhile: impl FnOnce()) {
    fs.gate.hold(operation);
    let slow = thread::spawn(slow);
    fs.gate.wait_until_held();
    meanwhile();
    fs.gate.release();
    slow.join().unwrap();
}

const DURABILITIES: [Durability; 3] = [Durability::Fast, Durability::Durable, Durability::Bulk];

/// Everything but an append to the same segment.
fn assert_nothing_waits(queue: &Arc<Queue>, slow: Durability) {
    let run = |what: &str, call: fn(&Queue)| {
        let queue = Arc::clone(queue);
        must_not_wait(what, move || call(&queue));
    };
    for (other, sequence) in DURABILITIES.into_iter().zip(100..).filter(|(other, _)| *other != slow) {
        let queue = Arc::clone(queue);
        must_not_wait("an append of another durability", move || append(&queue, other, sequence));
    }
    run("the tick", Queue::tick);
    run("a flush", Queue::flush_bulk);
    run("the group commit", |queue| while queue.commit_group() {});
    run("a reservation", |queue| drop(queue.reserve(u64::MAX)));
    run("a query", |queue| drop(queue.uncommitted_segments()));
    run("the check for unsynced records", |queue| {
        let waker = std::task::Waker::noop();
        let _ = std::pin::pin!(queue.wait_unsynced()).poll(&mut std::task::Context::from_waker(waker));
    });
}

#[test]
fn nothing_waits_while_a_file_is_created_but_appends_to_the_same_slot() {
    for durability in DURABILITIES {
        let fs = SlowFs::new();
        let (queue, _) = open(&fs);
        DURABILITIES.into_iter().filter(|other| *other != durability).for_each(|other| append(&queue, other, 1));
        let slow = Arc::clone(&queue);
        let create = Operation::Name("active");
        while_held(&fs, create, move || append(&slow, durability, 2), || assert_nothing_waits(&queue, durability));
        assert_eq!(queue.readable_segments().len(), 3);
    }
}

#[test]
fn nothing_waits_while_a_frame_is_written_but_appends_to_the_same_segment() {
    for durability in DURABILITIES {
        let fs = SlowFs::new();
        let (queue, _) = open(&fs);
        DURABILITIES.into_iter().for_each(|each| append(&queue, each, 1));
        let id = queue.readable_segments().into_iter().map(|segment| segment.id());
        let id = id.into_iter().find(|id| Durability::of_segment(*id) == durability).unwrap();
        let slow = Arc::clone(&queue);
        let write = Operation::Append(PathBuf::from(format!("/q/{id}.active")));
        while_held(&fs, write, move || append(&slow, durability, 2), || assert_nothing_waits(&queue, durability));
        let records: u64 =
            queue.readable_segments().iter().filter_map(|it| it.with_summary(|_, sum| sum.records)).sum();
        assert_eq!(records, 3 + 2 + 1, "{durability}");
    }
}

#[test]
fn a_thread_that_writes_closes_the_segment_if_that_was_requested_meanwhile() {
    for durability in DURABILITIES {
        let fs = SlowFs::new();
        let (queue, clock) = open(&fs);
        append(&queue, durability, 1);
        let id = queue.readable_segments()[0].id();
        let slow = Arc::clone(&queue);
        let write = Operation::Append(PathBuf::from(format!("/q/{id}.active")));
        while_held(
            &fs,
            write,
            move || append(&slow, durability, 2),
            || {
                if durability == Durability::Bulk {
                    queue.flush_bulk();
                    assert!(queue.reserve(u64::MAX).is_empty());
                } else {
                    clock.advance(Duration::from_secs(3));
                    queue.tick();
                }
                assert_eq!(queue.readable_segments()[0].state(), SegmentState::Active);
            },
        );
        let reserved = queue.reserve(u64::MAX);
        assert_eq!((reserved.len(), reserved[0].reach.records), (1, 2), "{durability}");
    }
}

#[test]
fn a_write_that_does_not_return_is_a_stall() {
    let fs = SlowFs::new();
    let (queue, clock) = open(&fs);
    let slow = Arc::clone(&queue);
    while_held(
        &fs,
        Operation::Name("active"),
        move || append(&slow, Durability::Fast, 1),
        || {
            clock.advance(Queue::STALL_MAX + Duration::from_millis(1));
            queue.tick();
            assert_eq!(queue.halt_reason(), Some(HaltReason::Stalled));
        },
    );
    assert_eq!(queue.halt_reason(), None);
}

#[test]
fn appends_and_stores_do_not_wait_for_a_rename() {
    let fs = SlowFs::new();
    let (queue, clock) = open(&fs);
    append(&queue, Durability::Fast, 1);
    clock.advance(Duration::from_secs(3));
    let ticking = Arc::clone(&queue);
    while_held(
        &fs,
        Operation::Name("pending"),
        move || ticking.tick(),
        || {
            let busy = Arc::clone(&queue);
            must_not_wait("an append", move || append(&busy, Durability::Fast, 2));
            let busy = Arc::clone(&queue);
            let reserved = must_not_wait("a reservation", move || busy.reserve(u64::MAX));
            assert_eq!(reserved.len(), 1, "the closed segment can be fetched");
            let busy = Arc::clone(&queue);
            assert!(must_not_wait("a reservation", move || busy.reserve(u64::MAX)).is_empty(), "once");
            let busy = Arc::clone(&queue);
            assert_eq!(must_not_wait("a snapshot", move || busy.uncommitted_segments().len()), 2);
            let (busy, id) = (Arc::clone(&queue), reserved[0].id);
            must_not_wait("a commit", move || busy.commit(&[id]));
            assert!(fs.names().iter().all(|name| name.ends_with(".active")), "the rename is still under way");
        },
    );
    let states: Vec<SegmentState> = queue.readable_segments().iter().map(|segment| segment.state()).collect();
    assert_eq!(states, [SegmentState::Committed, SegmentState::Active]);
    let mut extensions: Vec<String> =
        fs.names().iter().filter_map(|name| Some(name.split_once('.')?.1.to_owned())).collect();
    extensions.sort();
    assert_eq!(extensions, ["active", "committed"], "the thread that renamed also executed the commit");
}

#[test]
fn a_removal_requested_during_a_rename_follows_it() {
    let fs = SlowFs::new();
    let (queue, clock) = open(&fs);
    append(&queue, Durability::Fast, 1);
    clock.advance(Duration::from_secs(3));
    queue.tick();
    let id = queue.reserve(1)[0].id;
    let committing = Arc::clone(&queue);
    while_held(
        &fs,
        Operation::Name("committed"),
        move || committing.commit(&[id]),
        || {
            let busy = Arc::clone(&queue);
            must_not_wait("retention", move || busy.forget(&[id]));
        },
    );
    assert!(queue.readable_segments().is_empty() && fs.names().is_empty(), "{:?}", fs.names());
}

#[test]
fn close_waits_for_the_segment_that_an_append_is_sealing() {
    let fs = SlowFs::new();
    let (queue, clock) = open(&fs);
    append(&queue, Durability::Fast, 1);
    clock.advance(Duration::from_secs(3));
    let (ticking, closing) = (Arc::clone(&queue), Arc::clone(&queue));
    let mut close = None;
    while_held(
        &fs,
        Operation::Name("pending"),
        move || ticking.tick(),
        || {
            let closed = thread::spawn(move || closing.close());
            while !queue.is_closed.load(Ordering::Acquire) {
                thread::yield_now();
            }
            assert!(!closed.is_finished());
            close = Some(closed);
        },
    );
    close.unwrap().join().unwrap();
    assert!(fs.names().iter().all(|name| name.ends_with(".pending")));
}

#[test]
fn known_keys_and_the_tick_do_not_wait_for_the_key_file() {
    let fs = SlowFs::new();
    let (queue, _) = open(&fs);
    let slow = Arc::clone(&queue);
    let number = |queue: &Queue, body: &[u8]| queue.assign_ids(&mut IdempotentBatch::new(b"a key", b""), &[body], true);
    let first = number(&queue, b"one").unwrap();
    fs.fs.fail_next_syncs(1);
    assert!(queue.sync_keys().is_err(), "the next entry is written to another file");
    let write = move || {
        slow.assign_ids(&mut IdempotentBatch::new(b"another", b""), &[b"two"], true).unwrap();
    };
    while_held(&fs, Operation::Name("keys"), write, || {
        let busy = Arc::clone(&queue);
        assert_eq!(must_not_wait("a retry", move || number(&busy, b"one")), Ok(first));
        let busy = Arc::clone(&queue);
        assert_eq!(must_not_wait("a reused key", move || number(&busy, b"other")), Err(IngestError::KeyReused));
        let busy = Arc::clone(&queue);
        must_not_wait("the tick", move || busy.tick());
        let busy = Arc::clone(&queue);
        assert_eq!(must_not_wait("the count of keys", move || (busy.keys_written(), busy.keys_synced())), (1, 0));
    });
}

#[test]
fn concurrent_first_attempts_with_one_key_get_the_same_ids() {
    let fs = SlowFs::new();
    let (queue, clock) = open(&fs);
    let number = |queue: &Queue| queue.assign_ids(&mut IdempotentBatch::new(b"a key", b""), &[b"one"], true).unwrap();
    let (first, second) = (Arc::clone(&queue), Arc::clone(&queue));
    let ids = Arc::new(Mutex::new(Vec::new()));
    let (first_ids, second_ids) = (Arc::clone(&ids), Arc::clone(&ids));
    let mut other = None;
    while_held(
        &fs,
        Operation::Name("keys"),
        move || lock(&first_ids).push(number(&first)),
        || {
            clock.advance(Duration::from_secs(1));
            other = Some(thread::spawn(move || lock(&second_ids).push(number(&second))));
        },
    );
    other.unwrap().join().unwrap();
    let ids = lock(&ids);
    assert!(ids.len() == 2 && ids[0] == ids[1], "{ids:?}");
}
