//! Bugs in the replies to calls of other nodes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::Body;
use bucksaw_ingest::lease::{ACK, AckRequest, FETCH, FetchReply, FetchRequest, LeaseServer, QueueBacklogStatus, WAIT};
use bucksaw_node::Node;
use bucksaw_record::Id;
use bucksaw_rpc::{encode_head, message_body, read_head, read_message};
use bucksaw_store::PUT;
use bucksaw_store::erasure::ERASURES;
use bucksaw_store::repair::{HELD_IDS, Repair};

use super::InjectedBug;

/// More than the length of any segment in a simulation.
const BODY_BYTES_MAX: usize = 64 << 20;

/// Replaces the calls that the bug changes.
pub(crate) fn inject(bug: InjectedBug, node: &Node) {
    let router = node.cluster.router();
    let node = node.clone();
    match bug {
        InjectedBug::RepairPassSkipped => {
            if let Some(repair) = &node.repair {
                skip_repair_passes(&node, repair);
            }
        }
        InjectedBug::PutDiscarded | InjectedBug::PutAcknowledgedEarly | InjectedBug::PutAcknowledgedUnread
            if node.roles.store =>
        {
            router.add(PUT, move |body: Body| put(bug, node.clone(), body));
        }
        InjectedBug::FetchCommits | InjectedBug::LeaseNeverExpires | InjectedBug::SomeSegmentsDropped => {
            router.add(FETCH, move |body: Body| fetch(bug, node.clone(), body));
        }
        InjectedBug::AckForgotten | InjectedBug::SomeAcksForgotten | InjectedBug::AckCommitsReturned => {
            router.add(ACK, move |body: Body| ack(bug, node.clone(), body));
        }
        InjectedBug::HeldReportedFalsely if node.roles.store => router.add(HELD_IDS, report_all_held),
        InjectedBug::ErasureForgotten => router.add(ERASURES, |_: Body| async { empty_reply() }),
        InjectedBug::WaitNeverDue => router.add(WAIT, move |body: Body| wait(node.clone(), body)),
        _ => {}
    }
}

/// Interval of the false facts; shorter than that of their publication.
const FALSIFY_INTERVAL: Duration = Duration::from_millis(50);

/// Claims that each store is re-replicated as soon as it counts as lost.
fn skip_repair_passes(node: &Node, repair: &Arc<Repair>) {
    let (own, repair) = (node.clone(), Arc::clone(repair));
    node.tasks.spawn(Box::pin(async move {
        loop {
            own.tasks.sleep(FALSIFY_INTERVAL).await;
            let lost_stores = repair.status().lost_stores;
            let members = own.cluster.members();
            let lost = members.iter().filter(|member| lost_stores.contains(&member.facts.node) && !member.is_live());
            let claimed: Vec<u64> = lost.map(|member| member.facts.fingerprint()).collect();
            if own.cluster.facts().re_replicated != claimed {
                own.cluster.update_facts(|facts| facts.re_replicated = claimed);
            }
        }
    }));
}

fn empty_reply() -> io::Result<Body> {
    message_body(&serde_json::json!({}))
}

async fn put(bug: InjectedBug, node: Node, body: Body) -> io::Result<Body> {
    let Some(receive) = node.replication.clone() else { return empty_reply() };
    match bug {
        InjectedBug::PutAcknowledgedUnread => {
            node.tasks.spawn(Box::pin(async move { drop(receive.answer_put(body).await) }));
        }
        _ => {
            let whole = body.read_all(BODY_BYTES_MAX).await?;
            if bug == InjectedBug::PutAcknowledgedEarly {
                node.tasks.spawn(Box::pin(async move { drop(receive.answer_put(Body::whole(whole)).await) }));
            }
        }
    }
    empty_reply()
}

async fn fetch(bug: InjectedBug, node: Node, body: Body) -> io::Result<Body> {
    let server = LeaseServer::new(Arc::clone(&node.queue), Arc::clone(&node.tasks));
    let mut request: FetchRequest = read_message(body).await?;
    if bug == InjectedBug::LeaseNeverExpires {
        request.lease_ms = u64::MAX;
    }
    let (mut reply, mut rest) = read_head::<FetchReply>(server.fetch(message_body(&request)?).await?).await?;
    if bug == InjectedBug::FetchCommits {
        node.queue.commit(&reply.segments.iter().map(|segment| segment.id).collect::<Vec<Id>>());
    }
    let mut files = Vec::new();
    while let Some(piece) = rest.next_chunk(u64::MAX).await? {
        files.extend_from_slice(&piece);
    }
    if bug == InjectedBug::SomeSegmentsDropped {
        let dropped = drop_some_segments(&mut reply, &mut files);
        node.queue.commit(&dropped);
    }
    Ok(Body::whole([&encode_head(&reply)?[..], &files].concat()))
}

/// Whether a bug affects this segment: one in eight.
fn is_affected(segment: Id) -> bool {
    crc32c::crc32c(segment.to_string().as_bytes()).is_multiple_of(8)
}

/// Removes the affected segments from a reply and the files behind it. Returns their ids.
fn drop_some_segments(reply: &mut FetchReply, files: &mut Vec<u8>) -> Vec<Id> {
    let mut end = 0;
    let dropped = reply.segments.extract_if(.., |segment| {
        let file = end..end + segment.bytes as usize;
        let is_dropped = is_affected(segment.id) && file.end <= files.len();
        if is_dropped {
            files.drain(file);
        } else {
            end = file.end;
        }
        is_dropped
    });
    dropped.map(|segment| segment.id).collect()
}

async fn ack(bug: InjectedBug, node: Node, body: Body) -> io::Result<Body> {
    let mut request: AckRequest = read_message(body).await?;
    if bug == InjectedBug::AckForgotten {
        return empty_reply();
    }
    if bug == InjectedBug::SomeAcksForgotten {
        request.stored.retain(|segment| !is_affected(*segment));
    } else {
        request.stored.append(&mut request.returned);
    }
    let server = LeaseServer::new(Arc::clone(&node.queue), Arc::clone(&node.tasks));
    server.ack(message_body(&request)?).await
}

/// Replies with the requested ids, as if all were held.
async fn report_all_held(body: Body) -> io::Result<Body> {
    let (request, mut rest) = read_head::<serde_json::Value>(body).await?;
    let mut bytes = encode_head(&serde_json::json!({"bytes": request["bytes"], "crc": request["crc"]}))?.to_vec();
    while let Some(piece) = rest.next_chunk(u64::MAX).await? {
        bytes.extend_from_slice(&piece);
    }
    Ok(Body::whole(bytes))
}

async fn wait(node: Node, body: Body) -> io::Result<Body> {
    let server = LeaseServer::new(Arc::clone(&node.queue), Arc::clone(&node.tasks));
    let status: QueueBacklogStatus = read_message(server.wait(body).await?).await?;
    message_body(&QueueBacklogStatus { due: false, ..status })
}
