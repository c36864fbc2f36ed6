use std::path::Path;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_env::{Clock as _, Env, Fs as _, sim};
use bucksaw_record::{Id, Labels, Millis, Producer};
use prometheus_client::registry::Registry;

use super::*;

mod rotation;

const DIR: &str = "/q";

struct QueueTestMachine {
    fs: sim::Fs,
    clock: Arc<sim::Clock>,
    next: Mutex<u32>,
}

impl QueueTestMachine {
    fn new() -> Self {
        Self::with_fs(sim::Fs::new())
    }

    fn with_fs(fs: sim::Fs) -> Self {
        Self { fs, clock: Arc::new(sim::Clock::at_unix_ms(1_000_000)), next: Mutex::new(0) }
    }

    fn open(&self, config: Config) -> (Queue, Recovery) {
        let seed = self.fs.sync_count() + self.clock.unix_ms();
        let env = Env {
            fs: Arc::new(self.fs.clone()),
            clock: Arc::clone(&self.clock) as _,
            entropy: Arc::new(sim::Entropy::seeded(seed)),
        };
        Queue::open(env, Path::new(DIR), config, Metrics::new(&mut Registry::default())).unwrap()
    }

    fn try_put(
        &self,
        queue: &Queue,
        durability: Durability,
        line: &str,
    ) -> Result<mpsc::Receiver<Result<(), IngestError>>, IngestError> {
        let mut next = self.next.lock().unwrap();
        *next += 1;
        let at = Millis(self.clock.unix_ms());
        let (sender, ack) = mpsc::channel();
        let text = format!("{line}\n");
        let records = FrameRecords {
            source: Source::Tcp,
            labels: &Labels::parse("app=test").unwrap(),
            first_id: Id::new(at, Producer::new(1), *next),
            count: 1,
            accepted: at,
            layout_bits: 0,
            row_meta: &[],
            text: &[text.as_bytes()],
        };
        queue.append(durability, &records, move |result| drop(sender.send(result)))?;
        Ok(ack)
    }

    fn put(&self, queue: &Queue, durability: Durability, line: &str) -> mpsc::Receiver<Result<(), IngestError>> {
        self.try_put(queue, durability, line).unwrap()
    }

    fn advance(&self, queue: &Queue, time: Duration) {
        self.clock.advance(time);
        queue.tick();
    }
}

/// The segments' names.
fn names(machine: &QueueTestMachine) -> Vec<String> {
    machine.fs.list(Path::new(DIR)).unwrap().into_iter().filter(|name| name.contains('.')).collect()
}

fn lines(queue: &Queue) -> Vec<String> {
    queue.uncommitted_segments().iter().flat_map(lines_of).collect()
}

fn lines_of(view: &SegmentView) -> Vec<String> {
    let mut lines = Vec::new();
    let (places, _) = view.frame_positions().unwrap();
    let mut frames = view.frames(0);
    for place in places {
        frames.seek(place.offset);
        let chunk = frames.next_chunk().unwrap().unwrap();
        lines.extend(chunk.records().map(|record| String::from_utf8(record.to_vec()).unwrap()));
    }
    lines
}

fn states(machine: &QueueTestMachine) -> Vec<String> {
    let mut states: Vec<String> =
        names(machine).iter().filter_map(|name| Some(name.split_once('.')?.1.to_owned())).collect();
    states.sort();
    states
}

#[test]
fn records_are_readable_at_once_and_acknowledged_by_their_durability() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config::default());
    let fast = machine.put(&queue, Durability::Fast, "f");
    let durable = machine.put(&queue, Durability::Durable, "d");
    let bulk = machine.put(&queue, Durability::Bulk, "b");
    assert_eq!(fast.try_recv(), Ok(Ok(())));
    assert!(durable.try_recv().is_err() && bulk.try_recv().is_err());
    let mut seen = lines(&queue);
    seen.sort();
    assert_eq!(seen, ["b", "d", "f"]);
    assert!(queue.commit_group());
    assert!(!queue.commit_group());
    assert_eq!(durable.try_recv(), Ok(Ok(())));
    queue.flush_bulk();
    assert!(queue.backlog().has_waiting_client);
    let reserved: Vec<Id> = queue.reserve(u64::MAX).iter().map(|view| view.id).collect();
    assert!(queue.reserve(u64::MAX).is_empty());
    queue.commit(&reserved);
    assert_eq!(bulk.try_recv(), Ok(Ok(())));
    assert_eq!(lines(&queue).len(), 2);
}

#[test]
fn bulk_flushes_without_a_fetch_share_one_segment() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config::default());
    queue.flush_bulk();
    assert_eq!(queue.backlog(), QueueBacklog::default());
    let ack: Vec<_> = ["a", "b", "c"]
        .map(|line| {
            let ack = machine.put(&queue, Durability::Bulk, line);
            queue.flush_bulk();
            ack
        })
        .into();
    let backlog = queue.backlog();
    assert_eq!((backlog.segments, backlog.text_bytes, backlog.has_waiting_client), (1, 6, true));
    assert_eq!(states(&machine), ["active"]);
    let reserved = queue.reserve(u64::MAX);
    assert_eq!((reserved.len(), reserved[0].reach.records), (1, 3));
    assert_eq!((states(&machine), queue.backlog()), (vec!["pending".to_owned()], QueueBacklog::default()));
    let later = machine.put(&queue, Durability::Bulk, "d");
    assert_eq!(queue.reserve(u64::MAX).len(), 0, "not flushed");
    queue.commit(&[reserved[0].id]);
    assert!(ack.iter().all(|ack| ack.try_recv() == Ok(Ok(()))) && later.try_recv().is_err());
}

