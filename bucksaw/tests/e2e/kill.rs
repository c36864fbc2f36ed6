//! Rounds of `kill -9` at random times under load: no acknowledged record is lost, none is duplicated.
//!
//! Seven writers send numbered lines: `forward` to the `fast` and the `durable` port, and batches over HTTP with each
//! durability, with and without a key and retries. Before each kill a control count proves that a loss would be detected.
//! After each restart the new records of each writer are compared with its [`Ledger`], and all records at the end.
//!
//! `BUCKSAW_KILL_ROUNDS` sets the number of rounds, `BUCKSAW_KILL_SEED` repeats those of an earlier run.

mod writers;

use std::env;
use std::thread;
use std::time::{Duration, SystemTime};

use crate::node::TestServer;
use crate::ports::free_address;
use crate::wait::wait_until;
use bucksaw_faults::Random;
use bucksaw_faults::{ComparisonStart, ExpectedLines, Ledger};
use writers::{StopFlag, WriterKind};

/// Default rounds of each kind.
const ROUNDS: usize = 12;
const ROUNDS_AT_START: usize = 6;
const ROUNDS_AT_STOP: usize = 6;

/// So small that records are stored and segments merged all the time.
const SMALL: [&str; 6] = ["--segment-max-age", "200ms", "--segment-max-bytes", "64K", "--store-segment-bytes", "512K"];

const WRITERS: [(&str, WriterKind); 7] = [
    ("forwardfast", WriterKind::Forward("fast")),
    ("forwarddurable", WriterKind::Forward("durable")),
    ("fast", WriterKind::Http { durability: "fast", keyed: false }),
    ("fastkeyed", WriterKind::Http { durability: "fast", keyed: true }),
    ("durable", WriterKind::Http { durability: "durable", keyed: false }),
    ("durablekeyed", WriterKind::Http { durability: "durable", keyed: true }),
    // The store gathers small segments, which are merged later.
    ("bulk", WriterKind::Http { durability: "bulk", keyed: true }),
];

/// When the node is killed.
#[derive(Clone, Copy, Debug)]
enum KillMoment {
    /// While it runs.
    Working,
    /// While it runs, and then once or more while it starts.
    Starting,
    /// During an orderly stop.
    Stopping,
}

#[test]
fn a_kill_under_load_loses_nothing() {
    rounds(KillMoment::Working, ROUNDS);
}

#[test]
fn a_kill_during_start_loses_nothing() {
    rounds(KillMoment::Starting, ROUNDS_AT_START);
}

#[test]
fn a_kill_during_stop_loses_nothing() {
    rounds(KillMoment::Stopping, ROUNDS_AT_STOP);
}

fn rounds(moment: KillMoment, count: usize) {
    let count = number("BUCKSAW_KILL_ROUNDS").map_or(count, |count| count as usize);
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = number("BUCKSAW_KILL_SEED").unwrap_or_else(now);
    eprintln!("{moment:?}: {count} rounds with BUCKSAW_KILL_SEED={seed}");
    let mut random = Random::new(seed);
    let home = tempfile::tempdir().unwrap();
    let listeners = ["--listen", "--listen-fast", "--listen-durable", "--listen-bulk"];
    let listeners = listeners.map(|listener| [listener.to_owned(), free_address()]).concat();
    let arguments: Vec<&str> = SMALL.iter().copied().chain(listeners.iter().map(String::as_str)).collect();
    let mut node = TestServer::start_in(&home.path().join("data"), &arguments);
    let ledgers = WRITERS.map(|(name, _)| Ledger::new(name));
    let stop = StopFlag::default();
    thread::scope(|scope| {
        let _guard = stop.when_dropped();
        for (ledger, (_, way)) in ledgers.iter().zip(WRITERS) {
            let address = node.address(way.listener()).to_owned();
            let (stop, seed) = (&stop, random.next_u64());
            scope.spawn(move || way.write(ledger, &address, seed, stop));
        }
        for round in 0..count {
            one_round(&mut node, &ledgers, moment, round, &mut random);
        }
        stop.set();
    });
    // Every writer has ended, so `forward` has reported that everything is acknowledged.
    let forwarded = ledgers.iter().filter(|ledger| ledger.name().starts_with("forward"));
    forwarded.for_each(Ledger::acknowledge_all);
    assert_ledgers(&node, &ledgers, Ledger::everything);
    let acknowledged: u64 = ledgers.iter().map(Ledger::acknowledged).sum();
    eprintln!("{moment:?}: {acknowledged} acknowledged records found once each after {count} kills");
}

