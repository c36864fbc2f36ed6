//! New records of a whole cluster, as they come.
//!
//! Those of one node come in the order in which it accepted them; those of different nodes in no order. A record that more
//! than one node accepted (a client sent it again, elsewhere) comes once, unless so many came between that it is not
//! remembered. Nodes that join are followed from then on; a node that is lost, or down from the beginning, is told of, and
//! followed again when it is back, from then on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bucksaw_doors::Waiting;
use bucksaw_record::Id;

use super::Scatter;
use super::batch::{Batch, Stretch};
use super::message::Broken;
use super::peers::Peer;
use super::question::Question;
use super::serve::TAIL;
use super::source::{Heard, Source, senseless};
use crate::request::Request;
use crate::stats::Why;

/// A follower remembers an id for each 2 KiB of the memory of queries, between these: 1 to 4 MB of ids. With fewer, records
/// that two nodes accepted would be shown twice under little load.
const BYTES_PER_REMEMBERED: u64 = 2_048;
const REMEMBERED_MIN: u64 = 16_384;
const REMEMBERED_MAX: u64 = 65_536;

/// A node that was lost is asked again so often.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

/// What a follower is shown.
#[derive(Debug)]
#[non_exhaustive]
pub enum Followed {
    /// Records of one node.
    Records(Vec<Stretch>),
    /// The follower was too slow for a node, which passed over so many bytes.
    Skipped {
        /// Its address.
        address: String,
        /// Bytes of its queue.
        bytes: u64,
    },
    /// A node is not followed any more: what it accepts is not shown.
    Lost {
        /// Its address.
        address: String,
        /// Why.
        why: Why,
    },
    /// A node is followed that was not before, or was lost. What it accepted before is not shown.
    Joined {
        /// Its address.
        address: String,
    },
}

/// Follows new records. Dropping it ends the work on all nodes.
pub struct Follow {
    scatter: Arc<Scatter>,
    question: Vec<u8>,
    lanes: BTreeMap<Id, Lane>,
    /// When the list of nodes has changed, or those that were lost are asked again.
    look: Option<(Waiting<()>, Waiting<()>)>,
    remembered: Remembered,
    /// What is to be told before anything else.
    told: VecDeque<Followed>,
}

struct Lane {
    address: String,
    source: Option<Source>,
    /// Whether it was there from the beginning, or its loss was told of.
    silent: bool,
    lost: bool,
    bytes_lost: u64,
}

impl std::fmt::Debug for Follow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follow").field("nodes", &self.lanes.len()).finish_non_exhaustive()
    }
}

enum Event {
    Heard(Id, Box<Result<Heard, Why>>),
    Look,
}

impl Follow {
    pub(super) fn start(scatter: &Arc<Scatter>, request: &Request) -> Self {
        let question = Question::new(request).encode();
        let remembered = scatter.engine().config.held_bytes_max / BYTES_PER_REMEMBERED;
        let remembered = Remembered::new(remembered.clamp(REMEMBERED_MIN, REMEMBERED_MAX));
        let (lanes, told) = (BTreeMap::new(), VecDeque::new());
        let mut follow = Self { scatter: Arc::clone(scatter), question, lanes, look: None, remembered, told };
        follow.look_around(true);
        follow
    }

    /// What comes next. It has no end. When this is dropped before it is done, nothing is lost.
    pub async fn next(&mut self) -> Followed {
        loop {
            if let Some(told) = self.told.pop_front() {
                return told;
            }
            let event = match self.wait().await {
                Event::Look => {
                    self.look = None;
                    self.look_around(false);
                    continue;
                }
                Event::Heard(node, heard) => self.take(node, *heard),
            };
            if let Some(event) = event {
                return event;
            }
        }
    }

