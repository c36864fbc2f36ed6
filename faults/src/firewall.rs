//! Packets that do not arrive: rules of the firewall, in a table of their own.
//!
//! Nodes are told apart by the users that they run as, for a connection to another node comes from any loopback address.
//! A packet that is to be lost is marked where it is sent and dropped where it would arrive, as on a network: the sender
//! is not told.

use std::net::Ipv4Addr;

use crate::cleanup_guard::CleanupGuard;
use crate::run_command;

/// Marks what is to be dropped.
const MARK: &str = "0xb5";

/// Who sends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PacketSender {
    /// The node of this user.
    User(u32),
    /// Whoever is no node.
    Anybody,
}

/// A table of rules. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Firewall {
    table: String,
}

impl Firewall {
    /// Fails where there is no `nft`, or where this user must not.
    pub(crate) fn create(cleanup: &CleanupGuard) -> anyhow::Result<Self> {
        let table = format!("bucksaw_faults_{}", std::process::id());
        let firewall = Self { table };
        cleanup.register_undo(&format!("nft delete table inet {}", firewall.table));
        firewall.nft(&format!(
            "add table inet {0}; \
             add chain inet {0} sent {{ type filter hook output priority 0; }}; \
             add chain inet {0} come {{ type filter hook input priority 0; }}; \
             add rule inet {0} come meta mark {MARK} drop",
            firewall.table
        ))?;
        Ok(firewall)
    }

    fn nft(&self, rules: &str) -> anyhow::Result<()> {
        run_command("nft", &[rules])
    }

    /// Loses so many of a hundred packets on the way.
    pub(crate) fn drop_packets(&self, from: PacketSender, to: Ipv4Addr, percent: u32) -> anyhow::Result<()> {
        let who = match from {
            PacketSender::User(user) => format!("meta skuid {user}"),
            PacketSender::Anybody => "meta skuid < 61000".to_owned(),
        };
        let chance = if percent < 100 { format!("numgen random mod 100 < {percent}") } else { String::new() };
        self.nft(&format!("add rule inet {} sent {who} ip daddr {to} {chance} meta mark set {MARK}", self.table))
    }

    /// Loses all that a node sends to whoever is no node.
    pub(crate) fn isolate(&self, user: u32) -> anyhow::Result<()> {
        self.nft(&format!("add rule inet {} sent meta skuid {user} meta mark set {MARK}", self.table))
    }

    /// Everything arrives again.
    pub(crate) fn clear(&self) -> anyhow::Result<()> {
        self.nft(&format!("flush chain inet {} sent", self.table))
    }
}

impl Drop for Firewall {
    fn drop(&mut self) {
        // One that was not built cannot be taken down.
        let _ = self.nft(&format!("delete table inet {}", self.table));
    }
}
