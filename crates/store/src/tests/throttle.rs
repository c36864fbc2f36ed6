//! When gathering and merging are throttled, and when not.

use super::*;

#[test]
fn gathering_and_merging_are_throttled_by_queries() {
    let mut machine = StoreTestMachine::start(sim::Fs::new(), config());
    let throttled = |machine: &StoreTestMachine| machine.store.metrics.throttled_seconds.get();
    let fill = |machine: &mut StoreTestMachine| {
        for number in 0..8 {
            (0..20).for_each(|line| machine.put(Durability::Fast, &format!("{number} {line} is a line"), 0));
            machine.advance(Duration::from_secs(5));
            machine.gather_all();
        }
    };
    // Time passes whenever a merge polls whether it is stopped.
    let compact = |machine: &StoreTestMachine| {
        let pass = || {
            machine.clock.advance(Duration::from_millis(5));
            false
        };
        while machine.store.compact(&pass).unwrap() > 0 {}
    };
    fill(&mut machine);
    compact(&machine);
    assert_eq!(throttled(&machine), 0.0, "no query runs");
    fill(&mut machine);
    let busy = machine.store.foreground().enter();
    compact(&machine);
    let merging = throttled(&machine);
    assert!(merging > 0.0);
    drop(busy);

    machine.store.stop_throttling();
    fill(&mut machine);
    let _busy = machine.store.foreground().enter();
    compact(&machine);
    assert_eq!(throttled(&machine), merging, "the node is stopping");
}

#[test]
fn queued_and_mergeable_bytes_make_the_backlog() {
    let mut machine = StoreTestMachine::start(sim::Fs::new(), Config { backlog_bytes_max: 100, ..config() });
    let backlog = |machine: &StoreTestMachine| machine.store.metrics.backlog_bytes.get();
    assert!(!machine.store.is_backlogged());
    (0..20).for_each(|line| machine.put(Durability::Fast, &format!("{line} is a line"), 0));
    machine.advance(Duration::from_secs(5));
    assert!(machine.tasks.poll_once(machine.puller.wait()).is_none(), "nothing is due, but the queue is counted");
    let text_bytes: usize = (0..20).map(|line| format!("{line} is a line\n").len()).sum();
    assert_eq!(backlog(&machine), text_bytes as i64);
    assert!(machine.store.is_backlogged());
    machine.gather_all();
    assert_eq!(backlog(&machine), 0, "it is stored");
    assert!(!machine.store.is_backlogged());
    for _ in 0..5 {
        (0..3).for_each(|line| machine.put(Durability::Fast, &format!("{line} is a line"), 0));
        machine.advance(Duration::from_secs(5));
        machine.gather_all();
    }
    let before = machine.store.metrics.compactions.get();
    assert!(machine.store.compact(&|| false).unwrap() > 0);
    assert_eq!(machine.store.metrics.compactions.get(), before + 1);
    assert_eq!(backlog(&machine), 0, "nothing else is due");
}

/// A machine with five neighbours that are due to be merged, and the bytes of their text.
fn with_mergeable() -> (StoreTestMachine, i64) {
    let age = Config { retention_age: Some(Duration::from_secs(100)), ..config() };
    let mut machine = StoreTestMachine::start(sim::Fs::new(), age);
    let line = "x".repeat(59);
    for _ in 0..5 {
        (0..5).for_each(|_| machine.put(Durability::Fast, &line, 0));
        machine.gather_all();
    }
    (machine, 5 * 5 * 60)
}

#[test]
fn a_merge_lowers_the_backlog_and_one_that_stops_restores_it() {
    let (machine, mergeable) = with_mergeable();
    let backlog = || machine.store.metrics.backlog_bytes.get();
    let seen = std::cell::RefCell::new(Vec::new());
    let stopped = machine.store.compact(&|| {
        seen.borrow_mut().push(backlog());
        backlog() < mergeable
    });
    assert!(matches!(stopped, Err(StoreError::Stopped)), "{stopped:?}");
    assert_eq!(backlog(), mergeable, "all of it is due again");
    seen.borrow_mut().clear();
    let merged = machine.store.compact(&|| {
        seen.borrow_mut().push(backlog());
        false
    });
    assert_eq!(merged.unwrap(), mergeable as u64);
    let seen = seen.into_inner();
    assert!(seen[0] == mergeable && seen.is_sorted_by(|before, after| before >= after), "{seen:?}");
    assert!(seen.last().is_some_and(|last| *last < mergeable / 2), "{seen:?}");
    assert_eq!(backlog(), 0, "without a further plan");
}

#[test]
fn expired_segments_leave_the_backlog() {
    let (machine, mergeable) = with_mergeable();
    machine.store.plan_merge();
    assert_eq!(machine.store.metrics.backlog_bytes.get(), mergeable);
    machine.advance(Duration::from_secs(200));
    machine.store.retain(&machine.queue);
    assert!(machine.store.segments().is_empty());
    assert_eq!(machine.store.metrics.backlog_bytes.get(), 0);
}

/// Another store.
#[derive(Debug)]
struct OtherStore;

impl Peers for OtherStore {
    fn stores(&self) -> Vec<Peer> {
        OtherNode.queues()
    }
}

#[test]
fn what_other_stores_take_leaves_the_backlog_while_stores_are_missing() {
    let two = Config { replication_factor: 2, ..config() };
    let mut machine = StoreTestMachine::start(sim::Fs::new(), two);
    machine.put(Durability::Fast, "a line", 0);
    machine.advance(Duration::from_secs(5));
    let complete = StoreContext { peers: Arc::new(OtherStore), ..machine.context.clone() };
    let puller = Puller::new(complete, Some(Arc::clone(&machine.queue)));
    assert!(machine.tasks.poll_once(puller.wait()).is_none());
    assert_eq!(machine.store.metrics.backlog_bytes.get(), 7);
    let taken: Vec<Id> = machine.queue.uncommitted_segments().iter().map(|segment| segment.id).collect();
    machine.queue.commit(&taken);
    machine.tasks.poll_once(machine.puller.wait());
    assert_eq!(machine.store.metrics.missing_stores.get(), 1);
    assert_eq!(machine.store.metrics.backlog_bytes.get(), 0);
}
