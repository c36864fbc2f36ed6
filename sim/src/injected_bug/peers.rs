//! Bugs in the calls of a query to other nodes, and in its coverage.

use std::io;
use std::sync::Arc;

use bucksaw_env::{Body, BodyWriter, BoxFuture, Tasks};
use bucksaw_node::Node;
use bucksaw_query::{QueryPeer, QueryPeers, QueryServer, ReplyTimeouts, Scatter};
use bucksaw_record::Id;

use super::InjectedBug;

/// The call of a tail.
const TAIL: &str = "query/tail";

/// Bytes before the content of a message of a reply: kind, length, checksum.
const HEADER_LEN: usize = 9;

/// The kind of the last message of a reply.
const END: u8 = 5;

/// Rebuilds the query side of a node with faulty peers, or without read repair where repair would hide the bug.
pub(crate) fn inject(bug: InjectedBug, mut node: Node) -> Node {
    let faulty = [
        InjectedBug::NotMerged,
        InjectedBug::DownNodesIgnored,
        InjectedBug::PartialReportedComplete,
        InjectedBug::TruncatedReportedComplete,
        InjectedBug::TailWithoutPeers,
    ];
    if faulty.contains(&bug) {
        let peers = Arc::clone(node.query_server.peers());
        let peers = FaultyPeers { bug, peers, tasks: Arc::clone(&node.tasks) };
        node.query_server = QueryServer::new(Arc::clone(&node.engine), Arc::clone(&node.tasks), Arc::new(peers));
        node.query_server.register(&node.cluster.router());
    } else if !bug.is_repaired() {
        return node;
    }
    node.scatter = Scatter::new(Arc::clone(&node.query_server), ReplyTimeouts::default(), None);
    node
}

#[derive(Debug)]
struct FaultyPeers {
    bug: InjectedBug,
    peers: Arc<dyn QueryPeers>,
    tasks: Arc<dyn Tasks>,
}

impl FaultyPeers {
    fn peer(&self, peer: QueryPeer) -> QueryPeer {
        match self.bug {
            InjectedBug::PartialReportedComplete => QueryPeer { queue_oldest: None, is_store: false, ..peer },
            _ => peer,
        }
    }
}

impl QueryPeers for FaultyPeers {
    fn local_peer(&self) -> QueryPeer {
        self.peer(self.peers.local_peer())
    }

    fn remote_peers(&self) -> Vec<QueryPeer> {
        let others = self.peers.remote_peers().into_iter().map(|peer| self.peer(peer));
        match self.bug {
            InjectedBug::NotMerged => Vec::new(),
            InjectedBug::DownNodesIgnored => others.filter(|peer| peer.is_live).collect(),
            _ => others.collect(),
        }
    }

    fn is_joining(&self) -> bool {
        self.bug != InjectedBug::PartialReportedComplete && self.peers.is_joining()
    }

    fn replication_factor(&self) -> usize {
        self.peers.replication_factor()
    }

    fn changed(&self) -> BoxFuture<()> {
        self.peers.changed()
    }

    fn ready(&self) -> BoxFuture<()> {
        self.peers.ready()
    }

    fn call(&self, node: Id, name: &str, body: Body) -> BoxFuture<io::Result<Body>> {
        let call = self.peers.call(node, name, body);
        let (bug, tasks) = (self.bug, Arc::clone(&self.tasks));
        match bug {
            InjectedBug::TruncatedReportedComplete => {}
            InjectedBug::TailWithoutPeers if name == TAIL => {}
            _ => return call,
        }
        Box::pin(async move {
            let reply = call.await?;
            let (writer, body) = Body::channel();
            tasks.spawn(Box::pin(async move {
                match bug {
                    InjectedBug::TailWithoutPeers => forward_first_message(reply, writer).await,
                    _ => forward_with_end(reply, writer).await,
                }
            }));
            Ok(body)
        })
    }
}

/// Forwards only the first message.
async fn forward_first_message(mut reply: Body, writer: BodyWriter) {
    let mut messages = MessageSplitter::default();
    while let Some(Ok(piece)) = reply.next().await {
        if let Some(message) = messages.push(&piece).into_iter().next() {
            let _ = writer.send(message).await;
            break;
        }
    }
    writer.closed().await;
}

/// Forwards messages, and ends a truncated reply as if it were complete.
async fn forward_with_end(mut reply: Body, writer: BodyWriter) {
    let mut messages = MessageSplitter::default();
    loop {
        let piece = tokio::select! { biased;
            () = writer.closed() => return,
            piece = reply.next() => piece,
        };
        match piece {
            Some(Ok(piece)) => {
                for message in messages.push(&piece) {
                    if writer.send(message).await.is_err() {
                        return;
                    }
                }
            }
            end => {
                if end.is_some() {
                    let _ = writer.send(end_message()).await;
                }
                let _ = writer.end().await;
                return;
            }
        }
    }
}

fn end_message() -> Vec<u8> {
    let content = br#"{"version":1}"#;
    let mut message = vec![END];
    message.extend_from_slice(&(content.len() as u32).to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c(&message), content);
    message.extend_from_slice(&sum.to_le_bytes());
    message.extend_from_slice(content);
    message
}

/// Collects whole messages from pieces.
#[derive(Default)]
struct MessageSplitter(Vec<u8>);

impl MessageSplitter {
    fn push(&mut self, piece: &[u8]) -> Vec<Vec<u8>> {
        self.0.extend_from_slice(piece);
        let mut whole = Vec::new();
        while let Some([_, a, b, c, d, ..]) = self.0.first_chunk::<HEADER_LEN>() {
            let end = HEADER_LEN + u32::from_le_bytes([*a, *b, *c, *d]) as usize;
            if self.0.len() < end {
                break;
            }
            let rest = self.0.split_off(end);
            whole.push(std::mem::replace(&mut self.0, rest));
        }
        whole
    }
}