#[test]
fn segments_close_at_size_and_age_and_are_removed_after_the_grace_period() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config { segment_bytes_max: 250, ..Config::default() });
    for at in 0..6 {
        machine.put(&queue, Durability::Fast, &format!("line {at}"));
    }
    assert!(queue.backlog().segments >= 2, "{:?}", queue.backlog());
    assert_eq!(states(&machine).iter().filter(|state| *state == "active").count(), 1);
    machine.advance(&queue, Duration::from_secs(3));
    assert!(states(&machine).iter().all(|state| state == "pending"));
    let reserved: Vec<Id> = queue.reserve(1).iter().map(|view| view.id).collect();
    assert_eq!(reserved.len(), 1);
    queue.release(&reserved);
    assert_eq!(queue.reserve(1).iter().map(|view| view.id).collect::<Vec<_>>(), reserved);
    queue.commit(&reserved);
    machine.advance(&queue, Duration::from_secs(9));
    assert!(states(&machine).contains(&"committed".to_owned()));
    machine.advance(&queue, Duration::from_secs(1));
    assert!(!states(&machine).contains(&"committed".to_owned()));
}

#[test]
fn a_backlog_is_due_by_its_bytes_or_by_the_age_of_its_oldest_segment() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config::default());
    let is_due = |text_bytes_min, age_secs| {
        let age_min = Duration::from_secs(age_secs);
        queue.is_due(FetchThreshold { text_bytes_min, age_min }, &queue.backlog())
    };
    machine.advance(&queue, Duration::from_secs(100));
    assert!(!is_due(0, 0), "the backlog is empty");
    machine.put(&queue, Durability::Fast, "12345");
    machine.advance(&queue, Duration::from_secs(3));
    assert!(is_due(6, u64::MAX) && !is_due(7, u64::MAX));
    assert!(is_due(u64::MAX, 3) && !is_due(u64::MAX, 4));
    assert_eq!(queue.metrics().consumed_bytes(), 0);
    let ids: Vec<Id> = queue.reserve(u64::MAX).iter().map(|view| view.id).collect();
    queue.commit(&ids);
    assert!(!is_due(0, 0), "the backlog is empty again");
    assert_eq!((queue.metrics().accepted_bytes(), queue.metrics().consumed_bytes()), (6, 6));
}

/// The queued bytes times their seconds, and the same of the committed bytes, of steady appends of all durabilities. Every 700 ms
/// a store takes a batch, and returns every third. At the end it takes all but `left` segments.
fn byte_seconds(left: usize) -> (f64, f64) {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config { segment_age_max: Duration::from_millis(500), ..Config::default() });
    let durabilities = [Durability::Fast, Durability::Durable, Durability::Bulk];
    let (mut queued, mut segments) = (0.0, Vec::new());
    for step in 0_usize..200 {
        if step < 150 {
            machine.put(&queue, durabilities[step % 3], &"x".repeat(step % 13));
        }
        if step % 7 == 6 {
            let taken: Vec<Id> = queue.reserve(40).iter().map(|view| view.id).collect();
            if step % 3 == 0 { queue.release(&taken) } else { queue.commit(&taken) }
        }
        if step == 190 {
            segments = queue.reserve(u64::MAX).iter().map(|view| view.id).collect();
            queue.commit(&segments[left..]);
        }
        queue.update_queued_bytes();
        queued += queue.metrics.queued_bytes.get() as f64 * 0.1;
        machine.advance(&queue, Duration::from_millis(100));
    }
    assert!(segments.len() > 2, "{segments:?}");
    assert_eq!(queue.metrics.queued_bytes.get() == 0, left == 0);
    (queued, queue.metrics.consumed_byte_seconds.get())
}

#[test]
fn queued_bytes_times_seconds_are_the_seconds_of_the_committed_bytes() {
    let (queued, committed) = byte_seconds(0);
    assert!(queued > 1_000.0 && (queued - committed).abs() < 1e-6, "{queued} and {committed}");
    let (queued, committed) = byte_seconds(1);
    assert!(queued > committed + 10.0, "{queued} and {committed}");
}

#[test]
fn a_commit_reports_the_time_of_its_sync_alone() {
    let machine = QueueTestMachine::new();
    let mut registry = Registry::default();
    let env = Env {
        fs: Arc::new(machine.fs.clone()),
        clock: Arc::clone(&machine.clock) as _,
        entropy: Arc::new(sim::Entropy::seeded(1)),
    };
    let (queue, _) = Queue::open(env, Path::new(DIR), Config::default(), Metrics::new(&mut registry)).unwrap();
    machine.advance(&queue, Duration::from_secs(100));
    machine.put(&queue, Durability::Durable, "x");
    assert!(queue.commit_group());
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    // The simulated disk syncs in no time.
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    assert_eq!(value("ingest_sync_seconds_count"), Some("1"), "{text}");
    assert_eq!(value("ingest_sync_seconds_sum"), Some("0.0"), "{text}");
}

#[test]
fn restarts_within_the_grace_period_do_not_accumulate_committed_segments() {
    let machine = QueueTestMachine::new();
    let config = || Config { segment_bytes_max: 250, committed_segments_max: 3, ..Config::default() };
    let mut put: Vec<Id> = Vec::new();
    for round in 0..5 {
        let (queue, _) = machine.open(config());
        let remaining: Vec<Id> = queue.readable_segments().iter().map(|segment| segment.id()).collect();
        assert_eq!(remaining, put[put.len().saturating_sub(3)..], "round {round}");
        for at in 0..4 {
            machine.put(&queue, Durability::Fast, &format!("line {round} {at} {}", "x".repeat(250)));
        }
        machine.advance(&queue, Duration::from_secs(3));
        put = queue.reserve(100_000).iter().map(|view| view.id).collect();
        assert!(put.len() > 3 && put.iter().all(|id| !remaining.contains(id)), "round {round}: {}", put.len());
        queue.commit(&put);
    }
    let (queue, _) = machine.open(Config { committed_segments_max: 0, ..config() });
    assert!(queue.readable_segments().is_empty() && states(&machine).iter().all(|state| state != "committed"));
}

