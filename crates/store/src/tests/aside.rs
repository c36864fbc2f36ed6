//! That the work of the shelf steps aside, and when it does not.

use super::*;

#[test]
fn gathering_and_merging_let_queries_go_first() {
    let mut machine = Machine::start(sim::Fs::new(), config());
    let aside = |machine: &Machine| machine.shelf.metrics.aside_seconds.get();
    let fill = |machine: &mut Machine| {
        for number in 0..8 {
            (0..20).for_each(|line| machine.put(Durability::Fast, &format!("{number} {line} is a line"), 0));
            machine.pass(Duration::from_secs(5));
            machine.gather_all();
        }
    };
    // Time passes whenever a merge asks whether it is still wanted.
    let compact = |machine: &Machine| {
        let pass = || {
            machine.clock.advance(Duration::from_millis(5));
            false
        };
        while machine.shelf.compact(&pass).unwrap() > 0 {}
    };
    fill(&mut machine);
    compact(&machine);
    assert_eq!(aside(&machine), 0.0, "nobody asks for anything");
    fill(&mut machine);
    let busy = machine.shelf.foreground().enter();
    compact(&machine);
    let merging = aside(&machine);
    assert!(merging > 0.0);
    drop(busy);

    machine.shelf.hurry();
    fill(&mut machine);
    let _busy = machine.shelf.foreground().enter();
    compact(&machine);
    assert_eq!(aside(&machine), merging, "the node stops");
}

#[test]
fn what_waits_and_what_is_due_is_debt() {
    let mut machine = Machine::start(sim::Fs::new(), Config { debt_bytes_max: 100, ..config() });
    let debt = |machine: &Machine| machine.shelf.metrics.debt_bytes.get();
    assert!(!machine.shelf.is_gathering_due(&machine.queue, true) && !machine.shelf.is_pressed());
    (0..20).for_each(|line| machine.put(Durability::Fast, &format!("{line} is a line"), 0));
    machine.pass(Duration::from_secs(5));
    assert!(machine.shelf.is_gathering_due(&machine.queue, true));
    let text_bytes: usize = (0..20).map(|line| format!("{line} is a line\n").len()).sum();
    assert_eq!(debt(&machine), text_bytes as i64);
    assert!(machine.shelf.is_pressed());
    machine.gather_all();
    assert_eq!(debt(&machine), 0, "it is on the shelf");
    assert!(!machine.shelf.is_pressed());
    for _ in 0..5 {
        (0..3).for_each(|line| machine.put(Durability::Fast, &format!("{line} is a line"), 0));
        machine.pass(Duration::from_secs(5));
        machine.gather_all();
    }
    let before = machine.shelf.metrics.compactions.get();
    assert!(machine.shelf.compact(&|| false).unwrap() > 0);
    assert_eq!(machine.shelf.metrics.compactions.get(), before + 1);
    assert!(debt(&machine) > 0, "it was due when the merge was planned");
    while machine.shelf.compact(&|| false).unwrap() > 0 {}
    assert_eq!(debt(&machine), 0);
}
