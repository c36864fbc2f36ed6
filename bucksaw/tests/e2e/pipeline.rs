//! A whole pipeline: a topic of a real broker, a node, and a real ClickHouse as its store. Each of them is killed meanwhile.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::clickhouse_server::ClickHouseServer;
use crate::kafka::{KafkaBroker, produce, reads};
use crate::node::{TestServer, bucksaw};
use crate::wait::wait_until;

/// Records that go through the pipeline.
const RECORDS: usize = 1_000_000;

#[test]
fn a_million_records_are_once_in_clickhouse_and_once_in_answers() {
    let (mut broker, mut clickhouse) = (KafkaBroker::start(), ClickHouseServer::start());
    let (address, store) = (broker.address.clone(), clickhouse.url("logs"));
    let flags = [&reads(&address, "bulk")[..], &["--kafka-workers", "2", "--store", &store]].concat();
    let mut node = TestServer::start(&flags);
    let mut client = produce(&address, "bulk", "bulk", &(0..RECORDS));
    for acknowledged in BufReader::new(client.stdout.take().unwrap()).lines() {
        match acknowledged.unwrap().parse::<usize>().unwrap() {
            200_000 => node.restart(),
            400_000 => broker.restart(),
            600_000 => clickhouse.restart(),
            800_000 => node.restart(),
            _ => {}
        }
    }
    assert!(client.wait().unwrap().success());
    wait_until("all records are found", || node.count("") >= RECORDS as u64);
    wait_until("the queue is empty", || node.status()["queue"]["segments"] == 0);

    // Messages that were read again may be there twice until their parts are merged.
    let rows = clickhouse.ask("SELECT count(), uniqExact(id), uniqExact(line) FROM logs.records FINAL");
    assert_eq!(rows, format!("{RECORDS}\t{RECORDS}\t{RECORDS}"));
    assert_eq!(node.count(""), RECORDS as u64);
    each_number_is_printed_once(&node);
}

/// The numbers are at the ends of the lines.
fn each_number_is_printed_once(node: &TestServer) {
    let mut query = bucksaw(["query", "--since", "1d", "--addr", &node.url()]).stdout(Stdio::piped()).spawn().unwrap();
    let mut seen = vec![false; RECORDS];
    for line in BufReader::new(query.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let number: usize = line.rsplit(' ').next().unwrap().parse().unwrap();
        assert!(!std::mem::replace(&mut seen[number], true), "twice: {line}");
    }
    assert!(query.wait().unwrap().success());
    let missing = seen.iter().filter(|seen| !**seen).count();
    assert_eq!(missing, 0, "records are missing");
}
