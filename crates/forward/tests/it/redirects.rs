//! Nodes that name others.
#![allow(clippy::disallowed_methods, reason = "tests of real sockets or threads wait in real time")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bucksaw_env::Env;
use bucksaw_fixtures::wait_until;
use bucksaw_forward::{Config, Summary, run};
use bucksaw_ingest::Durability;
use bucksaw_ingest::load_shedder::{RedirectPolicy, RedirectTarget};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::node::{IngestNode, config};

fn advise(node: &IngestNode, level: u8, others: &[SocketAddr]) {
    let other = |address: &SocketAddr| {
        let (fast, durable, bulk) = (Some(address.to_string()), Some(address.to_string()), Some(address.to_string()));
        RedirectTarget { fast, durable, bulk, ..RedirectTarget::default() }
    };
    let others = others.iter().map(other).collect();
    node.queue.load_shedder().set_policy(RedirectPolicy {
        level,
        may_refuse: true,
        targets: others,
        ..RedirectPolicy::default()
    });
}

/// An address where nobody listens.
async fn closed_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// An agent that runs, and its input.
struct RunningAgent {
    pipe: tokio::io::DuplexStream,
    lines: usize,
    shipping: JoinHandle<Summary>,
    _stop: watch::Sender<bool>,
}

impl RunningAgent {
    fn start(config: Config) -> Self {
        let (pipe, input) = tokio::io::duplex(1_000);
        let (stop, stopped) = watch::channel(false);
        let shipping = tokio::spawn(async { run(input, config, Env::real(), stopped).await.unwrap() });
        Self { pipe, lines: 0, shipping, _stop: stop }
    }

    /// Ships some numbered lines and waits until the nodes have them, each once and in order.
    async fn ship(&mut self, lines: usize, nodes: &[&IngestNode]) {
        for _ in 0..lines {
            self.pipe.write_all(format!("{}\n", self.lines).as_bytes()).await.unwrap();
            self.lines += 1;
        }
        wait_until("lines", || texts(nodes).len() == self.lines).await;
        let want: Vec<String> = (0..self.lines).map(|number| number.to_string()).collect();
        assert_eq!(texts(nodes), want);
    }

    async fn end(mut self) -> Summary {
        self.pipe.shutdown().await.unwrap();
        drop(self.pipe);
        tokio::time::timeout(Duration::from_secs(20), self.shipping).await.expect("does not end").unwrap()
    }
}

/// All records by their ids; a record that two nodes have counts once.
fn texts(nodes: &[&IngestNode]) -> Vec<String> {
    let records = nodes.iter().flat_map(|node| node.records());
    let by_id: BTreeMap<_, _> = records.map(|record| (record.id, record.text)).collect();
    by_id.into_values().map(|text| String::from_utf8(text).unwrap()).collect()
}

#[tokio::test]
async fn a_refused_agent_follows_the_redirect() {
    for durability in [Durability::Fast, Durability::Durable] {
        let (busy, other) = (IngestNode::start(durability).await, IngestNode::start(durability).await);
        advise(&busy, 2, &[other.address]);
        let mut agent = RunningAgent::start(config(&[busy.address]));
        agent.ship(3, &[&other]).await;
        assert_eq!(agent.end().await.reconnects, 0);
        assert!(busy.records().is_empty());
    }
}

#[tokio::test]
async fn a_refused_agent_with_unreachable_targets_returns_to_its_list() {
    let (busy, own) = (IngestNode::start(Durability::Fast).await, IngestNode::start(Durability::Fast).await);
    advise(&busy, 2, &[closed_address().await]);
    let mut agent = RunningAgent::start(config(&[busy.address, own.address]));
    agent.ship(3, &[&own]).await;
    agent.end().await;
    // With nobody else on the list it asks again until it is let in.
    let mut agent = RunningAgent::start(config(&[busy.address]));
    agent.pipe.write_all(b"x\n").await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(busy.records().is_empty());
    advise(&busy, 0, &[]);
    wait_until("the line", || busy.records().len() == 1).await;
    agent.end().await;
}

