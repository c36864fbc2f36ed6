use super::*;
use crate::repair::store_monitor::tests::peer_store;

const COPIES: usize = 2;

/// Runs a pass from beginning to end if one is due now. `missing` is the number of records with too few copies after it.
/// Returns whether a pass ran.
fn run_pass(state: &mut RepairState, peer_stores: &[PeerStore], seconds: u64, missing: u64) -> bool {
    let now = Duration::from_secs(seconds);
    let task = state.next_task(peer_stores.to_vec(), now, Millis(5));
    task.is_some()
        && state.complete_task(
            false,
            RangeOutcome { under_replicated_records: missing, ..RangeOutcome::default() },
            now,
            0,
        )
}

fn pass_counts(state: &mut RepairState) -> (u64, u64) {
    let status = state.answer_pass_status(PassStatusRequest::default());
    (status.passes_begun, status.last_clean_pass)
}

#[test]
fn a_requested_pass_is_clean_only_without_under_replicated_records() {
    let mut state = RepairState::new(Config::default(), COPIES, Duration::ZERO, 7);
    let peer_stores = [peer_store(1, true)];
    assert!(!run_pass(&mut state, &peer_stores, 1, 0));
    let boot = state.answer_pass_status(PassStatusRequest::default()).boot;
    let ask = |state: &mut RepairState, boot, pass| {
        _ = state.answer_pass_status(PassStatusRequest { boot, pass, ..PassStatusRequest::default() });
    };
    ask(&mut state, boot ^ 2, 1);
    assert!(!run_pass(&mut state, &peer_stores, 2, 0), "it was asked of an earlier start");
    ask(&mut state, boot, 2);
    assert!(!run_pass(&mut state, &peer_stores, 3, 0), "it is not the next");
    ask(&mut state, boot, 1);
    assert!(run_pass(&mut state, &peer_stores, 4, 3));
    assert_eq!(pass_counts(&mut state), (1, 0), "some have too few copies");
    ask(&mut state, boot, 2);
    assert!(run_pass(&mut state, &peer_stores, 5, 0));
    assert_eq!(pass_counts(&mut state), (2, 2));
}

#[test]
fn no_pass_is_clean_while_as_many_stores_are_lost_as_there_are_copies() {
    let mut state = RepairState::new(Config::default(), COPIES, Duration::ZERO, 7);
    let lost_after = Config::default().lost_after.as_secs();
    let peer_stores = |live: u64| [1, 2, 3].map(|number| peer_store(number, number <= live));
    let _ = state.next_task(peer_stores(3).to_vec(), Duration::from_secs(1), Millis(5));
    let _ = state.next_task(peer_stores(1).to_vec(), Duration::from_secs(2), Millis(5));
    assert!(run_pass(&mut state, &peer_stores(1), 3 + lost_after, 0), "their loss begins a pass");
    assert_eq!(pass_counts(&mut state), (1, 0));
}

fn state() -> RepairState {
    RepairState::new(Config::default(), 2, Duration::ZERO, 8)
}

/// Completes the newest range of the next task; returns it and whether it was verified.
fn run_task(state: &mut RepairState, at: u64, newest: u64) -> (TimeRange, bool) {
    let now = Duration::from_secs(at);
    let task = state.next_task(Vec::new(), now, Millis(at)).unwrap();
    let rest = TimeRange { from: task.pending.range.from, to: Millis(newest) };
    let rest = (newest > 0).then(|| PendingRange { range: rest, ..task.pending.clone() });
    state.complete_task(task.is_hint, RangeOutcome { remaining: rest, ..RangeOutcome::default() }, now, 0);
    (task.pending.range, task.verify)
}

#[test]
fn a_check_of_checksums_goes_on_after_a_pass_that_takes_its_place() {
    let mut state = state();
    let day = Config::default().pass_interval.as_secs();
    assert_eq!(run_task(&mut state, day, 0), (TimeRange::ALL, false));
    assert_eq!(run_task(&mut state, day, 500), (TimeRange::ALL, true), "the first one comes within a period");
    // Another store asks for a pass that begins now.
    state.answer_pass_status(PassStatusRequest { boot: state.boot, pass: 3, ..PassStatusRequest::default() });
    let (older, newer) =
        (TimeRange { to: Millis(500), ..TimeRange::ALL }, TimeRange { from: Millis(500), ..TimeRange::ALL });
    assert_eq!(run_task(&mut state, day, 0), (older, false));
    assert_eq!(state.last_clean_pass, 1, "that which was under way is not the one that was asked for");
    assert_eq!(run_task(&mut state, day, 0), (newer, false));
    assert_eq!(state.last_clean_pass, 3);
    assert_eq!(run_task(&mut state, day, 0), (older, true));
    assert_eq!(run_task(&mut state, day, 0), (newer, false), "that was checked before");
    assert!(state.next_task(Vec::new(), Duration::from_secs(day), Millis(day)).is_none());
    assert_eq!(run_task(&mut state, 2 * day, 0), (TimeRange::ALL, true), "all of it again a period later");
}

#[test]
fn only_ranges_that_wait_for_a_retry_are_deferred() {
    let mut state = state();
    let day = Duration::from_secs(Config::default().pass_interval.as_secs());
    let task = state.next_task(Vec::new(), day, Millis(5)).unwrap();
    let pending = |from, to| PendingRange { range: TimeRange { from: Millis(from), to }, ..task.pending.clone() };
    let (older, newer) = (pending(0, Millis(500)), pending(1_000, TimeRange::ALL.to));
    let done = RangeOutcome { remaining: Some(older), retry: vec![newer], ..RangeOutcome::default() };
    assert_eq!(state.status(day, 0).deferred_ranges, 0);
    state.complete_task(task.is_hint, done, day, 0);
    assert_eq!((state.remaining_ranges().len(), state.status(day, 0).deferred_ranges), (2, 1));
}

#[test]
fn a_range_that_is_being_compared_still_remains() {
    let mut state = state();
    let day = Duration::from_secs(Config::default().pass_interval.as_secs());
    assert!(state.remaining_ranges().is_empty());
    let task = state.next_task(Vec::new(), day, Millis(5)).unwrap();
    assert_eq!(state.remaining_ranges(), [TimeRange::ALL]);
    let rest = TimeRange { to: Millis(500), ..TimeRange::ALL };
    let done =
        RangeOutcome { remaining: Some(PendingRange { range: rest, ..task.pending }), ..RangeOutcome::default() };
    state.complete_task(task.is_hint, done, day, 0);
    assert_eq!(state.remaining_ranges(), [rest]);
    state.next_task(Vec::new(), day, Millis(5)).unwrap();
    assert_eq!(state.remaining_ranges(), [rest]);
    state.complete_task(false, RangeOutcome::default(), day, 0);
    assert!(state.remaining_ranges().is_empty());
}
