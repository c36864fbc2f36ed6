use super::*;
use crate::repair::watch::tests::fellow;

const COPIES: usize = 2;

/// Runs a pass from beginning to end if one is due now. `missing` is the number of records with too few copies after it.
/// Returns whether a pass ran.
fn walk(state: &mut State, fellows: &[Fellow], seconds: u64, missing: u64) -> bool {
    let now = Duration::from_secs(seconds);
    let task = state.next(fellows.to_vec(), now, Millis(5));
    task.is_some() && state.done(false, Done { missing, ..Done::default() }, now, 0)
}

fn told(state: &mut State) -> (u64, u64) {
    let told = state.asked(Question::default());
    (told.begun, told.clean)
}

#[test]
fn a_pass_begins_for_who_asks_and_is_clean_only_when_nothing_has_too_few_copies() {
    let mut state = State::new(Config::default(), COPIES, Duration::ZERO, 7);
    let fellows = [fellow(1, true)];
    assert!(!walk(&mut state, &fellows, 1, 0));
    let boot = state.asked(Question::default()).boot;
    let ask = |state: &mut State, boot, begin| _ = state.asked(Question { boot, begin, ..Question::default() });
    ask(&mut state, boot ^ 2, 1);
    assert!(!walk(&mut state, &fellows, 2, 0), "it was asked of an earlier start");
    ask(&mut state, boot, 2);
    assert!(!walk(&mut state, &fellows, 3, 0), "it is not the next");
    ask(&mut state, boot, 1);
    assert!(walk(&mut state, &fellows, 4, 3));
    assert_eq!(told(&mut state), (1, 0), "some have too few copies");
    ask(&mut state, boot, 2);
    assert!(walk(&mut state, &fellows, 5, 0));
    assert_eq!(told(&mut state), (2, 2));
}

#[test]
fn no_pass_is_clean_while_as_many_stores_are_lost_as_there_are_copies() {
    let mut state = State::new(Config::default(), COPIES, Duration::ZERO, 7);
    let lost_after = Config::default().lost_after.as_secs();
    let fellows = |live: u64| [1, 2, 3].map(|number| fellow(number, number <= live));
    let _ = state.next(fellows(3).to_vec(), Duration::from_secs(1), Millis(5));
    let _ = state.next(fellows(1).to_vec(), Duration::from_secs(2), Millis(5));
    assert!(walk(&mut state, &fellows(1), 3 + lost_after, 0), "their loss begins a pass");
    assert_eq!(told(&mut state), (1, 0));
}

fn state() -> State {
    State::new(Config::default(), 2, Duration::ZERO, 8)
}

/// Walks over the newest part of what is next, and says of which time that was and whether checksums were asked for.
fn step(state: &mut State, at: u64, newest: u64) -> (Window, bool) {
    let now = Duration::from_secs(at);
    let task = state.next(Vec::new(), now, Millis(at)).unwrap();
    let rest = Window { from: task.leg.window.from, to: Millis(newest) };
    let rest = (newest > 0).then(|| Leg { window: rest, ..task.leg.clone() });
    state.done(task.is_hint(), Done { rest, ..Done::default() }, now, 0);
    (task.leg.window, task.verify)
}

#[test]
fn a_check_of_checksums_goes_on_after_a_pass_that_takes_its_place() {
    let mut state = state();
    let day = Config::default().period.as_secs();
    assert_eq!(step(&mut state, day, 0), (Window::ALL, false));
    assert_eq!(step(&mut state, day, 500), (Window::ALL, true), "the first one comes within a period");
    // Another store asks for a pass that begins now.
    state.asked(Question { boot: state.boot, begin: 3, ..Question::default() });
    let (older, newer) = (Window { to: Millis(500), ..Window::ALL }, Window { from: Millis(500), ..Window::ALL });
    assert_eq!(step(&mut state, day, 0), (older, false));
    assert_eq!(state.clean, 1, "that which was under way is not the one that was asked for");
    assert_eq!(step(&mut state, day, 0), (newer, false));
    assert_eq!(state.clean, 3);
    assert_eq!(step(&mut state, day, 0), (older, true));
    assert_eq!(step(&mut state, day, 0), (newer, false), "that was checked before");
    assert!(state.next(Vec::new(), Duration::from_secs(day), Millis(day)).is_none());
    assert_eq!(step(&mut state, 2 * day, 0), (Window::ALL, true), "all of it again a period later");
}