#[test]
fn a_restart_recovers_written_records_and_truncates_torn_frames() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config::default());
    machine.put(&queue, Durability::Fast, "one");
    machine.put(&queue, Durability::Fast, "two");
    drop(queue);
    let name = names(&machine).remove(0);
    let file = machine.fs.clone();
    let bytes = file.live_bytes(Path::new(DIR).join(&name)).unwrap();
    let path = Path::new(DIR).join(&name);
    file.remove(&path).unwrap();
    file.create(&path).unwrap().append(&[&bytes[..bytes.len() - 2]]).unwrap();
    file.create(&Path::new(DIR).join("keep me")).unwrap();
    let (queue, recovery) = machine.open(Config::default());
    assert_eq!((recovery.records, recovery.segments), (1, 1));
    assert!(recovery.torn_bytes > 0);
    assert_eq!(lines(&queue), ["one"]);
    assert!(machine.fs.list(Path::new(DIR)).unwrap().contains(&"keep me".to_owned()));
}

#[test]
fn a_damaged_segment_is_quarantined_after_its_intact_frames_are_committed() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config::default());
    ["one", "two", "three"].into_iter().for_each(|line| drop(machine.put(&queue, Durability::Fast, line)));
    let end = queue.uncommitted_segments()[0].end;
    drop(queue);
    let name = names(&machine).remove(0);
    assert!(machine.fs.flip_bit(Path::new(DIR).join(name), (end - 70) * 8));
    let (queue, recovery) = machine.open(Config::default());
    assert_eq!((recovery.damaged, recovery.records), (1, 2));
    assert_eq!(lines(&queue), ["one", "three"]);
    let ids: Vec<Id> = queue.reserve(u64::MAX).iter().map(|view| view.id).collect();
    queue.commit(&ids);
    assert_eq!((states(&machine), queue.damaged_file_names().len()), (vec!["damaged".to_owned()], 1));
    machine.advance(&queue, Duration::from_secs(60));
    drop(queue);
    let (queue, _) = machine.open(Config::default());
    assert_eq!((queue.damaged_file_names().len(), queue.uncommitted_segments().len()), (1, 0));
}

#[test]
fn an_unreadable_committed_segment_is_no_damage() {
    for (committed, damaged) in [(true, 0), (false, 1)] {
        let machine = QueueTestMachine::new();
        let (queue, _) = machine.open(Config::default());
        machine.put(&queue, Durability::Fast, "x");
        queue.close();
        let ids: Vec<Id> = queue.reserve(u64::MAX).iter().map(|view| view.id).collect();
        if committed {
            queue.commit(&ids);
        }
        drop(queue);
        cut(&machine, &Path::new(DIR).join(names(&machine).remove(0)), 20);
        let (queue, recovery) = machine.open(Config::default());
        assert_eq!((queue.damaged_file_names().len(), recovery.damaged), (damaged, damaged));
        assert_eq!(states(&machine).len(), damaged);
    }
}

#[test]
fn after_a_failed_sync_records_are_acknowledged_from_another_file_only() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config::default());
    let early = machine.put(&queue, Durability::Durable, "early");
    queue.commit_group();
    assert_eq!(early.try_recv(), Ok(Ok(())));
    let late = machine.put(&queue, Durability::Durable, "late");
    machine.fs.fail_next_syncs(1);
    assert!(queue.commit_group());
    assert!(late.try_recv().is_err());
    assert_eq!(lines(&queue), ["early", "late"]);
    assert!(queue.commit_group());
    assert_eq!(late.try_recv(), Ok(Ok(())));
    let after = QueueTestMachine::with_fs(machine.fs.cut_power(sim::PowerCutLoss::All, 1));
    let (queue, _) = after.open(Config::default());
    assert_eq!(lines(&queue), ["early", "late"]);
}

#[test]
fn clients_receive_an_error_if_no_file_syncs() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config::default());
    let ack = machine.put(&queue, Durability::Durable, "x");
    machine.fs.fail_next_syncs(100);
    while queue.commit_group() {}
    assert!(matches!(ack.try_recv(), Ok(Err(IngestError::Io(_)))));
}

#[test]
fn unsynced_records_that_cannot_be_rewritten_are_not_reported_as_refused() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config::default());
    let ack = machine.put(&queue, Durability::Durable, "x");
    machine.fs.fail_next_syncs(1);
    machine.fs.set_capacity(Some(200));
    while queue.commit_group() {}
    let ack = ack.try_recv().unwrap();
    assert!(matches!(&ack, Err(IngestError::Io(why)) if *why == IngestError::DiskFull.to_string()), "{ack:?}");
}

#[test]
fn a_full_disk_refuses_records_and_recovers() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config::default());
    machine.put(&queue, Durability::Fast, "kept");
    let used = 32 + 200;
    machine.fs.set_capacity(Some(used));
    let mut refused = 0;
    for at in 0..9 {
        refused += u32::from(
            machine.try_put(&queue, Durability::Fast, &format!("x{at}")).err() == Some(IngestError::DiskFull),
        );
    }
    assert!(refused > 5);
    let before = lines(&queue).len();
    machine.fs.set_capacity(None);
    machine.advance(&queue, Duration::from_secs(1));
    machine.put(&queue, Durability::Fast, "again");
    assert_eq!((lines(&queue).len(), lines(&queue).first().cloned()), (before + 1, Some("kept".to_owned())));
}

#[test]
fn a_queue_that_cannot_create_files_is_readable_and_recovers() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config::default());
    machine.put(&queue, Durability::Fast, "kept");
    machine.advance(&queue, Duration::from_secs(3));
    // The disk has free bytes, but the directory takes no more names.
    machine.fs.fill_directories(true);
    for _ in 0..5 {
        machine.advance(&queue, Duration::from_secs(2));
        assert_eq!(machine.try_put(&queue, Durability::Durable, "refused").err(), Some(IngestError::DiskFull));
        assert!(queue.is_full() && queue.check_accepting().is_err());
        assert_eq!(lines(&queue), ["kept"]);
    }
    assert_eq!(queue.metrics().refused(), 10);
    machine.fs.fill_directories(false);
    machine.advance(&queue, Duration::from_secs(1));
    assert!(!queue.is_full());
    machine.put(&queue, Durability::Durable, "again");
    assert!(queue.commit_group());
    assert_eq!(lines(&queue), ["kept", "again"]);
    assert!(!names(&machine).contains(&"probe".to_owned()));
}