#[tokio::test]
async fn a_suggestion_is_followed_once_and_the_order_kept() {
    let (busy, other) = (IngestNode::start(Durability::Durable).await, IngestNode::start(Durability::Durable).await);
    let mut agent = RunningAgent::start(config(&[busy.address]));
    agent.ship(2, &[&busy]).await;
    advise(&busy, 1, &[closed_address().await, other.address]);
    advise(&other, 1, &[busy.address]);
    drop(agent);
    // It is suggested to newcomers.
    let mut agent = RunningAgent::start(config(&[busy.address]));
    agent.ship(0, &[]).await;
    wait_until("the move", || {
        other.queue.load_shedder().connections() == 1 && busy.queue.load_shedder().connections() == 0
    })
    .await;
    let before = texts(&[&busy]).len();
    agent.pipe.write_all(b"here\nand\nthere\n").await.unwrap();
    wait_until("lines", || other.records().len() == 3).await;
    assert_eq!((texts(&[&busy]).len(), texts(&[&other])), (before, vec!["here".into(), "and".into(), "there".into()]));
    // The other suggested the first one, and was not heard.
    assert_eq!(agent.end().await.reconnects, 1);
}

#[tokio::test]
async fn a_suggestion_with_unreachable_targets_is_harmless() {
    let busy = IngestNode::start(Durability::Fast).await;
    advise(&busy, 1, &[closed_address().await]);
    let mut agent = RunningAgent::start(config(&[busy.address]));
    agent.ship(5, &[&busy]).await;
    assert_eq!(agent.end().await.reconnects, 0);
}

#[tokio::test]
async fn an_agent_closed_under_load_loses_and_duplicates_nothing() {
    for durability in [Durability::Fast, Durability::Durable, Durability::Bulk] {
        let first = IngestNode::start_redirecting(durability).await;
        let second = IngestNode::start_redirecting(durability).await;
        let lines = 60_000;
        let input: String = (0..lines).map(|number| format!("{number} {}\n", "x".repeat(number % 100))).collect();
        let (_stop, stopped) = watch::channel(false);
        let config = Config { batch_bytes: 2_000, window_bytes: 32_000, ..config(&[first.address]) };
        let bytes = input.clone().into_bytes();
        let shipping = tokio::spawn(async move { run(&bytes[..], config, Env::real(), stopped).await.unwrap() });
        let mut goodbyes = 0;
        while !shipping.is_finished() {
            // Each in turn lets its clients go to the other.
            for (here, there) in [(&first, &second), (&second, &first)] {
                advise(there, 0, &[]);
                advise(here, 3, &[there.address]);
                here.queue.load_shedder().set_redirect_budget(u64::MAX);
                tokio::time::sleep(Duration::from_millis(10)).await;
                goodbyes += 1;
            }
        }
        let summary = shipping.await.unwrap();
        assert!(goodbyes > 2 && summary.reconnects > 1, "{durability}: {goodbyes} {summary:?}");
        assert_eq!(summary.records, lines as u64);
        let all = [&first, &second].map(IngestNode::records);
        assert!(all.iter().all(|records| !records.is_empty()), "{durability}: it went nowhere");
        let have = texts(&[&first, &second]);
        assert!(have.iter().map(String::as_str).eq(input.lines()), "{durability}: {} records", have.len());
        // Goodbyes are in order: next to nothing is sent twice.
        let stored: usize = all.iter().map(Vec::len).sum();
        assert!(stored < lines + lines / 4, "{durability}: {stored} of {lines}");
    }
}

#[tokio::test]
async fn many_agents_spread_over_their_list() {
    let nodes = [IngestNode::start(Durability::Fast).await, IngestNode::start(Durability::Fast).await];
    let to = nodes.each_ref().map(|node| node.address);
    let mut agents: Vec<RunningAgent> =
        (0..20).map(|_| RunningAgent::start(Config { shuffle: true, ..config(&to) })).collect();
    for agent in &mut agents {
        agent.pipe.write_all(b"x\n").await.unwrap();
    }
    wait_until("all", || nodes.iter().map(|node| node.records().len()).sum::<usize>() == 20).await;
    // Neither has none but once in half a million times.
    assert!(nodes.iter().all(|node| !node.records().is_empty()));
}
