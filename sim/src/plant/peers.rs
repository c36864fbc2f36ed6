//! Nodes that are asked, and coverage, with what is wrong with them.

use std::io;
use std::sync::Arc;

use bucksaw_doors::{Body, BodyWriter, Tasks, Waiting};
use bucksaw_query::{Gossiped, Peer, Peers};
use bucksaw_record::Id;

use super::Mutation;

/// The call for new records.
const TAIL: &str = "query/tail";

/// Bytes before the content of a message of an answer: its kind, its length, a checksum.
const HEADER_LEN: usize = 9;

/// The kind of an answer's last message.
const END: u8 = 5;

/// Who is asked besides the node itself.
pub(crate) fn planted(mutation: Option<Mutation>, peers: Gossiped, tasks: &Arc<dyn Tasks>) -> Arc<dyn Peers> {
    let odd = [
        Mutation::NotMerged,
        Mutation::DownPassedOver,
        Mutation::PartialToldComplete,
        Mutation::CutOffToldWhole,
        Mutation::TailDeaf,
    ];
    match mutation.filter(|mutation| odd.contains(mutation)) {
        Some(mutation) => Arc::new(Odd { mutation, peers, tasks: Arc::clone(tasks) }),
        None => Arc::new(peers),
    }
}

#[derive(Debug)]
struct Odd {
    mutation: Mutation,
    peers: Gossiped,
    tasks: Arc<dyn Tasks>,
}

impl Odd {
    fn peer(&self, peer: Peer) -> Peer {
        match self.mutation {
            Mutation::PartialToldComplete => Peer { queue_from: None, store: false, ..peer },
            _ => peer,
        }
    }
}

impl Peers for Odd {
    fn own(&self) -> Peer {
        self.peer(self.peers.own())
    }

    fn others(&self) -> Vec<Peer> {
        let others = self.peers.others().into_iter().map(|peer| self.peer(peer));
        match self.mutation {
            Mutation::NotMerged => Vec::new(),
            Mutation::DownPassedOver => others.filter(|peer| peer.live).collect(),
            _ => others.collect(),
        }
    }

    fn is_awaiting(&self) -> bool {
        self.mutation != Mutation::PartialToldComplete && self.peers.is_awaiting()
    }

    fn copies(&self) -> usize {
        self.peers.copies()
    }

    fn changed(&self) -> Waiting<()> {
        self.peers.changed()
    }

    fn call(&self, node: Id, name: &str, body: Body) -> Waiting<io::Result<Body>> {
        let call = self.peers.call(node, name, body);
        let (mutation, tasks) = (self.mutation, Arc::clone(&self.tasks));
        match mutation {
            Mutation::CutOffToldWhole => {}
            Mutation::TailDeaf if name == TAIL => {}
            _ => return call,
        }
        Box::pin(async move {
            let answer = call.await?;
            let (writer, body) = Body::channel();
            tasks.spawn(Box::pin(async move {
                match mutation {
                    Mutation::TailDeaf => deaf(answer, writer).await,
                    _ => whole(answer, writer).await,
                }
            }));
            Ok(body)
        })
    }
}

/// Hands on the first message, and nothing more.
async fn deaf(mut answer: Body, writer: BodyWriter) {
    let mut messages = Messages::default();
    while let Some(Ok(piece)) = answer.next().await {
        if let Some(message) = messages.push(&piece).into_iter().next() {
            let _ = writer.send(message).await;
            break;
        }
    }
    writer.gone().await;
}

/// Hands messages on, and where they are cut off says that they were all.
async fn whole(mut answer: Body, writer: BodyWriter) {
    let mut messages = Messages::default();
    loop {
        let piece = tokio::select! { biased;
            () = writer.gone() => return,
            piece = answer.next() => piece,
        };
        match piece {
            Some(Ok(piece)) => {
                for message in messages.push(&piece) {
                    if writer.send(message).await.is_err() {
                        return;
                    }
                }
            }
            ended => {
                if ended.is_some() {
                    let _ = writer.send(end()).await;
                }
                let _ = writer.end().await;
                return;
            }
        }
    }
}

fn end() -> Vec<u8> {
    let content = br#"{"version":1}"#;
    let mut message = vec![END];
    message.extend_from_slice(&(content.len() as u32).to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c(&message), content);
    message.extend_from_slice(&sum.to_le_bytes());
    message.extend_from_slice(content);
    message
}

/// Takes whole messages out of pieces.
#[derive(Default)]
struct Messages(Vec<u8>);

impl Messages {
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