#[test]
fn a_full_disk_is_detected_at_the_start_and_makes_the_backlog_due() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config::default());
    machine.put(&queue, Durability::Fast, "kept");
    machine.put(&queue, Durability::Durable, "kept too");
    queue.commit_group();
    drop(queue);
    machine.fs.fill(1_000);
    machine.fs.fill_directories(true);
    let (queue, recovery) = machine.open(Config { free_bytes_min: 2_000, ..Config::default() });
    assert!(queue.is_full());
    assert_eq!((recovery.records, lines(&queue).len()), (2, 2));
    let due = FetchThreshold { text_bytes_min: u64::MAX, age_min: Duration::MAX };
    assert!(queue.is_due(due, &queue.backlog()));
    let ids: Vec<Id> = queue.reserve(u64::MAX).iter().map(|view| view.id).collect();
    queue.commit(&ids);
    machine.advance(&queue, Duration::from_secs(1));
    assert_eq!(names(&machine), Vec::<String>::new(), "committed segments are removed early");
}

/// The queue is halted for this reason until `end_cause`, and then recovers without a restart.
fn halts_and_recovers(machine: &QueueTestMachine, queue: &Queue, want: &HaltReason, end_cause: impl FnOnce()) {
    assert_eq!(queue.halt_reason(), None);
    halts_until(machine, queue, want, end_cause);
}

fn halts_until(machine: &QueueTestMachine, queue: &Queue, want: &HaltReason, end_cause: impl FnOnce()) {
    let before = lines(queue);
    for durability in [Durability::Durable, Durability::Fast] {
        assert_eq!(machine.try_put(queue, durability, "refused").err(), Some(want.clone().into()));
        assert_eq!((queue.halt_reason(), queue.is_full()), (Some(want.clone()), false));
        assert!(queue.check_accepting().is_err());
        machine.advance(queue, Duration::from_secs(2));
    }
    assert_eq!(queue.metrics().halted.get_or_create(&[("reason", want.name())]).get(), 1);
    end_cause();
    machine.advance(queue, Duration::from_secs(1));
    assert_eq!(queue.halt_reason(), None);
    assert_eq!(queue.metrics().halted.get_or_create(&[("reason", want.name())]).get(), 0);
    machine.put(queue, Durability::Fast, "again");
    assert_eq!(lines(queue), [before, vec!["again".to_owned()]].concat());
    assert!(!names(machine).contains(&"probe".to_owned()));
}

#[test]
fn a_queue_without_descriptors_is_halted_until_some_are_free() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config::default());
    machine.put(&queue, Durability::Fast, "kept");
    machine.advance(&queue, Duration::from_secs(3));
    machine.fs.limit_handles(Some(machine.fs.handles()));
    halts_and_recovers(&machine, &queue, &HaltReason::Descriptors, || machine.fs.limit_handles(None));
}

#[test]
fn a_shortage_of_descriptors_halts_the_queue_and_makes_its_backlog_due() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config::default());
    machine.put(&queue, Durability::Fast, "kept");
    machine.advance(&queue, Duration::from_secs(3));
    let due = FetchThreshold { text_bytes_min: u64::MAX, age_min: Duration::MAX };
    assert!(!queue.is_due(due, &queue.backlog()));
    queue.set_external_halt(Some(HaltReason::Descriptors));
    assert!(queue.is_due(due, &queue.backlog()));
    halts_until(&machine, &queue, &HaltReason::Descriptors, || queue.set_external_halt(None));
}

#[test]
fn a_full_store_index_halts_the_queue() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config::default());
    machine.put(&queue, Durability::Fast, "kept");
    machine.advance(&queue, Duration::from_secs(3));
    let want = HaltReason::StoreIndexFull(4 << 20);
    queue.set_external_halt(Some(want.clone()));
    let due = FetchThreshold { text_bytes_min: u64::MAX, age_min: Duration::MAX };
    assert!(!queue.is_due(due, &queue.backlog()), "the store could not index it");
    let text = want.to_string();
    for word in ["4.0 MB", "--memory-limit", "--retention-bytes", "--retention-age"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    halts_until(&machine, &queue, &want, || queue.set_external_halt(None));
}

#[test]
fn a_read_only_file_system_halts_the_queue_until_it_is_writable() {
    for is_open in [false, true] {
        let machine = QueueTestMachine::new();
        let (queue, _) = machine.open(Config::default());
        machine.put(&queue, Durability::Fast, "kept");
        if !is_open {
            machine.advance(&queue, Duration::from_secs(3));
        }
        machine.fs.make_read_only(true);
        let error = machine.fs.create(Path::new("/q/x")).unwrap_err();
        halts_and_recovers(&machine, &queue, &HaltReason::Failing(error.to_string()), || {
            machine.fs.make_read_only(false);
        });
    }
}

#[test]
fn a_disk_that_fails_to_sync_halts_the_queue_until_it_syncs() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config::default());
    let ack = machine.put(&queue, Durability::Durable, "x");
    machine.fs.fail_some_syncs(1.0, 1);
    while queue.commit_group() {}
    assert!(matches!(ack.try_recv(), Ok(Err(IngestError::Io(_)))));
    machine.advance(&queue, Duration::from_secs(2));
    assert!(matches!(queue.halt_reason(), Some(HaltReason::Failing(_))) && queue.check_accepting().is_err());
    machine.fs.fail_some_syncs(0.0, 1);
    machine.advance(&queue, Duration::from_secs(2));
    assert_eq!(queue.halt_reason(), None);
    let ack = machine.put(&queue, Durability::Durable, "y");
    queue.commit_group();
    assert_eq!(ack.try_recv(), Ok(Ok(())));
}

