//! What goes on while one operation of the file system does not return.

use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use bucksaw_env::{Env, File, FileLock, Fs, Space, sim};
use bucksaw_record::{Id, Labels, Millis, Producer};
use prometheus_client::registry::Registry;

use crate::lock::lock;
use crate::{Config, Durability, FrameRecords, IdempotentBatch, IngestError, Metrics, Queue, SegmentState, Source};

const TIMEOUT: Duration = Duration::from_secs(20);

/// A simulated disk on which one operation waits until the test releases it.
#[derive(Clone, Debug)]
struct SlowFs {
    fs: sim::Fs,
    gate: Arc<(Mutex<Gate>, Condvar)>,
}

#[derive(Debug, Default)]
struct Gate {
    /// The end of the names that may not be given to a file.
    held_extension: Option<&'static str>,
    /// Operations that wait.
    waiting: usize,
}

impl SlowFs {
    fn new() -> Self {
        Self { fs: sim::Fs::new(), gate: Arc::default() }
    }

    fn hold(&self, extension: &'static str) {
        lock(&self.gate.0).held_extension = Some(extension);
    }

    fn release(&self) {
        lock(&self.gate.0).held_extension = None;
        self.gate.1.notify_all();
    }

    fn wait_until_held(&self) {
        let waited = self.gate.1.wait_timeout_while(lock(&self.gate.0), TIMEOUT, |gate| gate.waiting == 0).unwrap();
        assert!(!waited.1.timed_out(), "no operation reached the disk");
    }

    fn pass(&self, path: &Path) {
        let mut gate = lock(&self.gate.0);
        gate.waiting += 1;
        self.gate.1.notify_all();
        let is_held = |gate: &mut Gate| {
            gate.held_extension.is_some_and(|held| path.extension().is_some_and(|extension| extension == held))
        };
        let (mut gate, timeout) = self.gate.1.wait_timeout_while(gate, 2 * TIMEOUT, is_held).unwrap();
        gate.waiting -= 1;
        drop(gate);
        assert!(!timeout.timed_out(), "the test did not release the disk");
    }

    fn names(&self) -> Vec<String> {
        let mut names = self.fs.list(Path::new("/q")).unwrap();
        names.retain(|name| name.contains('.'));
        names
    }
}

impl Fs for SlowFs {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.pass(path);
        self.fs.create(path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.fs.open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.pass(to);
        self.fs.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.fs.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.fs.list(dir)
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

/// Starts `slow` on a thread, runs `meanwhile` while the disk holds its operation on a name of this extension, and then
/// lets both end.
fn while_held(fs: &SlowFs, extension: &'static str, slow: impl FnOnce() + Send + 'static, meanwhile: impl FnOnce()) {
    fs.hold(extension);
    let slow = thread::spawn(slow);
    fs.wait_until_held();
    meanwhile();
    fs.release();
    slow.join().unwrap();
}

#[test]
fn appends_and_stores_go_on_while_a_rename_is_slow() {
    let fs = SlowFs::new();
    let (queue, clock) = open(&fs);
    append(&queue, Durability::Fast, 1);
    clock.advance(Duration::from_secs(3));
    let ticking = Arc::clone(&queue);
    while_held(
        &fs,
        "pending",
        move || ticking.tick(),
        || {
            let busy = Arc::clone(&queue);
            must_not_wait("an append", move || append(&busy, Durability::Fast, 2));
            let busy = Arc::clone(&queue);
            let reserved = must_not_wait("a reservation", move || busy.reserve(u64::MAX));
            assert_eq!(reserved.len(), 1, "the closed segment is handed out");
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
    assert_eq!(extensions, ["active", "committed"], "the thread that renamed carried the commit out, too");
}

#[test]
fn a_removal_that_finds_the_file_being_renamed_follows_the_rename() {
    let fs = SlowFs::new();
    let (queue, clock) = open(&fs);
    append(&queue, Durability::Fast, 1);
    clock.advance(Duration::from_secs(3));
    queue.tick();
    let id = queue.reserve(1)[0].id;
    let committing = Arc::clone(&queue);
    while_held(
        &fs,
        "committed",
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
        "pending",
        move || ticking.tick(),
        || {
            let closed = thread::spawn(move || closing.close());
            while queue.is_open() {
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
fn known_keys_and_the_tick_go_on_while_the_key_file_is_slow() {
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
    while_held(&fs, "keys", write, || {
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
fn first_tries_of_one_key_at_the_same_time_get_the_same_ids() {
    let fs = SlowFs::new();
    let (queue, clock) = open(&fs);
    let number = |queue: &Queue| queue.assign_ids(&mut IdempotentBatch::new(b"a key", b""), &[b"one"], true).unwrap();
    let (first, second) = (Arc::clone(&queue), Arc::clone(&queue));
    let ids = Arc::new(Mutex::new(Vec::new()));
    let (first_ids, second_ids) = (Arc::clone(&ids), Arc::clone(&ids));
    let mut other = None;
    while_held(
        &fs,
        "keys",
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
