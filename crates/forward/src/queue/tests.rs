mod queue_machine;
mod random;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{Env, LogLimits, sim};
use bucksaw_ingest::{Durability, FrameRecords, IngestError, Metrics, Queue, Source};
use bucksaw_record::{Flags, Id, Labels, Millis, Producer};
use bucksaw_segment::RowMeta;
use bucksaw_wire::{ClientMessage, DecodeProgress};
use prometheus_client::registry::Registry;

use super::shipper::QueueShipper;
use super::{RECENT_BYTES, SEGMENT_AGE, queue_config};
use crate::WhenFull;
use crate::send_window::SendWindow;

const NOW: Duration = Duration::ZERO;

/// The first sequence number, the flags and the text of a batch.
type BatchContents = (u64, Vec<(u32, u8)>, String);

/// A queue, and a shipper whose window has no session.
struct ShippedQueue {
    env: Env,
    clock: Arc<sim::Clock>,
    queue: Arc<Queue>,
    window: Arc<SendWindow>,
    shipper: QueueShipper,
}

impl ShippedQueue {
    fn open(fs: &sim::Fs, bytes_max: u64, when_full: WhenFull, window_bytes: usize) -> Self {
        let clock = Arc::new(sim::Clock::at_unix_ms(1_000_000));
        let env =
            Env { fs: Arc::new(fs.clone()), clock: clock.clone(), entropy: Arc::new(sim::Entropy::seeded(bytes_max)) };
        let metrics = Metrics::new(&mut Registry::default());
        let queue = Queue::open(env.clone(), Path::new("/state/queue"), queue_config(bytes_max), metrics).unwrap().0;
        let (queue, window) = (Arc::new(queue), Arc::new(SendWindow::new(window_bytes)));
        let labels = Labels::parse("host.name=h,site=s").unwrap();
        let log_limits = LogLimits::new(clock.clone());
        let shipper =
            QueueShipper::new(Arc::clone(&queue), (bytes_max, when_full), Arc::clone(&window), labels, log_limits);
        Self { env, clock, queue, window, shipper }
    }

    /// Appends two lines, the second of which was cut.
    fn append(&self, producer: u64, text: &str) -> Result<(), IngestError> {
        let first_id = Id::new(Millis(self.env.clock.unix_ms()), Producer::new(producer), 3);
        let mut flags = Flags::empty();
        flags.push(1, Flags::CUT);
        let mut row_meta = Vec::new();
        let layout_bits = RowMeta { flags, ..RowMeta::default() }.encode(first_id.time(), &mut row_meta);
        let labels = Labels::parse("app=web,host.name=sender").unwrap();
        let records = FrameRecords {
            source: Source::Syslog,
            labels: &labels,
            first_id,
            count: 2,
            accepted: first_id.time(),
            layout_bits,
            row_meta: &row_meta,
            text: &[text.as_bytes()],
        };
        self.queue.append(Durability::Fast, &records, |_| {})
    }

    /// Closes segments by age, and ships.
    fn step(&mut self) {
        self.clock.advance(SEGMENT_AGE + Duration::from_millis(100));
        self.queue.tick();
        self.shipper.step(NOW);
    }

    /// The first sequence number, flags and text of each batch in the window.
    fn batches(&self) -> Vec<BatchContents> {
        let first = self.window.first_batch();
        let batches = (first..).map_while(|number| self.window.batch(number));
        let read = batches.map(|batch| {
            assert_eq!(*batch.labels, Labels::parse("app=web,host.name=sender,site=s").unwrap());
            let Ok(DecodeProgress::Complete(ClientMessage::Batch(frame), _)) =
                ClientMessage::decode(&batch.frame, u32::MAX)
            else {
                panic!("no batch")
            };
            let rows = frame.rows().unwrap();
            assert_eq!((rows.count, frame.header.first_id.sequence()), (2, 3));
            let text = String::from_utf8(frame.text().to_vec()).unwrap();
            (frame.header.first_id.producer().bits(), rows.flags.iter().collect(), text)
        });
        read.collect()
    }
}

fn batch(producer: u64, text: &str) -> (u64, Vec<(u32, u8)>, String) {
    (producer, vec![(1, Flags::CUT)], text.to_owned())
}

