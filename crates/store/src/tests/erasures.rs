//! Erasures: what becomes of files, of damage, of the trash, of replicas and of a restart.

use bucksaw_record::Expr;

use super::*;
use crate::erasure::{ERASURE_REPORT, ERASURES, ERASURES_MAX, Erasure, ErasureError, ErasureSpread, ErasureStatus};
use crate::repair::{IdSet, TimeRange};

fn erasure(machine: &StoreTestMachine, expr: &str) -> Erasure {
    let id = Id::new(Millis(machine.clock.unix_ms()), Producer::random(machine.store.env.entropy.next_u64()), 0);
    let to = Millis(machine.clock.unix_ms() + 1);
    Erasure::new(id, &Expr::parse(expr.as_bytes()).unwrap(), (Millis(0), to), None).unwrap()
}

impl StoreTestMachine {
    pub(super) fn erase(&self, expr: &str) -> Erasure {
        let erasure = erasure(self, expr);
        assert!(self.store.erasure_book().add(&erasure).unwrap());
        erasure
    }

    /// Sweeps after the grace period of committed queue segments.
    pub(super) fn sweep_all(&self) {
        self.advance(Duration::from_secs(60));
        while self.store.sweep_erasures(&self.queue, &|| false).unwrap() > 0 {}
    }

    pub(super) fn status_of(&self, erasure: &Erasure) -> ErasureStatus {
        self.store.status_of_erasure(erasure.id, &self.queue).unwrap()
    }
}

/// Some segments, each with a line about alice.
fn filled(fs: sim::Fs, config: Config) -> StoreTestMachine {
    let mut machine = StoreTestMachine::start(fs, config);
    for round in 0..6 {
        for at in 0..8 {
            let who = if at == 5 { "alice" } else { "bob" };
            machine.put(Durability::Fast, &format!("round {round} line {at} of {who} {}", "x".repeat(40)), 0);
        }
        machine.gather_all();
    }
    machine
}

pub(super) fn about<'m>(lines: &'m BTreeMap<Id, String>, who: &str) -> Vec<&'m str> {
    lines.values().filter(|line| line.contains(who)).map(String::as_str).collect()
}

#[test]
fn segments_are_rewritten_and_then_scanned() {
    let mut machine = filled(sim::Fs::new(), config());
    assert_eq!(about(&machine.lines(), "alice").len(), 6);
    machine.put(Durability::Fast, "alice in the queue", 0);
    let erasure = machine.erase("alice");
    assert!(!machine.status_of(&erasure).is_done);
    machine.sweep_all();
    let status = machine.status_of(&erasure);
    assert_eq!((status.segments_left, status.queue_segments_left, status.is_done), (0, 1, false), "{status:?}");
    machine.gather_all();
    machine.advance(Duration::from_secs(60));
    machine.sweep_all();
    let status = machine.status_of(&erasure);
    assert!(status.is_done && status.damaged.is_empty(), "{status:?}");
    assert_eq!((status.progress.records, status.progress.segments), (7, 6), "{status:?}");
    let lines = machine.lines();
    assert_eq!((about(&lines, "alice").len(), about(&lines, "bob").len()), (0, 6 * 7));
}

#[test]
fn metrics_say_what_is_left() {
    let machine = filled(sim::Fs::new(), config());
    let metrics = machine.store.metrics.clone();
    let numbers = || (metrics.erasures.get(), metrics.erasures_incomplete.get(), metrics.erasure_files_left.get() > 0);
    machine.erase("alice");
    machine.erase("carol");
    machine.advance(Duration::from_secs(100));
    machine.store.sweep_erasures(&machine.queue, &|| false).unwrap();
    assert_eq!((numbers(), metrics.erasures_incomplete_max_seconds.get()), ((2, 2, true), 100));
    machine.sweep_all();
    machine.advance(Duration::from_secs(5));
    machine.sweep_all();
    assert_eq!((numbers(), metrics.erasures_incomplete_max_seconds.get()), ((2, 0, false), 0));
    assert_eq!((metrics.erased_records.get(), metrics.erasure_files_unsearchable.get()), (6, 0));
    let segment = Arc::clone(&machine.store.segments()[0]);
    let block = &segment.footer().blocks[0];
    machine.fs.corrupt(segment.reader().path(), block.offset..block.offset + block.packed_bytes() + 1);
    machine.erase("bob");
    machine.advance(Duration::from_secs(5));
    while matches!(machine.store.sweep_erasures(&machine.queue, &|| false), Ok(1..) | Err(_)) {}
    machine.advance(Duration::from_secs(5));
    machine.store.sweep_erasures(&machine.queue, &|| false).unwrap();
    assert_eq!((numbers(), metrics.erasure_files_unsearchable.get()), ((3, 1, false), 1));
    assert_eq!(metrics.damaged_erasures.get(), 0);
}

