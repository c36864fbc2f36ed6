//! Calls of other nodes that are answered wrongly.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_doors::Body;
use bucksaw_ingest::handover::{
    Handover, SETTLE, Settle, TAKE, Take, Taken, WAIT, Waits, head, message, read_head, read_message,
};
use bucksaw_node::Node;
use bucksaw_record::Id;
use bucksaw_store::repair::{IDS, Repair};
use bucksaw_store::{PUT, Receive};

use super::Mutation;

/// More than any copy in a simulation has.
const BODY_BYTES_MAX: usize = 64 << 20;

/// Answers calls of a node as the mutation wants it.
pub(crate) fn plant(mutation: Mutation, node: &Node) {
    let router = node.cluster.router();
    let node = node.clone();
    match mutation {
        Mutation::PutThrownAway | Mutation::PutToldEarly | Mutation::PutToldUnread if node.roles.store => {
            router.add(PUT, move |body: Body| put(mutation, node.clone(), body));
        }
        Mutation::TakeCommits | Mutation::LeaseForEver => {
            router.add(TAKE, move |body: Body| take(mutation, node.clone(), body));
        }
        Mutation::SettleForgotten | Mutation::SettleCommitsReturned => {
            router.add(SETTLE, move |body: Body| settle(mutation, node.clone(), body));
        }
        Mutation::HeldToldFalsely if node.roles.store => router.add(IDS, held),
        Mutation::WaitNeverDue => router.add(WAIT, move |body: Body| wait(node.clone(), body)),
        _ => {}
    }
}

/// How often facts are falsified: oftener than nodes tell them.
const FALSIFY: Duration = Duration::from_millis(50);

/// Declares each store made good as soon as it counts as lost.
pub(crate) fn skip_walks(node: &Node, repair: &Arc<Repair>) {
    let (own, repair) = (node.clone(), Arc::clone(repair));
    node.tasks.spawn(Box::pin(async move {
        loop {
            own.tasks.sleep(FALSIFY).await;
            let lost = repair.status().lost;
            let members = own.cluster.members();
            let gone = members.iter().filter(|member| lost.contains(&member.facts.node) && !member.is_live());
            let made_good: Vec<u64> = gone.map(|member| member.facts.mark()).collect();
            if own.cluster.facts().made_good != made_good {
                own.cluster.update(|facts| facts.made_good = made_good);
            }
        }
    }));
}

fn nothing() -> io::Result<Body> {
    message(&serde_json::json!({}))
}

async fn put(mutation: Mutation, node: Node, body: Body) -> io::Result<Body> {
    let receive = Receive::new(node.linked());
    match mutation {
        Mutation::PutToldUnread => {
            node.tasks.spawn(Box::pin(async move { drop(receive.put(body).await) }));
        }
        _ => {
            let whole = body.read_all(BODY_BYTES_MAX).await?;
            if mutation == Mutation::PutToldEarly {
                node.tasks.spawn(Box::pin(async move { drop(receive.put(Body::whole(whole)).await) }));
            }
        }
    }
    nothing()
}

async fn take(mutation: Mutation, node: Node, body: Body) -> io::Result<Body> {
    let handover = Handover::new(Arc::clone(&node.queue), Arc::clone(&node.tasks));
    let mut asked: Take = read_message(body).await?;
    if mutation == Mutation::LeaseForEver {
        asked.lease_ms = u64::MAX;
    }
    let (taken, mut rest) = read_head::<Taken>(handover.take(message(&asked)?).await?).await?;
    if mutation == Mutation::TakeCommits {
        node.queue.commit(&taken.segments.iter().map(|segment| segment.id).collect::<Vec<Id>>());
    }
    let mut bytes = head(&taken)?.to_vec();
    while let Some(piece) = rest.some(u64::MAX).await? {
        bytes.extend_from_slice(&piece);
    }
    Ok(Body::whole(bytes))
}

async fn settle(mutation: Mutation, node: Node, body: Body) -> io::Result<Body> {
    let mut asked: Settle = read_message(body).await?;
    if mutation == Mutation::SettleForgotten {
        return nothing();
    }
    asked.stored.append(&mut asked.returned);
    let handover = Handover::new(Arc::clone(&node.queue), Arc::clone(&node.tasks));
    handover.settle(message(&asked)?).await
}

/// Tells that all ids that were asked about are held: the set that follows is as it came.
async fn held(body: Body) -> io::Result<Body> {
    let (asked, mut rest) = read_head::<serde_json::Value>(body).await?;
    let mut bytes = head(&serde_json::json!({"bytes": asked["bytes"], "crc": asked["crc"]}))?.to_vec();
    while let Some(piece) = rest.some(u64::MAX).await? {
        bytes.extend_from_slice(&piece);
    }
    Ok(Body::whole(bytes))
}

async fn wait(node: Node, body: Body) -> io::Result<Body> {
    let handover = Handover::new(Arc::clone(&node.queue), Arc::clone(&node.tasks));
    let waits: Waits = read_message(handover.wait(body).await?).await?;
    message(&Waits { due: false, ..waits })
}