#[test]
fn a_file_whose_write_failed_is_not_appended_to_again() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config::default());
    machine.put(&queue, Durability::Fast, "kept");
    let name = names(&machine).into_iter().find(|name| name.ends_with(".active")).unwrap();
    machine.fs.fail_writes_of(name.split_once('.').unwrap().0, true);
    assert!(machine.try_put(&queue, Durability::Fast, "refused").is_err());
    machine.advance(&queue, Duration::from_secs(1));
    machine.put(&queue, Durability::Fast, "again");
    assert_eq!((queue.uncommitted_segments().len(), lines(&queue)), (2, vec!["kept".to_owned(), "again".to_owned()]));
}

#[test]
fn work_that_does_not_end_is_reported_as_a_stall() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config::default());
    for work in [&queue.ticking, &queue.group_commit, &queue.durable_slot.write] {
        let running = work.start(machine.clock.uptime());
        machine.clock.advance(Queue::STALL_MAX);
        assert_eq!(queue.halt_reason(), None);
        machine.clock.advance(Duration::from_millis(1));
        assert_eq!((queue.halt_reason(), queue.is_halted()), (Some(HaltReason::Stalled), false));
        queue.update_halt_metrics();
        assert_eq!(queue.metrics().halted.get_or_create(&[("reason", "stalled")]).get(), 1);
        drop(running);
        assert_eq!(queue.halt_reason(), None);
    }
}

#[test]
fn the_boot_id_is_recorded_when_the_disk_has_room() {
    let machine = QueueTestMachine::new();
    machine.fs.create_dir_all(Path::new(DIR)).unwrap();
    machine.fs.fill_directories(true);
    let (queue, _) = machine.open(Config::default());
    let is_recorded = || machine.fs.live_bytes("/q/boot").is_some();
    assert!(!is_recorded());
    machine.fs.fill_directories(false);
    machine.advance(&queue, Duration::from_secs(61));
    assert!(is_recorded());
}

#[test]
fn committed_segments_that_retention_removed_are_not_readable() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config::default());
    machine.put(&queue, Durability::Fast, "stored");
    machine.advance(&queue, Duration::from_secs(3));
    let stored: Vec<Id> = queue.reserve(u64::MAX).iter().map(|view| view.id).collect();
    machine.put(&queue, Durability::Fast, "waits");
    let all: Vec<Id> = queue.readable_segments().iter().map(|segment| segment.id()).collect();
    queue.forget(&all);
    assert_eq!(queue.readable_segments().len(), 2, "only committed ones are removed");
    queue.commit(&stored);
    assert_eq!(queue.readable_segments().len(), 2);
    queue.forget(&stored);
    assert_eq!((queue.readable_segments().len(), states(&machine)), (1, vec!["active".to_owned()]));
}

#[test]
fn no_power_cut_restores_a_part_of_a_removed_segment() {
    let machine = QueueTestMachine::new();
    let config = || Config { committed_grace: Duration::from_secs(1), ..Config::default() };
    let (queue, _) = machine.open(config());
    let line = "x".repeat(400_000);
    (0..4).for_each(|_| drop(machine.put(&queue, Durability::Durable, &line)));
    queue.commit_group();
    machine.advance(&queue, Duration::from_secs(3));
    queue.rotate_files();
    let stored: Vec<Id> = queue.reserve(u64::MAX).iter().map(|view| view.id).collect();
    queue.commit(&stored);
    assert_eq!((stored.len(), states(&machine)), (1, vec!["committed".to_owned()]));
    machine.fs.set_capacity(Some(64 << 20));
    let free = || machine.fs.space(Path::new(DIR)).unwrap().free_bytes;
    let before = free();
    machine.advance(&queue, Duration::from_secs(2));
    assert_eq!(states(&machine), Vec::<String>::new());
    assert!(free() > before + 1_500_000, "{before} {}", free());
    for seed in 0..50 {
        let after = QueueTestMachine::with_fs(machine.fs.cut_power(sim::PowerCutLoss::Torn, seed));
        let (queue, recovery) = after.open(config());
        assert_eq!((recovery.damaged, queue.damaged_file_names().len()), (0, 0), "seed {seed}");
    }
}

#[test]
fn free_bytes_for_the_store_are_reserved() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config { free_bytes_min: 1 << 20, ..Config::default() });
    // Free bytes before the first record.
    machine.fs.fill(1 << 20);
    machine.put(&queue, Durability::Fast, "x");
    queue.tick();
    assert_eq!(machine.try_put(&queue, Durability::Fast, "y").err(), Some(IngestError::DiskFull));
    machine.fs.set_capacity(Some(1 << 21));
    queue.tick();
    machine.put(&queue, Durability::Fast, "z");
    assert_eq!(lines(&queue), ["x", "z"]);
}

#[test]
fn free_bytes_for_the_store_are_reserved_between_two_checks() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config { free_bytes_min: 1 << 20, ..Config::default() });
    machine.fs.fill((1 << 20) + 10_000);
    queue.tick();
    // No tick follows.
    let line = "x".repeat(999);
    let accepted = (0..100).take_while(|_| machine.try_put(&queue, Durability::Fast, &line).is_ok()).count();
    assert_eq!(accepted, 10);
    assert!(queue.is_full());
}

#[test]
fn a_full_disk_needs_an_eighth_more_than_the_reserve_to_recover() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config { free_bytes_min: 1 << 20, ..Config::default() });
    let is_full = |free_bytes| {
        machine.fs.fill(free_bytes);
        queue.tick();
        queue.is_full()
    };
    assert!(!is_full(1 << 20));
    assert!(is_full((1 << 20) - 1));
    assert!(is_full((1 << 20) + (1 << 17) - 1), "the state does not flap");
    assert!(!is_full((1 << 20) + (1 << 17)));
}