#[test]
fn a_batch_of_erased_records_alone_becomes_no_segment() {
    let mut machine = StoreTestMachine::start(sim::Fs::new(), config());
    let erasure = machine.erase("alice");
    machine.put(Durability::Fast, "alice", 500);
    machine.gather_all();
    assert!(machine.store.segments().is_empty() && machine.queue.uncommitted_segments().is_empty());
    assert_eq!(machine.status_of(&erasure).progress.records, 1);
    assert!(machine.store_file_names().is_empty());
}

#[test]
fn an_erasure_survives_a_restart_and_a_damaged_copy_of_its_file() {
    let machine = filled(sim::Fs::new(), config());
    let erasure = machine.erase("alice");
    machine.sweep_all();
    let records = machine.status_of(&erasure).progress.records;
    assert_eq!(records, 6);
    let fs = machine.fs.clone();
    drop(machine);
    let path = std::path::PathBuf::from(format!("/d/store/erasures/{}.json", erasure.id));
    fs.corrupt(&path, 3..4);
    let machine = StoreTestMachine::start(fs.clone(), config());
    assert_eq!(machine.store.erasure_book().erasures(), std::slice::from_ref(&erasure));
    assert_eq!(machine.status_of(&erasure).progress.records, records, "the counts, too");
    assert!(!machine.status_of(&erasure).is_done, "files are scanned again");
    machine.sweep_all();
    assert!(machine.status_of(&erasure).is_done);
    drop(machine);
    // The sweep has restored the damaged copy.
    fs.corrupt(&path, 3..4);
    fs.corrupt(path.with_extension("backup"), 60..61);
    let machine = StoreTestMachine::start(fs.clone(), config());
    let damaged = || {
        machine.store.sweep_erasures(&machine.queue, &|| false).unwrap();
        machine.advance(Duration::from_secs(5));
        (machine.store.erasure_book().damaged_files(), machine.store.metrics.damaged_erasures.get())
    };
    assert_eq!(damaged(), (vec![format!("{}.json", erasure.id)], 1));
    assert!(machine.store.erasure_book().add(&erasure).unwrap(), "another node sends it again");
    assert_eq!(damaged(), (vec![], 0));
    drop(machine);
    fs.remove(&path.with_extension("backup")).unwrap();
    bucksaw_env::replace(&fs, &path, &[b"{\"version\":3}"]).unwrap();
    assert!(StoreTestMachine::try_start(fs, config()).is_none(), "a newer version could erase more or less");
}

#[test]
fn a_file_that_comes_back_is_filtered_and_rewritten() {
    let machine = filled(sim::Fs::new(), config());
    let path = machine.store.segments()[0].reader().path().to_owned();
    let bytes = machine.fs.live_bytes(&path).unwrap();
    let erasure = machine.erase("alice");
    machine.sweep_all();
    assert!(machine.fs.live_bytes(&path).is_none());
    let fs = machine.fs.clone();
    drop(machine);
    bucksaw_env::replace(&fs, &path, &[&bytes]).unwrap();
    let machine = StoreTestMachine::start(fs, config());
    machine.sweep_all();
    assert!(about(&machine.lines(), "alice").is_empty() && machine.status_of(&erasure).is_done);
}

#[test]
fn repair_neither_offers_nor_sends_erased_records() {
    let machine = filled(sim::Fs::new(), config());
    let all: Vec<Id> = machine.sent.keys().copied().collect();
    let mut asked = IdSet::default();
    all.iter().for_each(|id| asked.add(*id, 1));
    let held = |machine: &StoreTestMachine| machine.store.held_ids(TimeRange::ALL, &asked).len();
    let sent = |machine: &StoreTestMachine| {
        let extract = machine.store.extract(TimeRange::ALL, &Arc::new(asked.clone())).unwrap();
        extract.map_or(0, |extract| extract.stored.reach().records)
    };
    assert_eq!((held(&machine), sent(&machine)), (48, 48));
    machine.erase("alice");
    assert_eq!((held(&machine), sent(&machine)), (42, 42), "before the rewrite");
    machine.sweep_all();
    assert_eq!((held(&machine), sent(&machine)), (42, 42), "after the rewrite");
    machine.erase("round");
    assert_eq!((held(&machine), sent(&machine)), (0, 0));
}

#[test]
fn files_of_the_trash_with_matches_are_removed_and_others_stay() {
    let config = Config { retention_age: Some(Duration::from_secs(3_600)), ..config() };
    let mut machine = StoreTestMachine::start(sim::Fs::new(), config);
    machine.store.retain(&machine.queue);
    for who in ["alice", "bob"] {
        machine.put(Durability::Fast, who, 0);
        machine.gather_all();
        machine.advance(Duration::from_secs(60));
    }
    for _ in 0..14 {
        machine.advance(Duration::from_secs(300));
        machine.store.retain(&machine.queue);
    }
    assert_eq!(machine.store.trashed().len(), 2);
    let erasure = machine.erase("alice");
    machine.sweep_all();
    assert_eq!(machine.store.trashed().len(), 1);
    let status = machine.status_of(&erasure);
    assert!(status.is_done && status.progress.trash_files == 1, "{status:?}");
}

