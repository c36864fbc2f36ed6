//! Listeners for the protocols of other log systems.
#![allow(clippy::disallowed_methods, reason = "tests of real sockets or threads wait in real time")]

use bucksaw_ingest::Durability;
use bucksaw_record::time::TimeZone;
use bucksaw_sources::{Config, ListenerProtocol, ListenerSetup};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;

use crate::node::{AcceptedRecord, ListenerNode, wait_until};

const SYSLOG: ListenerSetup =
    ListenerSetup { name: "syslog", durability: Durability::Fast, protocol: ListenerProtocol::Syslog(TimeZone::UTC) };
const GELF: ListenerSetup =
    ListenerSetup { name: "gelf", durability: Durability::Fast, protocol: ListenerProtocol::Gelf };

async fn start(setup: ListenerSetup, config: Config) -> ListenerNode {
    ListenerNode::start_setup(setup, config, bucksaw_ingest::Config::default()).await
}

/// Labels and the line, without the values of attributes, which are below it.
fn described(records: &[AcceptedRecord]) -> Vec<String> {
    let line = |text: &[u8]| String::from_utf8(text.split(|byte| *byte == b'\n').next().unwrap().to_vec()).unwrap();
    records.iter().map(|record| format!("{}: {}", record.labels, line(&record.text))).collect()
}

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort();
    texts
}

#[tokio::test]
async fn syslog_over_tcp_is_split_wherever_it_arrives() {
    let mut node = start(SYSLOG, Config::default()).await;
    let stream =
        b"<13>1 2026-01-02T03:04:05Z web1 shop 7 - - one\n34 <13>Jan  2 03:04:05 web2 cron: two\n<13>unfinished";
    for at in [1, 9, 47, 50, 60, stream.len() - 3] {
        let mut socket = node.connect().await;
        socket.write_all(&stream[..at]).await.unwrap();
        tokio::task::yield_now().await;
        socket.write_all(&stream[at..]).await.unwrap();
        socket.shutdown().await.unwrap();
        assert_eq!(socket.read(&mut [0; 9]).await.unwrap(), 0);
    }
    let records = node.stop().await;
    let want = [
        "host.name=127.0.0.1: unfinished",
        "host.name=web1,service.name=shop: one",
        "host.name=web2,service.name=cron: two",
    ];
    let want: Vec<&str> = want.iter().flat_map(|text| [*text; 6]).collect();
    assert_eq!(sorted(described(&records)), want);
}

#[tokio::test]
async fn datagrams_that_arrived_before_the_stop_are_records() {
    let mut node = start(SYSLOG, Config::default()).await;
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for number in 0..600 {
        socket
            .send_to(format!("<13>1 - web{} shop - - - {number}\n", number % 3).as_bytes(), node.address)
            .await
            .unwrap();
    }
    let records = node.stop().await;
    let want = (0..600).map(|number| format!("host.name=web{},service.name=shop: {number}", number % 3)).collect();
    assert_eq!(sorted(described(&records)), sorted(want));
}

#[tokio::test]
async fn gelf_is_taken_from_streams_and_chunks() {
    let mut node = start(GELF, Config::default()).await;
    let mut stream = node.connect().await;
    stream.write_all(b"{\"host\":\"a\",\"short_message\":\"one\"}\0not json\0{\"host\":\"a\",").await.unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for datagram in [
        &b"\x1e\x0fabcdefgh\x01\x02\"short_message\":\"two\"}"[..],
        b"\x1e\x0fabcdefgh\x00\x02{\"host\":\"b\",",
        b"\x1e\x0fshort",
    ] {
        socket.send_to(datagram, node.address).await.unwrap();
    }
    node.until_records(2).await;
    stream.write_all(b"\"short_message\":\"three\"}\0").await.unwrap();
    node.until_records(3).await;
    wait_until("rejections", || node.metric("ingest_rejected_records_total{source=\"gelf\"}") == 2.0).await;
    assert_eq!(sorted(described(&node.stop().await)), ["host.name=a: one", "host.name=a: three", "host.name=b: two"]);
}

#[tokio::test]
async fn while_the_disk_is_full_nothing_is_lost() {
    let mut node = start(SYSLOG, Config::default()).await;
    node.fs.set_capacity(Some(20_000));
    let sending = {
        let address = node.address;
        tokio::spawn(async move {
            let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
            for number in 0..40_000 {
                let message = format!("<13>1 - web{} shop - - [x n=\"{number}\"] {number}\n", number % 7);
                socket.write_all(message.as_bytes()).await.unwrap();
            }
            socket.shutdown().await.unwrap();
            assert_eq!(socket.read(&mut [0; 9]).await.unwrap(), 0);
        })
    };
    wait_until("refusals", || node.metric("ingest_refused_appends_total") > 2.0).await;
    assert!(node.records().len() < 40_000);
    node.fs.set_capacity(None);
    sending.await.unwrap();
    let records = node.stop().await;
    let mut ids: Vec<_> = records.iter().map(|record| record.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 40_000);
    let numbers = |host: usize| {
        let prefix = format!("host.name=web{host},service.name=shop: ");
        let lines = described(&records).into_iter();
        lines.filter_map(move |line| line.strip_prefix(&prefix)?.parse::<usize>().ok()).collect::<Vec<_>>()
    };
    for host in 0..7 {
        // In the order in which they were sent.
        assert_eq!(numbers(host), (host..40_000).step_by(7).collect::<Vec<_>>(), "{host}");
    }
    assert_eq!(node.metric("sources_dropped_events_total{listener=\"syslog\"}"), 0.0);
}

#[tokio::test]
async fn a_stop_on_a_full_disk_counts_what_is_dropped() {
    let mut node = start(SYSLOG, Config::default()).await;
    node.fs.set_capacity(Some(0));
    let mut socket = node.connect().await;
    socket.write_all(b"<13>a: one\n<13>b: two\n").await.unwrap();
    wait_until("refusal", || node.metric("ingest_refused_appends_total") > 0.0).await;
    assert!(node.stop().await.is_empty());
    assert_eq!(node.metric("sources_dropped_events_total{listener=\"syslog\"}"), 2.0);
}

#[tokio::test]
async fn http_is_refused() {
    let mut node = start(SYSLOG, Config::default()).await;
    let mut socket = node.connect().await;
    socket.write_all(b"POST / HTTP/1.1\r\nHost: x\r\n\r\n<13>from a page\n").await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(node.stop().await.is_empty());
}

#[tokio::test]
async fn unfinished_messages_do_not_exceed_their_memory() {
    let config = Config { partial_bytes_max: 1 << 20, ..Config::default() };
    let mut node = start(GELF, config).await;
    let mut sockets = Vec::new();
    for _ in 0..20 {
        let mut socket = node.connect().await;
        socket.write_all(b"{\"host\":\"").await.unwrap();
        socket.write_all(&[b'a'; 250_000]).await.unwrap();
        sockets.push(socket);
    }
    // What does not fit is refused, and counted.
    wait_until("rejections", || node.metric("ingest_rejected_records_total{source=\"gelf\"}") >= 15.0).await;
    let mut other = node.connect().await;
    other.write_all(b"{\"host\":\"a\",\"short_message\":\"one\"}\0").await.unwrap();
    node.until_records(1).await;
    drop(sockets);
    assert_eq!(described(&node.stop().await), ["host.name=a: one"]);
}