#[test]
fn memory_for_unsynced_records_is_bounded() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config { unsynced_bytes_max: 3, ..Config::default() });
    machine.put(&queue, Durability::Durable, "abc");
    assert_eq!(machine.try_put(&queue, Durability::Durable, "d").err(), Some(IngestError::SyncBacklog));
    queue.commit_group();
    machine.put(&queue, Durability::Durable, "d");
}

#[test]
fn close_acknowledges_pending_records_and_accepts_no_more() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config::default());
    let ack = machine.put(&queue, Durability::Durable, "x");
    queue.close();
    assert_eq!(ack.try_recv(), Ok(Ok(())));
    assert_eq!(machine.try_put(&queue, Durability::Fast, "y").err(), Some(IngestError::ShuttingDown));
    assert_eq!(states(&machine), ["pending"]);
}

#[test]
fn many_streams_and_producers_share_one_file() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config::default());
    for producer in 0..1_000_u64 {
        let labels = Labels::new([("conn", producer.to_string())]).unwrap();
        let records = FrameRecords {
            source: Source::Tcp,
            labels: &labels,
            first_id: Id::new(Millis(5), Producer::new(producer), 0),
            count: 1,
            accepted: Millis(5),
            layout_bits: 0,
            row_meta: &[],
            text: &[b"x", b"\n"],
        };
        queue.append(Durability::Fast, &records, |_| {}).unwrap();
    }
    assert_eq!(names(&machine).len(), 1);
    let view = queue.uncommitted_segments().remove(0);
    assert_eq!((view.reach.records, view.streams().len(), lines_of(&view).len()), (1_000, 1_000, 1_000));
}

/// Puts some lines, closes their segment, damages its file and opens the queue again.
fn damaged(
    durability: Durability,
    damage: impl FnOnce(&QueueTestMachine, &Path),
    reopen: impl FnOnce(&QueueTestMachine) -> sim::Fs,
) -> (QueueTestMachine, Queue, Recovery) {
    let mut machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config::default());
    ["one", "two", "three"].into_iter().for_each(|line| drop(machine.put(&queue, durability, line)));
    queue.close();
    assert_eq!(states(&machine), ["pending"]);
    drop(queue);
    let path = Path::new(DIR).join(names(&machine).remove(0));
    damage(&machine, &path);
    machine.fs = reopen(&machine);
    let (queue, recovery) = machine.open(Config::default());
    (machine, queue, recovery)
}

fn flip(byte: usize) -> impl FnOnce(&QueueTestMachine, &Path) {
    move |machine, path| assert!(machine.fs.flip_bit(path, byte as u64 * 8))
}

fn cut(machine: &QueueTestMachine, path: &Path, keep: usize) {
    let bytes = machine.fs.live_bytes(path).unwrap();
    machine.fs.remove(path).unwrap();
    machine.fs.create(path).unwrap().append(&[&bytes[..keep.min(bytes.len())]]).unwrap();
}

#[test]
fn damage_to_any_byte_of_a_closed_segment_is_reported_if_it_costs_a_record() {
    let size = {
        let mut size = 0;
        damaged(Durability::Fast, |machine, path| size = machine.fs.live_bytes(path).unwrap().len(), |m| m.fs.kill());
        size
    };
    for byte in 0..size {
        let (machine, queue, recovery) = damaged(Durability::Fast, flip(byte), |machine| machine.fs.kill());
        let found = lines(&queue);
        assert!(found.iter().all(|line| ["one", "two", "three"].contains(&line.as_str())));
        assert!(found.len() >= 2, "byte {byte}: one frame at most is lost");
        let is_reported = !queue.damaged_file_names().is_empty() && recovery.damaged == 1;
        assert!(is_reported || found.len() == 3, "byte {byte}");
        let ids: Vec<Id> = queue.reserve(u64::MAX).iter().map(|view| view.id).collect();
        queue.commit(&ids);
        let state = if is_reported { "damaged" } else { "committed" };
        assert_eq!(states(&machine), [state], "byte {byte}: a file with missing records is kept");
    }
    for keep in 0..size {
        let (machine, queue, _) =
            damaged(Durability::Fast, |machine, path| cut(machine, path, keep), |machine| machine.fs.kill());
        assert_eq!((queue.damaged_file_names().len(), states(&machine).len()), (1, 1), "cut to {keep}");
    }
}

#[test]
fn the_damage_of_a_sealed_segment_has_a_span() {
    let (_, queue, _) = damaged(Durability::Fast, flip(120), |machine| machine.fs.kill());
    let quarantined = queue.damaged_files().remove(0);
    assert_eq!((quarantined.low, quarantined.high), (Millis(1_000_000), Millis(1_000_000)));
    // The same for a file that was quarantined before, and one whose intact frames were saved.
    for extension in ["damaged", "saved.damaged"] {
        let quarantined =
            |machine: &QueueTestMachine, path: &Path| machine.fs.rename(path, &path.with_extension(extension)).unwrap();
        let (_, queue, _) = damaged(Durability::Fast, quarantined, |machine| machine.fs.kill());
        let quarantined = queue.damaged_files().remove(0);
        assert_eq!((quarantined.low, quarantined.high), (Millis(1_000_000), Millis(1_000_000)), "{extension}");
    }
    let (_, queue, _) = damaged(Durability::Fast, |machine, path| cut(machine, path, 200), |machine| machine.fs.kill());
    let quarantined = queue.damaged_files().remove(0);
    assert_eq!((quarantined.low, quarantined.high), (Millis(0), Millis::MAX), "without a seal the time is unknown");
}

#[test]
fn unsynced_records_lost_in_a_power_cut_are_no_damage() {
    let (machine, queue, recovery) = damaged(
        Durability::Fast,
        |machine, path| cut(machine, path, 200),
        |m| m.fs.cut_power(sim::PowerCutLoss::None, 1),
    );
    assert_eq!((recovery.damaged, queue.damaged_file_names().len(), lines(&queue).len()), (0, 0, 1));
    drop(queue);
    // The same at the next start, without a power cut.
    let (queue, recovery) = machine.open(Config::default());
    assert_eq!((recovery.damaged, lines(&queue).len()), (0, 1));
}

