//! That the work of the store steps aside, and when it does not.

use super::*;

#[test]
fn gathering_and_merging_are_throttled_by_queries() {
    let mut machine = StoreTestMachine::start(sim::Fs::new(), config());
    let aside = |machine: &StoreTestMachine| machine.store.metrics.throttled_seconds.get();
    let fill = |machine: &mut StoreTestMachine| {
        for number in 0..8 {
            (0..20).for_each(|line| machine.put(Durability::Fast, &format!("{number} {line} is a line"), 0));
            machine.advance(Duration::from_secs(5));
            machine.gather_all();
        }
    };
    // Time passes whenever a merge asks whether it is still wanted.
    let compact = |machine: &StoreTestMachine| {
        let pass = || {
            machine.clock.advance(Duration::from_millis(5));
            false
        };
        while machine.store.compact(&pass).unwrap() > 0 {}
    };
    fill(&mut machine);
    compact(&machine);
    assert_eq!(aside(&machine), 0.0, "nobody asks for anything");
    fill(&mut machine);
    let busy = machine.store.foreground().enter();
    compact(&machine);
    let merging = aside(&machine);
    assert!(merging > 0.0);
    drop(busy);

    machine.store.stop_throttling();
    fill(&mut machine);
    let _busy = machine.store.foreground().enter();
    compact(&machine);
    assert_eq!(aside(&machine), merging, "the node is stopping");
}

#[test]
fn queued_and_mergeable_bytes_make_the_backlog() {
    let mut machine = StoreTestMachine::start(sim::Fs::new(), Config { backlog_bytes_max: 100, ..config() });
    let debt = |machine: &StoreTestMachine| machine.store.metrics.backlog_bytes.get();
    assert!(!machine.store.is_backlogged());
    (0..20).for_each(|line| machine.put(Durability::Fast, &format!("{line} is a line"), 0));
    machine.advance(Duration::from_secs(5));
    assert!(machine.tasks.poll_once(machine.puller.wait()).is_none(), "nothing is due, but the queue is counted");
    let text_bytes: usize = (0..20).map(|line| format!("{line} is a line\n").len()).sum();
    assert_eq!(debt(&machine), text_bytes as i64);
    assert!(machine.store.is_backlogged());
    machine.gather_all();
    assert_eq!(debt(&machine), 0, "it is on the store");
    assert!(!machine.store.is_backlogged());
    for _ in 0..5 {
        (0..3).for_each(|line| machine.put(Durability::Fast, &format!("{line} is a line"), 0));
        machine.advance(Duration::from_secs(5));
        machine.gather_all();
    }
    let before = machine.store.metrics.compactions.get();
    assert!(machine.store.compact(&|| false).unwrap() > 0);
    assert_eq!(machine.store.metrics.compactions.get(), before + 1);
    assert!(debt(&machine) > 0, "it was due when the merge was planned");
    while machine.store.compact(&|| false).unwrap() > 0 {}
    assert_eq!(debt(&machine), 0);
}