#[test]
fn frames_become_batches_with_their_ids_and_a_killed_agent_sends_them_again() {
    let fs = sim::Fs::new();
    let mut shipped = ShippedQueue::open(&fs, 1 << 20, WhenFull::Block, 1 << 20);
    shipped.append(1, "a\nb\n").unwrap();
    shipped.shipper.step(NOW);
    let all = [batch(1, "a\nb\n"), batch(2, "c\nd\n"), batch(3, "e\nf\n")];
    assert_eq!(shipped.batches(), all[..1], "at once, although the segment is open");
    assert_eq!(shipped.shipper.waiting_segments(), 1);
    shipped.window.acked(1, NOW);
    shipped.shipper.step(NOW);
    assert_eq!((shipped.shipper.waiting_segments(), shipped.shipper.is_drained()), (0, false));
    shipped.append(2, "c\nd\n").unwrap();
    shipped.append(3, "e\nf\n").unwrap();
    shipped.step();
    assert_eq!(shipped.batches(), all[1..]);
    shipped.window.acked(2, NOW);
    shipped.step();
    assert_eq!((shipped.shipper.waiting_segments(), shipped.shipper.is_drained()), (1, false));
    drop(shipped);
    let mut shipped = ShippedQueue::open(&fs, 1 << 20, WhenFull::Block, 1 << 20);
    shipped.step();
    assert_eq!(shipped.batches(), all, "the whole segment, with the same ids");
    shipped.window.acked(3, NOW);
    shipped.step();
    assert!(shipped.shipper.is_drained() && fs_files(&fs).is_empty(), "{:?}", fs_files(&fs));
}

#[test]
fn what_was_just_appended_is_shipped_without_a_read_and_what_was_appended_before_is_read() {
    let fs = sim::Fs::new();
    let mut shipped = ShippedQueue::open(&fs, 8 << 20, WhenFull::Block, 1);
    fs.fail_reads_of("/state/queue", true);
    shipped.append(1, "a\nb\n").unwrap();
    shipped.shipper.step(NOW);
    assert_eq!(shipped.batches(), [batch(1, "a\nb\n")]);
    // The window is full, and memory is too small for all that waits.
    let text = format!("a\n{}\n", "x".repeat(RECENT_BYTES / 5));
    for producer in 2..10 {
        shipped.append(producer, &text).unwrap();
    }
    shipped.window.acked(1, NOW);
    shipped.shipper.step(NOW);
    assert_eq!(shipped.batches(), []);
    fs.fail_reads_of("/state/queue", false);
    let (mut now, mut sent) = (NOW, Vec::new());
    while sent.len() < 8 {
        now += Duration::from_secs(2);
        shipped.shipper.step(now);
        let batches = shipped.batches();
        assert_eq!(batches.len(), 1, "after {sent:?}");
        sent.extend(batches.into_iter().map(|(producer, ..)| producer));
        shipped.window.acked(u64::MAX, now);
    }
    assert_eq!(sent, (2..10).collect::<Vec<u64>>());
}

/// The segments in the directory of the queue.
fn fs_files(fs: &sim::Fs) -> Vec<String> {
    use bucksaw_env::Fs as _;
    let names = fs.list(Path::new("/state/queue")).unwrap();
    names.into_iter().filter(|name| name.ends_with(".pending") || name.ends_with(".active")).collect()
}

#[test]
fn a_full_window_leaves_segments_in_the_queue_and_closes_them_by_size_only() {
    let fs = sim::Fs::new();
    let mut shipped = ShippedQueue::open(&fs, 1 << 30, WhenFull::Block, 1);
    for producer in 0..30 {
        shipped.append(producer, "a\nb\n").unwrap();
        shipped.step();
    }
    assert_eq!((shipped.batches().len(), shipped.shipper.waiting_segments()), (1, 9));
    let mut sent = 0;
    while !shipped.shipper.is_drained() {
        sent += shipped.batches().len();
        shipped.window.acked(u64::MAX, NOW);
        shipped.step();
    }
    assert_eq!(sent, 30);
}

#[test]
fn a_full_queue_refuses_records_until_it_has_room() {
    let fs = sim::Fs::new();
    let mut shipped = ShippedQueue::open(&fs, 1 << 20, WhenFull::Block, 1);
    let text = format!("a\n{}\n", "x".repeat(100_000));
    let mut accepted = 0;
    while shipped.append(accepted, &text).is_ok() {
        accepted += 1;
        shipped.step();
        assert!(accepted < 20, "never full");
    }
    assert_eq!(shipped.append(99, &text), Err(IngestError::QueueFull));
    shipped.window.acked(u64::MAX, NOW);
    for _ in 0..4 {
        shipped.step();
        shipped.window.acked(u64::MAX, NOW);
    }
    shipped.step();
    shipped.append(100, &text).unwrap();
    assert_eq!(shipped.shipper.dropped_records(), 0);
}

#[test]
fn a_full_queue_drops_its_oldest_records_if_wanted() {
    let fs = sim::Fs::new();
    let mut shipped = ShippedQueue::open(&fs, 1 << 20, WhenFull::DropOldest, 1);
    let text = format!("a\n{}\n", "x".repeat(100_000));
    for producer in 0..40 {
        shipped.append(producer, &text).unwrap();
        shipped.step();
    }
    let dropped = shipped.shipper.dropped_records();
    assert!((2 * 28..2 * 32).contains(&dropped), "{dropped}");
    let mut sent = Vec::new();
    while !shipped.shipper.is_drained() {
        sent.extend(shipped.batches().iter().map(|(producer, ..)| *producer));
        shipped.window.acked(u64::MAX, NOW);
        shipped.step();
    }
    // The newest, each once.
    assert_eq!(sent, (dropped / 2..40).collect::<Vec<u64>>());
}