#[test]
fn a_truncated_file_of_synced_records_is_damaged_after_a_power_cut_too() {
    let (_, queue, recovery) = damaged(
        Durability::Durable,
        |machine, path| cut(machine, path, 200),
        |m| m.fs.cut_power(sim::PowerCutLoss::None, 1),
    );
    assert_eq!((recovery.damaged, queue.damaged_file_names().len(), lines(&queue).len()), (1, 1, 1));
    for (seed, how) in [
        (1, sim::PowerCutLoss::All),
        (2, sim::PowerCutLoss::Torn),
        (3, sim::PowerCutLoss::Torn),
        (4, sim::PowerCutLoss::Torn),
    ] {
        let (_, queue, recovery) = damaged(Durability::Durable, |_, _| (), |machine| machine.fs.cut_power(how, seed));
        assert_eq!((recovery.damaged, queue.damaged_file_names().len(), lines(&queue).len()), (0, 0, 3));
    }
}

#[test]
fn a_damaged_end_of_an_active_segment_is_reported_unless_the_power_was_cut() {
    let damaged = |reopen: fn(&sim::Fs) -> sim::Fs| {
        let machine = QueueTestMachine::new();
        let (queue, _) = machine.open(Config::default());
        ["one", "two"].into_iter().for_each(|line| drop(machine.put(&queue, Durability::Durable, line)));
        queue.commit_group();
        assert_eq!(states(&machine), ["active"]);
        let path = Path::new(DIR).join(names(&machine).remove(0));
        let fs = reopen(&machine.fs);
        let end = fs.live_bytes(&path).unwrap().len() as u64;
        assert!(fs.flip_bit(&path, (end - 2) * 8));
        let machine = QueueTestMachine::with_fs(fs);
        let (queue, recovery) = machine.open(Config::default());
        assert_eq!(lines(&queue), ["one"]);
        (recovery.damaged, queue.damaged_file_names().len(), recovery.torn_bytes > 0)
    };
    assert_eq!(damaged(sim::Fs::kill), (1, 1, false), "a killed process does not leave this");
    assert_eq!(damaged(|fs| fs.cut_power(sim::PowerCutLoss::None, 0)), (0, 0, true));
}

#[test]
fn a_sealed_durable_segment_is_renamed_only_after_its_seal_is_synced() {
    let (machine, queue, _) = damaged(
        Durability::Durable,
        |machine, path| machine.fs.rename(path, &path.with_extension("active")).unwrap(),
        |machine| {
            machine.fs.fail_next_syncs(1);
            machine.fs.clone()
        },
    );
    assert_eq!((states(&machine), lines(&queue).len()), (vec!["active".to_owned()], 3));
    drop(queue);
    let (queue, _) = machine.open(Config::default());
    assert_eq!((states(&machine), lines(&queue).len()), (vec!["pending".to_owned()], 3));
}

#[test]
fn the_name_of_a_closed_durable_segment_survives_a_power_cut() {
    for how in [sim::PowerCutLoss::All, sim::PowerCutLoss::Torn, sim::PowerCutLoss::None] {
        // The power cut keeps names and seal.
        let (_, queue, recovery) = damaged(
            Durability::Durable,
            |machine, path| assert!(machine.fs.truncate_file(path, 200)),
            |machine| machine.fs.cut_power(how, 1),
        );
        assert_eq!((recovery.damaged, queue.damaged_file_names().len()), (1, 1), "{how:?}");
    }
    // The same after a crash between the seal and the rename.
    let mut machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config::default());
    ["one", "two"].into_iter().for_each(|line| drop(machine.put(&queue, Durability::Durable, line)));
    queue.close();
    drop(queue);
    let path = Path::new(DIR).join(names(&machine).remove(0));
    machine.fs.rename(&path, &path.with_extension("active")).unwrap();
    machine.fs.sync_dir(Path::new(DIR)).unwrap();
    machine.fs = machine.fs.kill();
    drop(machine.open(Config::default()));
    assert!(machine.fs.truncate_file(&path, 200));
    machine.fs = machine.fs.cut_power(sim::PowerCutLoss::All, 1);
    let (queue, recovery) = machine.open(Config::default());
    assert_eq!((recovery.damaged, queue.damaged_file_names().len()), (1, 1));
}

#[test]
fn damage_found_by_a_reader_is_reported_at_the_next_tick() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config::default());
    ["one", "two", "three"].into_iter().for_each(|line| drop(machine.put(&queue, Durability::Fast, line)));
    let view = queue.uncommitted_segments().remove(0);
    let path = Path::new(DIR).join(names(&machine).remove(0));
    // The declaration of the stream is known, so damage to it does no harm while the node runs.
    assert!(machine.fs.flip_bit(&path, 70 * 8));
    view.report_unreadable();
    machine.advance(&queue, Duration::from_secs(10));
    assert_eq!((queue.damaged_file_names().len(), lines(&queue).len()), (0, 3));
    let path = path.with_extension("pending");
    assert!(machine.fs.flip_bit(&path, (view.end - 2) * 8));
    view.report_unreadable();
    queue.tick();
    assert_eq!((queue.damaged_file_names().len(), lines(&queue)), (1, vec!["one".to_owned(), "two".to_owned()]));
    assert_eq!(queue.damaged_files()[0].high, Millis(1_000_000));
}

#[test]
fn a_segment_with_a_damaged_header_is_fetched_with_a_rebuilt_one() {
    for byte in [0, 17] {
        let machine = QueueTestMachine::new();
        let (queue, _) = machine.open(Config::default());
        ["one", "two"].into_iter().for_each(|line| drop(machine.put(&queue, Durability::Fast, line)));
        machine.advance(&queue, Duration::from_secs(10));
        let view = queue.uncommitted_segments().remove(0);
        assert!(view.salvaged_frames().is_none());
        assert!(machine.fs.flip_bit(Path::new(DIR).join(names(&machine).remove(0)), byte * 8));
        view.report_unreadable();
        queue.tick();
        let view = queue.uncommitted_segments().remove(0);
        assert_eq!(view.salvaged_frames().map(<[_]>::len), Some(2), "byte {byte}");
        assert_eq!((queue.damaged_file_names().len(), lines(&queue).len()), (0, 2), "byte {byte}: nothing is missing");
    }
}

