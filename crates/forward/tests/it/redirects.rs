//! Nodes that redirect the agent.
#![allow(clippy::disallowed_methods, reason = "tests of real sockets or threads wait in real time")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bucksaw_env::Env;
use bucksaw_fixtures::wait_until;
use bucksaw_forward::{Config, Summary, run};
use bucksaw_ingest::Durability;
use bucksaw_record::Id;
use bucksaw_steering::{IngestPeer, ListenerKind, NodeLoad, RedirectPolicy};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::node::{IngestNode, config};

/// Sets a policy of this level with idle peers at these addresses.
fn set_policy(node: &IngestNode, level: u8, peers: &[SocketAddr]) {
    let peer = |address: &SocketAddr| {
        let ports = [ListenerKind::Fast, ListenerKind::Durable, ListenerKind::Bulk];
        let addresses = ports.into_iter().map(|port| (port, address.to_string())).collect();
        IngestPeer { node: Id::MIN, load: NodeLoad::default(), addresses }
    };
    node.shedder.set_policy(RedirectPolicy {
        load: NodeLoad { level, ..NodeLoad::default() },
        may_refuse: true,
        peers: peers.iter().map(peer).collect(),
        ..RedirectPolicy::default()
    });
}

/// An address without a listener.
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
        tokio::time::timeout(Duration::from_secs(20), self.shipping).await.expect("the agent does not end").unwrap()
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
        set_policy(&busy, 2, &[other.address]);
        let mut agent = RunningAgent::start(config(&[busy.address]));
        agent.ship(3, &[&other]).await;
        assert_eq!(agent.end().await.reconnects, 0);
        assert!(busy.records().is_empty());
    }
}

#[tokio::test]
async fn a_refused_agent_with_unreachable_targets_returns_to_its_list() {
    let (busy, own) = (IngestNode::start(Durability::Fast).await, IngestNode::start(Durability::Fast).await);
    set_policy(&busy, 2, &[closed_address().await]);
    let mut agent = RunningAgent::start(config(&[busy.address, own.address]));
    agent.ship(3, &[&own]).await;
    agent.end().await;
    // With no other configured address it retries until the node accepts it.
    let refusals = busy.redirects("refused");
    let mut agent = RunningAgent::start(config(&[busy.address]));
    agent.pipe.write_all(b"x\n").await.unwrap();
    wait_until("third refusal", || busy.redirects("refused") >= refusals + 3.0).await;
    assert!(busy.records().is_empty());
    set_policy(&busy, 0, &[]);
    wait_until("line", || busy.records().len() == 1).await;
    agent.end().await;
}

#[tokio::test]
async fn a_suggestion_is_followed_once_and_the_order_is_kept() {
    let (busy, other) = (IngestNode::start(Durability::Durable).await, IngestNode::start(Durability::Durable).await);
    let mut agent = RunningAgent::start(config(&[busy.address]));
    agent.ship(2, &[&busy]).await;
    set_policy(&busy, 1, &[closed_address().await, other.address]);
    set_policy(&other, 1, &[busy.address]);
    drop(agent);
    // New clients get the suggestion.
    let mut agent = RunningAgent::start(config(&[busy.address]));
    agent.ship(0, &[]).await;
    wait_until("move", || other.shedder.connections() == 1 && busy.shedder.connections() == 0).await;
    let before = texts(&[&busy]).len();
    agent.pipe.write_all(b"here\nand\nthere\n").await.unwrap();
    wait_until("lines", || other.records().len() == 3).await;
    assert_eq!((texts(&[&busy]).len(), texts(&[&other])), (before, vec!["here".into(), "and".into(), "there".into()]));
    // The suggestion of the other node to return was ignored.
    assert_eq!(agent.end().await.reconnects, 1);
}

#[tokio::test]
async fn a_suggestion_with_unreachable_targets_changes_nothing() {
    let busy = IngestNode::start(Durability::Fast).await;
    set_policy(&busy, 1, &[closed_address().await]);
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
        let (mut pipe, reader) = tokio::io::duplex(32_000);
        let shipping = tokio::spawn(async move { run(reader, config, Env::real(), stopped).await.unwrap() });
        // A node that refuses is avoided for seconds, so each gets records before they alternate.
        let (to_first, rest) = input.split_at(20_000);
        pipe.write_all(to_first.as_bytes()).await.unwrap();
        wait_until("batch at the first node", || first.queue.appends() > 0).await;
        set_policy(&first, 3, &[second.address]);
        first.shedder.set_redirect_budget(u64::MAX);
        let rest = rest.as_bytes().to_vec();
        tokio::spawn(async move { pipe.write_all(&rest).await.unwrap() });
        wait_until("batch at the second node", || second.queue.appends() > 0).await;
        let mut closes = 0;
        while !shipping.is_finished() {
            // The nodes alternately disconnect their clients.
            for (closing, open) in [(&second, &first), (&first, &second)] {
                set_policy(open, 0, &[]);
                set_policy(closing, 3, &[open.address]);
                closing.shedder.set_redirect_budget(u64::MAX);
                let redirects = || closing.redirects("disconnected") + closing.redirects("refused");
                let before = (redirects(), open.queue.appends());
                wait_until("redirect, or batches at the open node", || {
                    redirects() > before.0 || open.queue.appends() >= before.1 + 50 || shipping.is_finished()
                })
                .await;
                closes += 1;
            }
        }
        let summary = shipping.await.unwrap();
        assert!(closes > 2 && summary.reconnects > 1, "{durability}: {closes} {summary:?}");
        assert_eq!(summary.records, lines as u64);
        let all = [&first, &second].map(IngestNode::records);
        assert!(all.iter().all(|records| !records.is_empty()), "{durability}: a node has no records");
        let have = texts(&[&first, &second]);
        assert!(have.iter().map(String::as_str).eq(input.lines()), "{durability}: {} records", have.len());
        // Connections are closed gracefully, so few records are sent twice.
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
    wait_until("all lines", || nodes.iter().map(|node| node.records().len()).sum::<usize>() == 20).await;
    // A correct agent fails this once in half a million runs.
    assert!(nodes.iter().all(|node| !node.records().is_empty()));
}