#[test]
fn damage_is_reported_and_its_file_stays_filtered() {
    let machine = filled(sim::Fs::new(), config());
    let segment = Arc::clone(&machine.store.segments()[0]);
    let block = &segment.footer().blocks[0];
    machine.fs.corrupt(segment.reader().path(), block.offset..block.offset + block.packed_bytes() + 1);
    let erasure = machine.erase("alice");
    while matches!(machine.store.sweep_erasures(&machine.queue, &|| false), Ok(1..) | Err(_)) {}
    let status = machine.status_of(&erasure);
    assert!(!status.is_done && status.damaged.contains(&segment.file_name()), "{status:?}");
    assert_eq!(status.segments_left, 0, "nothing else is left: {status:?}");
}

#[test]
fn erasures_are_bounded_and_removed_after_the_longest_retention() {
    let machine = StoreTestMachine::start(sim::Fs::new(), config());
    machine.store.retain(&machine.queue);
    let book = machine.store.erasure_book();
    let first = machine.erase("alice");
    assert!(!book.add(&first).unwrap(), "known");
    let invalid = Erasure { expr: String::new(), ..erasure(&machine, "x") };
    assert!(matches!(book.add(&invalid), Err(ErasureError::Invalid(_))));
    (1..ERASURES_MAX).for_each(|_| drop(machine.erase("bob")));
    assert!(matches!(book.add(&erasure(&machine, "carol")), Err(ErasureError::TooMany)));
    // The retention, the time in the trash, and a day.
    let hours = 7 * 24 + 1 + 24;
    for _ in 0..hours * 12 + 1 {
        machine.advance(Duration::from_secs(300));
        machine.store.retain(&machine.queue);
    }
    machine.sweep_all();
    assert!(book.erasures().is_empty());
    assert!(!book.add(&first).unwrap(), "another node sends it again");
    assert!(machine.fs.list(Path::new("/d/store/erasures")).unwrap().is_empty());
}

#[test]
fn a_failed_write_is_no_acknowledgement() {
    let machine = filled(sim::Fs::new(), config());
    let erasure = erasure(&machine, "alice");
    machine.fs.fail_next_syncs(1);
    assert!(matches!(machine.store.erasure_book().add(&erasure), Err(ErasureError::Io(_))));
    assert!(machine.store.erasure_book().erasures().is_empty());
    assert!(machine.store.erasure_book().add(&erasure).unwrap());
}

/// The spread of a machine whose only other member is another one; `None` for one that cannot be reached.
fn spread(machine: &StoreTestMachine, other: Option<&StoreTestMachine>) -> ErasureSpread {
    let of = |machine: &StoreTestMachine, context| ErasureSpread::new(context, Arc::clone(&machine.queue));
    let other = other.map(|other| of(other, other.context.clone()));
    let net = CallNetwork::new(move |_, name, body| {
        let other = other.clone();
        Box::pin(async move {
            let other = other.ok_or(std::io::ErrorKind::ConnectionRefused)?;
            match name.as_str() {
                ERASURES => other.answer_exchange(body).await,
                ERASURE_REPORT => other.answer_report(body).await,
                _ => Err(std::io::ErrorKind::Unsupported.into()),
            }
        })
    });
    of(machine, StoreContext { peers: Arc::new(OtherNode), net: Arc::new(net), ..machine.context.clone() })
}

#[test]
fn an_exchange_gives_all_erasures_to_both() {
    let machines = [0, 1].map(|_| StoreTestMachine::start(sim::Fs::new(), config()));
    let [one, other] = &machines;
    // Both draw the same random ids at one time.
    other.clock.advance(Duration::from_millis(1));
    for (machine, count) in [(one, 150), (other, 70)] {
        (0..count).for_each(|_| drop(machine.erase("alice")));
    }
    let own = spread(one, Some(other));
    one.tasks.run(own.run_step());
    let all = one.store.erasure_book().erasures();
    assert_eq!((all.len(), other.store.erasure_book().erasures()), (220, all));
    let reported = one.tasks.run(own.report(None));
    assert!(reported.iter().all(|report| report.erasures.as_ref().is_ok_and(|erasures| erasures.len() == 220)));
}

#[test]
fn a_request_waits_for_a_member_that_cannot_be_reached() {
    let machine = StoreTestMachine::start(sim::Fs::new(), config());
    let before = machine.clock.uptime();
    let outcomes = machine.tasks.run(spread(&machine, None).request(erasure(&machine, "alice"))).unwrap();
    assert!(
        machine.clock.uptime() - before >= Duration::from_secs(8),
        "its exchanges with this node are not used by then"
    );
    assert_eq!(outcomes.len(), 2);
    assert!(outcomes[0].failure.is_none() && outcomes[1].failure.is_some(), "{outcomes:?}");
    let unreachable = spread(&machine, None);
    assert!(machine.tasks.run(unreachable.refresh_with(Id::from_bits(2))).is_err(), "its records are not shown");
}
