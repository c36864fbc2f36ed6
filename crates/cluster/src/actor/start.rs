//! Starts the actor: reads the member file and begins a new incarnation.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bucksaw_env::LogLimits;
use bucksaw_record::Id;

use super::local_facts::incarnation_after;
use super::{Actor, ActorContext, ActorTimer, clock_reading};
use crate::Facts;
use crate::bootstrap::Bootstrap;
use crate::exchange_schedule::ExchangeSchedule;
use crate::gossip::Gossip;
use crate::identity::Identity;
use crate::incompatible::IncompatiblePeers;
use crate::join_state::DuplicateProbes;
use crate::member_file::MemberFile;
use crate::table::{MemberTable, TableTimeouts};
use crate::timers::Timers;

impl Actor {
    /// Creates the actor from the member file.
    ///
    /// # Errors
    /// As [`crate::Cluster::start`].
    pub(crate) fn new(context: ActorContext) -> io::Result<Self> {
        let member_file = MemberFile::new(context.env.fs.clone(), &context.config.data_dir);
        let started = clock_reading(&context.env);
        let persisted = member_file.read()?;
        let last = persisted.as_ref().map_or(Id::MIN, |persisted| persisted.incarnation);
        let me = Identity {
            node: context.facts.borrow().node,
            incarnation: incarnation_after(last, &context.env),
            address: without_scope(context.net.address()),
        };
        let config = &context.config;
        let is_complete = persisted.as_ref().is_some_and(|file| !file.is_bootstrapping && !file.members.is_empty());
        let bootstrap = Bootstrap::new(&config.join, is_complete, context.bootstrapping.clone());
        let grace = config.suspect_timeout + 2 * config.probe_period;
        let times = TableTimeouts { remember: config.remember_for, grace, duplicate_after: 3 * grace };
        let mut table = MemberTable::new(me.node, times);
        for entry in persisted.into_iter().flat_map(|persisted| persisted.members) {
            table.merge(entry, started);
        }
        let own = Facts {
            incarnation: me.incarnation,
            version: 1,
            address: me.address,
            protocol: config.version.major,
            protocol_minor: config.version.minor,
            left: false,
            ..context.facts.borrow().clone()
        };
        if !own.is_valid() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "node address or client address is not reachable from other nodes",
            ));
        }
        let gossip = Gossip::new(me, config, context.env.entropy.clone());
        let exchange_schedule = ExchangeSchedule::new(config.exchange_period);
        let mut timers = Timers::new();
        timers.add(started.uptime, ActorTimer::Tick);
        let mut actor = Self {
            log_limits: LogLimits::new(Arc::clone(&context.env.clock)),
            context,
            table,
            gossip,
            exchange_schedule,
            bootstrap,
            timers,
            member_file,
            local_facts: Arc::new(own),
            is_invalid_facts_logged: false,
            started,
            announcing: BTreeSet::new(),
            probes: DuplicateProbes::default(),
            facts_sent_at: None,
            suspects_notified_at: started.uptime,
            incarnation_raised_at: None,
            duplicates: BTreeMap::new(),
            incompatible_peers: IncompatiblePeers::default(),
            version_skews: BTreeMap::new(),
            unsaved: [true, false],
            saved: None,
            saving: false,
            leave_replies: Vec::new(),
            has_left: false,
        };
        actor.publish_local_facts();
        actor.update_liveness();
        Ok(actor)
    }
}

/// An address without the IPv6 scope, which is local to a machine.
pub(super) fn without_scope(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port())
}