fn one_round(node: &mut TestServer, ledgers: &[Ledger], moment: KillMoment, round: usize, random: &mut Random) {
    let since: Vec<ComparisonStart> = ledgers.iter().map(|ledger| ledger.recent().since).collect();
    let counted_now = |node: &TestServer| -> Vec<u64> {
        ledgers.iter().zip(&since).map(|(ledger, since)| counted(node, ledger, *since)).collect()
    };
    let before = counted_now(node);
    wait_until("every writer gets records in", || {
        counted_now(node).iter().zip(&before).all(|(now, before)| now > before)
    });
    // Every other round is killed early, before anything is stored.
    let late = round % 2 == 1;
    if late {
        wait_until("records move to the store and segments are merged", || {
            node.metric("bucksaw_store_gathered_bytes_total") > 0.0
                && node.metric("bucksaw_store_compactions_total") > 0.0
        });
    }
    thread::sleep(Duration::from_millis(random.next_u64() % 500));
    let acknowledged = control(node, ledgers);
    eprintln!("{moment:?}, round {round}: {acknowledged} acknowledged records found before the kill");
    kill_node(node, moment, random);
    node.restart();
    assert_ledgers(node, ledgers, Ledger::recent);
}

fn kill_node(node: &mut TestServer, moment: KillMoment, random: &mut Random) {
    let pause = |random: &mut Random, ms: u64| thread::sleep(Duration::from_micros(random.next_u64() % (ms * 1_000)));
    match moment {
        KillMoment::Working => {}
        KillMoment::Starting => {
            for _ in 0..=random.below(3) {
                node.spawn();
                pause(random, 80);
            }
        }
        KillMoment::Stopping => {
            node.send_sigterm();
            pause(random, 150);
        }
    }
    node.kill();
}

fn counted(node: &TestServer, ledger: &Ledger, since: ComparisonStart) -> u64 {
    let target = format!("/api/v1/count?from={}&q=writer%3D{}", since.seconds, ledger.name());
    let counted = node.get(&target).expect(200).json();
    assert_eq!(counted["stats"]["partial"], false, "{counted}");
    counted["count"].as_u64().unwrap()
}

/// Proves that all acknowledged records are found, older ones by their count; returns their number.
fn control(node: &TestServer, ledgers: &[Ledger]) -> u64 {
    let mut sum = 0;
    for ledger in ledgers {
        let acknowledged = ledger.acknowledged();
        let found = counted(node, ledger, ComparisonStart::default());
        assert!(found >= acknowledged, "{}: {found} of {acknowledged} records before the kill", ledger.name());
        sum += acknowledged;
    }
    assert_ledgers(node, ledgers, Ledger::recent);
    sum
}

/// Compares found with acknowledged records. A record that was found once must always be found: the kernel, which is not
/// killed, has it.
fn assert_ledgers(node: &TestServer, ledgers: &[Ledger], expected: fn(&Ledger) -> ExpectedLines) {
    for ledger in ledgers {
        // Taken first: the answer need not have records acknowledged meanwhile.
        let expected = expected(ledger);
        let target = format!("/api/v1/query?from={}&q=writer%3D{}", expected.since.seconds, ledger.name());
        let answer = node.call("GET", &target, &[("Accept", "text/plain")], b"").expect(200);
        let stats = answer.header("bucksaw-stats").unwrap();
        assert!(stats.contains("\"partial\":false"), "{}: {stats}", ledger.name());
        let verdict = ledger.compare(&answer.body, &expected);
        assert_eq!(verdict.describe_failure(false), None, "{}", ledger.name());
        ledger.mark_found(&verdict, &expected);
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not `{text}`")))
}
