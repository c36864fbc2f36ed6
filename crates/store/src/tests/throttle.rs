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
    assert!(backlog(&machine) > 0, "the inputs were due when the merge was planned");
    while machine.store.compact(&|| false).unwrap() > 0 {}
    assert_eq!(backlog(&machine), 0);
}
