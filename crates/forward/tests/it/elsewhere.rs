//! Nodes that name others.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bucksaw_doors::Doors;
use bucksaw_forward::{Config, Summary, run};
use bucksaw_ingest::Durability;
use bucksaw_ingest::guide::{Advice, Other};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::node::{Node, config};

fn advise(node: &Node, level: u8, others: &[SocketAddr]) {
    let other = |address: &SocketAddr| {
        let (fast, durable, bulk) = (Some(address.to_string()), Some(address.to_string()), Some(address.to_string()));
        Other { fast, durable, bulk, ..Other::default() }
    };
    let others = others.iter().map(other).collect();
    node.queue.guide().advise(Advice { level, refuses: true, others, ..Advice::default() });
}

/// An address where nobody listens.
async fn gone() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// An agent that runs, and its input.
struct Agent {
    pipe: tokio::io::DuplexStream,
    lines: usize,
    shipping: JoinHandle<Summary>,
    _stop: watch::Sender<bool>,
}

impl Agent {
    fn start(config: Config) -> Self {
        let (pipe, input) = tokio::io::duplex(1_000);
        let (stop, stopped) = watch::channel(false);
        let shipping = tokio::spawn(async { run(input, config, Doors::real(), stopped).await.unwrap() });
        Self { pipe, lines: 0, shipping, _stop: stop }
    }

    /// Ships some numbered lines and waits until the nodes have them, each once and in order.
    async fn ship(&mut self, lines: usize, nodes: &[&Node]) {
        for _ in 0..lines {
            self.pipe.write_all(format!("{}\n", self.lines).as_bytes()).await.unwrap();
            self.lines += 1;
        }
        until("lines", || texts(nodes).len() == self.lines).await;
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
fn texts(nodes: &[&Node]) -> Vec<String> {
    let records = nodes.iter().flat_map(|node| node.records());
    let by_id: BTreeMap<_, _> = records.map(|record| (record.id, record.text)).collect();
    by_id.into_values().map(|text| String::from_utf8(text).unwrap()).collect()
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(20), wait).await.is_ok(), "waited in vain for {what}");
}

#[tokio::test]
async fn a_refused_agent_goes_where_it_is_told() {
    for durability in [Durability::Fast, Durability::Durable] {
        let (busy, other) = (Node::start(durability).await, Node::start(durability).await);
        advise(&busy, 2, &[other.address]);
        let mut agent = Agent::start(config(&[busy.address]));
        agent.ship(3, &[&other]).await;
        assert_eq!(agent.end().await.reconnects, 0);
        assert!(busy.records().is_empty());
    }
}

#[tokio::test]
async fn a_refused_agent_that_is_sent_nowhere_comes_back_to_its_list() {
    let (busy, own) = (Node::start(Durability::Fast).await, Node::start(Durability::Fast).await);
    advise(&busy, 2, &[gone().await]);
    let mut agent = Agent::start(config(&[busy.address, own.address]));
    agent.ship(3, &[&own]).await;
    agent.end().await;
    // With nobody else on the list it asks again until it is let in.
    let mut agent = Agent::start(config(&[busy.address]));
    agent.pipe.write_all(b"x\n").await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(busy.records().is_empty());
    advise(&busy, 0, &[]);
    until("the line", || busy.records().len() == 1).await;
    agent.end().await;
}

#[tokio::test]
async fn a_suggestion_is_followed_once_and_the_order_kept() {
    let (busy, other) = (Node::start(Durability::Durable).await, Node::start(Durability::Durable).await);
    let mut agent = Agent::start(config(&[busy.address]));
    agent.ship(2, &[&busy]).await;
    advise(&busy, 1, &[gone().await, other.address]);
    advise(&other, 1, &[busy.address]);
    drop(agent);
    // It is suggested to newcomers.
    let mut agent = Agent::start(config(&[busy.address]));
    agent.ship(0, &[]).await;
    until("the move", || other.queue.guide().connections() == 1 && busy.queue.guide().connections() == 0).await;
    let before = texts(&[&busy]).len();
    agent.pipe.write_all(b"here\nand\nthere\n").await.unwrap();
    until("lines", || other.records().len() == 3).await;
    assert_eq!((texts(&[&busy]).len(), texts(&[&other])), (before, vec!["here".into(), "and".into(), "there".into()]));
    // The other suggested the first one, and was not heard.
    assert_eq!(agent.end().await.reconnects, 1);
}

#[tokio::test]
async fn a_suggestion_that_leads_nowhere_costs_nothing() {
    let busy = Node::start(Durability::Fast).await;
    advise(&busy, 1, &[gone().await]);
    let mut agent = Agent::start(config(&[busy.address]));
    agent.ship(5, &[&busy]).await;
    assert_eq!(agent.end().await.reconnects, 0);
}

#[tokio::test]
async fn an_agent_that_is_let_go_under_load_loses_and_doubles_nothing() {
    for durability in [Durability::Fast, Durability::Durable, Durability::Bulk] {
        let first = Node::start_letting_go(durability).await;
        let second = Node::start_letting_go(durability).await;
        let lines = 60_000;
        let input: String = (0..lines).map(|number| format!("{number} {}\n", "x".repeat(number % 100))).collect();
        let (_stop, stopped) = watch::channel(false);
        let config = Config { batch_bytes: 2_000, window_bytes: 32_000, ..config(&[first.address]) };
        let bytes = input.clone().into_bytes();
        let shipping = tokio::spawn(async move { run(&bytes[..], config, Doors::real(), stopped).await.unwrap() });
        let mut goodbyes = 0;
        while !shipping.is_finished() {
            // Each in turn lets its clients go to the other.
            for (here, there) in [(&first, &second), (&second, &first)] {
                advise(there, 0, &[]);
                advise(here, 3, &[there.address]);
                here.queue.guide().offer(u64::MAX);
                tokio::time::sleep(Duration::from_millis(10)).await;
                goodbyes += 1;
            }
        }
        let summary = shipping.await.unwrap();
        assert!(goodbyes > 2 && summary.reconnects > 1, "{durability}: {goodbyes} {summary:?}");
        assert_eq!(summary.records, lines as u64);
        let all = [&first, &second].map(Node::records);
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
    let nodes = [Node::start(Durability::Fast).await, Node::start(Durability::Fast).await];
    let to = nodes.each_ref().map(|node| node.address);
    let mut agents: Vec<Agent> = (0..20).map(|_| Agent::start(Config { spread: true, ..config(&to) })).collect();
    for agent in &mut agents {
        agent.pipe.write_all(b"x\n").await.unwrap();
    }
    until("all", || nodes.iter().map(|node| node.records().len()).sum::<usize>() == 20).await;
    // Neither has none but once in half a million times.
    assert!(nodes.iter().all(|node| !node.records().is_empty()));
}