    async fn wait(&mut self) -> Event {
        let Self { scatter, look, lanes, .. } = self;
        let (changed, again) =
            look.get_or_insert_with(|| (scatter.peers.changed(), scatter.watch.tasks.sleep(AGAIN_AFTER)));
        poll_fn(|context| {
            for (node, lane) in lanes.iter_mut() {
                if let Some(source) = &mut lane.source
                    && let Poll::Ready(heard) = source.poll_next(context)
                {
                    return Poll::Ready(Event::Heard(*node, Box::new(heard)));
                }
            }
            let looked =
                [changed.as_mut(), again.as_mut()].into_iter().any(|wait: Pin<&mut _>| wait.poll(context).is_ready());
            if looked { Poll::Ready(Event::Look) } else { Poll::Pending }
        })
        .await
    }

    /// Asks the nodes that are there and not followed.
    fn look_around(&mut self, first: bool) {
        let nodes = self.scatter.nodes();
        self.lanes.retain(|node, lane| lane.source.is_some() || nodes.iter().any(|peer| peer.node == *node));
        for (at, peer) in nodes.into_iter().enumerate() {
            let own = at == 0;
            let Peer { node, address, live, queue_from, .. } = peer;
            let lane = self.lanes.entry(node).or_insert_with(|| Lane {
                address: address.clone(),
                source: None,
                silent: first,
                lost: false,
                bytes_lost: 0,
            });
            if lane.source.is_none() && live {
                let call = self.scatter.call((!own).then_some(node), TAIL, &self.question);
                lane.source = Some(Source::ask(self.scatter.watch.clone(), self.scatter.watch.clock.uptime(), call));
                lane.bytes_lost = 0;
            }
            // Who takes in nothing has nothing to be missed.
            if lane.source.is_none() && !live && queue_from.is_some() && !std::mem::replace(&mut lane.lost, true) {
                self.told.push_back(Followed::Lost { address, why: Why::Down });
            }
        }
    }

    fn take(&mut self, node: Id, heard: Result<Heard, Why>) -> Option<Followed> {
        let lane = self.lanes.get_mut(&node)?;
        let address = lane.address.clone();
        let why = match heard {
            Ok(Heard::Head(_)) => {
                let silent = std::mem::replace(&mut lane.silent, false) && !lane.lost;
                lane.lost = false;
                return (!silent).then_some(Followed::Joined { address });
            }
            Ok(Heard::Progress(told)) => {
                let bytes = told.bytes_lost.saturating_sub(lane.bytes_lost);
                lane.bytes_lost = lane.bytes_lost.max(told.bytes_lost);
                return (bytes > 0).then_some(Followed::Skipped { address, bytes });
            }
            Ok(Heard::Batch(content)) => match Batch::decode(&content) {
                Ok(batch) => {
                    let new = self.remembered.new_of(&Arc::new(batch));
                    return (!new.is_empty()).then_some(Followed::Records(new));
                }
                Err(broken) => senseless(broken),
            },
            Ok(Heard::End(_)) => Why::CutOff,
            Ok(Heard::Cells(_)) => senseless(Broken("counts were not asked for")),
            Err(why) => why,
        };
        lane.source = None;
        // It is told of once, however often it is asked again in vain.
        let told = std::mem::replace(&mut lane.lost, true);
        (!told).then_some(Followed::Lost { address, why })
    }
}

/// The ids that came last.
#[derive(Debug)]
struct Remembered {
    most: usize,
    ids: BTreeSet<Id>,
    order: VecDeque<Id>,
}

impl Remembered {
    /// Nothing yet, and at most this number of ids.
    fn new(most: u64) -> Self {
        Self { most: usize::try_from(most).unwrap_or(usize::MAX), ids: BTreeSet::new(), order: VecDeque::new() }
    }

    /// The records of a batch that did not come before.
    fn new_of(&mut self, batch: &Arc<Batch>) -> Vec<Stretch> {
        let mut new: Vec<Stretch> = Vec::new();
        for (at, id) in batch.ids().iter().enumerate() {
            if !self.ids.insert(*id) {
                continue;
            }
            self.order.push_back(*id);
            if self.order.len() > self.most
                && let Some(oldest) = self.order.pop_front()
            {
                self.ids.remove(&oldest);
            }
            let stretch = Stretch::new(batch, at, at + 1);
            match new.last_mut() {
                Some(last) if last.goes_on_with(&stretch) => last.extend(&stretch),
                _ => new.push(stretch),
            }
        }
        new
    }
}
