//! Little's law as a check of the pipeline from the queue to the stores: records in flight = rate × time in the pipeline.
//!
//! The three are observed apart. Records in flight are counted in the files of the queues. The rate is that of records that
//! come to be on as many stores as the replication factor. The time of a record runs from its acknowledgement until then. In a
//! steady state the law holds for any arrivals, service times and order (Little, "A Proof for the Queuing Formula L = λW",
//! 1961), so a mismatch is a leak (records stay in flight after they are stored) or a loss (records leave and are not stored).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bucksaw_model::Flow;
use bucksaw_record::Id;
use bucksaw_store::repair;

use crate::injected_bug::InjectedBug;
use crate::test_bed::TestBed;

/// The replication factor and the number of stores.
const COPIES: usize = 2;
const STORES: usize = 3;

/// The time until a steady state, and the time that is observed after it.
const WARM_UP: Duration = Duration::from_secs(20);
const OBSERVED: Duration = Duration::from_secs(60);

/// The interval of batches, and of looks at the cluster.
const INTERVAL: Duration = Duration::from_millis(100);

/// The largest relative difference of the two sides.
const ERROR_MAX: f64 = 0.05;

/// Runs a cluster under an even load, and observes the records of its steady state.
fn observe(seed: u64, bug: Option<InjectedBug>) -> Flow {
    // Without passes of repair, which would find the copies that an injected bug discards.
    let repair = repair::Config { pass_interval: Duration::from_secs(86_400), ..repair::Config::default() };
    let mut bed = TestBed::with_bug(seed, STORES, COPIES, repair, bug);
    let now = |bed: &TestBed| bed.client.env().clock.uptime();
    let start = now(&bed) + WARM_UP;
    let end = start + OBSERVED;
    // The acknowledgement of each record that is not stored yet.
    let mut waiting: BTreeMap<Id, Duration> = BTreeMap::new();
    let (mut in_flight, mut looks, mut times) = (0, 0_u32, Vec::new());
    while now(&bed) < end {
        let acknowledged: BTreeSet<Id> = bed.append(5).into_iter().collect();
        let at = now(&bed);
        waiting.extend(acknowledged.into_iter().map(|id| (id, at)));
        bed.run_for(INTERVAL);
        let at = now(&bed);
        let replicas = bed.cluster.replicas();
        let is_stored = |id: &Id| replicas.get(id).is_some_and(|(count, _)| *count >= COPIES);
        let stored: Vec<Id> = waiting.keys().filter(|id| is_stored(id)).copied().collect();
        for id in stored {
            let Some(since) = waiting.remove(&id) else { continue };
            if at >= start {
                // It came to be stored between the last look and this one.
                times.push((at - since).saturating_sub(INTERVAL / 2).as_secs_f64());
            }
        }
        if at >= start {
            in_flight += bed.cluster.pending_ids().len();
            looks += 1;
        }
    }
    let observed = (now(&bed) - start).as_secs_f64();
    Flow {
        in_flight: in_flight as f64 / f64::from(looks),
        per_second: times.len() as f64 / observed,
        seconds: times.iter().sum::<f64>() / (times.len() as f64).max(1.0),
    }
}

#[test]
fn records_in_flight_are_rate_times_time() {
    for seed in 0..3 {
        let flow = observe(seed, None);
        assert!(
            flow.in_flight > 10.0 && flow.relative_error() <= ERROR_MAX,
            "seed {seed}: {flow:?}, error {:.3}",
            flow.relative_error()
        );
    }
}

#[test]
fn a_leak_and_a_loss_break_the_law() {
    for bug in [InjectedBug::AckForgotten, InjectedBug::PutDiscarded] {
        let flow = observe(0, Some(bug));
        assert!(
            flow.relative_error() > 4.0 * ERROR_MAX,
            "{}: {flow:?}, error {:.3}",
            bug.name(),
            flow.relative_error()
        );
    }
}
