//! An agent reports its state to nodes that know reports, and to no others.
#![allow(clippy::disallowed_methods, reason = "tests of real sockets or files wait in real time")]

use std::time::Duration;

use bucksaw_env::Env;
use bucksaw_forward::{AgentInfo, Config, FilesConfig, OtherInputs, run_files};
use bucksaw_tailer::{PathPattern, TailerConfig};
use bucksaw_wire::{AgentReport, ClientMessage, DecodeProgress, Hello, HelloReply, ServerMessage, WireVersion};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use crate::node::config;

/// What the agent sent.
#[derive(Debug, PartialEq)]
enum Sent {
    Batch(u32),
    Report(AgentReport),
}

/// A node of this version that acknowledges every batch.
async fn node_of(version: WireVersion) -> (std::net::SocketAddr, mpsc::UnboundedReceiver<Sent>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, sent) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let (mut bytes, mut is_welcome, mut acked) = (Vec::new(), false, 0);
        while socket.read_buf(&mut bytes).await.is_ok_and(|count| count > 0) {
            if !is_welcome && let Ok(DecodeProgress::Complete(_, used)) = Hello::decode(&bytes) {
                bytes.drain(..used);
                is_welcome = true;
                let welcome = HelloReply::Welcome { version, frame_bytes_max: 1 << 20 };
                socket.write_all(&welcome.encode()).await.unwrap();
            }
            if !is_welcome {
                continue;
            }
            loop {
                let (message, used) = match ClientMessage::decode(&bytes, 1 << 20).unwrap() {
                    DecodeProgress::Complete(ClientMessage::Batch(frame), used) => {
                        acked += 1;
                        socket.write_all(&ServerMessage::Acked(acked).encode()).await.unwrap();
                        (Some(Sent::Batch(frame.header.count)), used)
                    }
                    DecodeProgress::Complete(ClientMessage::Report(report), used) => (Some(Sent::Report(report)), used),
                    DecodeProgress::Complete(_, used) => (None, used),
                    DecodeProgress::Incomplete(_) => break,
                };
                bytes.drain(..used);
                message.into_iter().for_each(|message| drop(sender.send(message)));
            }
        }
    });
    (address, sent)
}

/// Ships a file of two lines; returns what a node of this version was sent, until it has the lines and the agent was given time.
async fn shipped_to(version: WireVersion) -> Vec<Sent> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.log");
    std::fs::write(&path, "one\ntwo\n").unwrap();
    let (address, mut sent) = node_of(version).await;
    let patterns = vec![PathPattern::parse(path.to_str().unwrap()).unwrap()];
    let tailer = TailerConfig { patterns, ..TailerConfig::default() };
    let files = FilesConfig::new(tailer, dir.path().join("state"));
    let info = AgentInfo { host: "web-1".to_owned(), version: "9".to_owned() };
    let config = Config { info, ..config(&[address]) };
    std::fs::create_dir(&files.state_dir).unwrap();
    let monitor = config.monitor.clone();
    let (stop, stopped) = watch::channel(false);
    let running = tokio::spawn(run_files(config, files, OtherInputs::default(), Env::real(), stopped));
    // The agent reports at once, so a report that is wanted comes before the lines are acknowledged or soon after.
    let mut all = Vec::new();
    let wants_report = version >= WireVersion::REPORTS;
    let is_done = |all: &[Sent]| {
        let reports = all.iter().filter(|sent| matches!(sent, Sent::Report(_))).count();
        all.contains(&Sent::Batch(2)) && (!wants_report || reports > 0)
    };
    while !is_done(&all) {
        all.push(tokio::time::timeout(Duration::from_secs(60), sent.recv()).await.unwrap().unwrap());
    }
    while monitor.status(0).unwrap().acked_records < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stop.send_replace(true);
    running.await.unwrap().unwrap();
    while let Some(message) = sent.recv().await {
        all.push(message);
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_knows_reports_gets_them() {
    let sent = shipped_to(WireVersion::NEWEST).await;
    let report = sent.iter().find_map(|sent| if let Sent::Report(report) = sent { Some(report) } else { None });
    let report = report.unwrap();
    assert_eq!((report.host.as_str(), report.version.as_str(), report.gaps), ("web-1", "9", 0));
    assert_ne!(report.id, [0; 16]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_node_gets_none() {
    assert_eq!(shipped_to(WireVersion::LABELS).await, [Sent::Batch(2)]);
}