#[test]
fn a_segment_truncated_while_the_node_runs_is_read_to_its_end() {
    for (keep, left) in [(0, 0), (40, 0), (200, 1)] {
        let machine = QueueTestMachine::new();
        let (queue, _) = machine.open(Config::default());
        ["one", "two", "three"].into_iter().for_each(|line| drop(machine.put(&queue, Durability::Fast, line)));
        machine.advance(&queue, Duration::from_secs(10));
        let view = queue.uncommitted_segments().remove(0);
        let path = Path::new(DIR).join(names(&machine).remove(0));
        assert!(machine.fs.truncate_file(&path, keep));
        view.report_unreadable();
        queue.tick();
        assert_eq!((queue.damaged_file_names().len(), lines(&queue).len()), (1, left), "cut to {keep}");
        let ids: Vec<Id> = queue.reserve(u64::MAX).iter().map(|view| view.id).collect();
        queue.commit(&ids);
        assert_eq!(
            (queue.uncommitted_segments().len(), states(&machine)),
            (0, vec!["damaged".to_owned()]),
            "cut to {keep}"
        );
    }
}

#[test]
fn bulk_is_not_acknowledged_from_a_damaged_segment() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config::default());
    let ack = ["one", "two", "three"].map(|line| machine.put(&queue, Durability::Bulk, line));
    queue.flush_bulk();
    let view = queue.reserve(u64::MAX).remove(0);
    let path = Path::new(DIR).join(names(&machine).remove(0));
    assert!(machine.fs.flip_bit(&path, (view.end - 2) * 8));
    view.report_unreadable();
    queue.tick();
    assert_eq!(lines(&queue).len(), 2);
    queue.commit(&[view.id]);
    ack.iter().for_each(|ack| assert!(matches!(ack.try_recv(), Ok(Err(IngestError::Io(_))))));
}

#[test]
fn active_segments_are_closed_by_age_when_the_index_memory_is_used_up() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config { index_bytes_max: 1_000, ..Config::default() });
    machine.put(&queue, Durability::Fast, "kept");
    machine.advance(&queue, Duration::from_secs(1));
    assert!(queue.index_memory.is_full() && queue.backlog().segments == 0);
    machine.advance(&queue, Duration::from_secs(4));
    let ids: Vec<Id> = queue.reserve(u64::MAX).iter().map(|view| view.id).collect();
    assert_eq!(ids.len(), 1, "a store can fetch it");
    queue.commit(&ids);
    machine.advance(&queue, Duration::from_secs(60));
    assert_eq!(queue.halt_reason(), None);
}

#[test]
fn segments_without_a_store_are_bounded_by_the_index_memory() {
    let machine = QueueTestMachine::new();
    let config = || Config { index_bytes_max: 20 * 1_500, segment_bytes_max: 600, ..Config::default() };
    let (queue, _) = machine.open(config());
    let advance = || machine.advance(&queue, Duration::from_secs(4));
    let mut put = Vec::new();
    for at in 0..200 {
        put.push(format!("line {at}"));
        machine.put(&queue, Durability::Fast, &put[at]);
        advance();
        if queue.readable_segments().len() == 12 {
            break;
        }
    }
    // Half of the memory is used: segments are closed by size only.
    assert!(
        queue.readable_segments().len() == 12 && (15..40).contains(&put.len()),
        "{} {}",
        queue.readable_segments().len(),
        put.len()
    );
    let long = "x".repeat(400);
    while !queue.index_memory.is_full() {
        machine.put(&queue, Durability::Fast, &long);
        put.push(long.clone());
        advance();
    }
    assert!((18..22).contains(&queue.readable_segments().len()), "{}", queue.readable_segments().len());
    let refused = machine.try_put(&queue, Durability::Durable, "refused").err();
    assert_eq!((refused, queue.check_accepting().err()), (Some(IngestError::QueueFull), Some(IngestError::QueueFull)));
    assert!(queue.is_due(FetchThreshold { text_bytes_min: u64::MAX, age_min: Duration::MAX }, &queue.backlog()));
    assert_eq!(lines(&queue), put);
    // The same after a restart.
    drop(queue);
    let (queue, _) = machine.open(config());
    queue.tick();
    assert!(queue.index_memory.is_full());
    let ids: Vec<Id> = queue.reserve(2_000).iter().map(|view| view.id).collect();
    queue.commit(&ids);
    machine.advance(&queue, Duration::from_secs(11));
    machine.advance(&queue, Duration::from_secs(1));
    assert!(!queue.index_memory.is_full());
    machine.put(&queue, Durability::Durable, "again");
}

#[test]
fn streams_count_towards_the_index_memory() {
    let machine = QueueTestMachine::new();
    let (queue, _) = machine.open(Config { index_bytes_max: 100_000, ..Config::default() });
    let mut streams = 0;
    while !queue.index_memory.is_full() {
        let labels = Labels::new([("pod", "p".repeat(200)), ("number", streams.to_string())]).unwrap();
        let records = FrameRecords {
            source: Source::Tcp,
            labels: &labels,
            first_id: Id::new(Millis(5), Producer::new(1), streams),
            count: 1,
            accepted: Millis(5),
            layout_bits: 0,
            row_meta: &[],
            text: &[b"x\n"],
        };
        queue.append(Durability::Fast, &records, |_| {}).unwrap();
        streams += 1;
        machine.advance(&queue, Duration::from_millis(1));
    }
    assert!((150..300).contains(&streams), "{streams}");
}
