//! The beginning: what was kept, and a new incarnation.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bucksaw_doors::Repeats;
use bucksaw_record::Id;

use super::own::after;
use super::probe::Probes;
use super::{Actor, Alarm, Given, now};
use crate::awaited::Awaited;
use crate::gossip::Gossip;
use crate::identity::Identity;
use crate::keep::Keep;
use crate::reach::Reach;
use crate::strange::Strangers;
use crate::table::{Table, Times};
use crate::timers::Timers;
use crate::{Facts, Version};

impl Actor {
    /// Reads what was kept.
    ///
    /// # Errors
    /// As [`crate::Cluster::start`].
    pub(crate) fn new(given: Given) -> io::Result<Self> {
        let keep = Keep::new(given.doors.fs.clone(), &given.config.data_dir);
        let started = now(&given.doors);
        let kept = keep.read()?;
        let last = kept.as_ref().map_or(Id::MIN, |kept| kept.incarnation);
        let me = Identity {
            node: given.me.borrow().node,
            incarnation: after(last, &given.doors),
            address: plain(given.net.address()),
        };
        let config = &given.config;
        let knows = kept.as_ref().is_some_and(|kept| !kept.awaiting && !kept.members.is_empty());
        let awaited = Awaited::new(&config.join, knows, given.awaiting.clone());
        let grace = config.suspect_time + 2 * config.probe_period;
        let times = Times { remember: config.remember, grace, twins: 3 * grace };
        let mut table = Table::new(me.node, times);
        for entry in kept.into_iter().flat_map(|kept| kept.members) {
            table.hear(entry, started);
        }
        let own = Facts { incarnation: me.incarnation, version: 1, address: me.address, ..given.me.borrow().clone() };
        let Version { major, minor } = config.speaks;
        let own = Facts { protocol: major, protocol_minor: minor, left: false, ..own };
        if !own.is_sound() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the node's address or one for its clients is none that others could use",
            ));
        }
        let gossip = Gossip::new(me, config, given.doors.entropy.clone());
        let reach = Reach::new(config.exchange_period);
        let mut timers = Timers::new();
        timers.add(started.uptime, Alarm::Tick);
        let mut actor = Self {
            given,
            table,
            gossip,
            reach,
            awaited,
            timers,
            keep,
            own: Arc::new(own),
            refused: false,
            started,
            telling: BTreeSet::new(),
            probes: Probes::default(),
            told: None,
            doubted: started.uptime,
            succeeded: None,
            twins: BTreeMap::new(),
            strangers: Strangers::default(),
            apart: BTreeMap::new(),
            unsaved: [true, false],
            saved: None,
            saving: false,
            save_errors: Repeats::new(),
            goodbyes: Vec::new(),
            left: false,
        };
        actor.own_up();
        actor.settle();
        Ok(actor)
    }
}

/// An address without what is of this machine only.
pub(super) fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port())
}
