//! Drops packets with firewall rules in a separate nft table.
//!
//! Nodes are identified by the user that they run as, because a connection to another node may use any loopback
//! address. A packet is marked on output and dropped on input, as on a network: the sender gets no error.

use std::net::Ipv4Addr;

use crate::cleanup_guard::CleanupGuard;
use crate::run_command;

/// Marks packets to drop.
const MARK: &str = "0xb5";

/// The sender of packets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PacketSender {
    /// The node that runs as this user.
    User(u32),
    /// Any process that is not a node.
    Anybody,
}

/// A table of rules, removed on drop.
#[derive(Debug)]
pub(crate) struct Firewall {
    table: String,
}

impl Firewall {
    /// Creates the table. Fails without `nft` or without permission.
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

    /// Drops a percentage of packets between two senders.
    pub(crate) fn drop_packets(&self, from: PacketSender, to: Ipv4Addr, percent: u32) -> anyhow::Result<()> {
        let who = match from {
            PacketSender::User(user) => format!("meta skuid {user}"),
            PacketSender::Anybody => "meta skuid < 61000".to_owned(),
        };
        let chance = if percent < 100 { format!("numgen random mod 100 < {percent}") } else { String::new() };
        self.nft(&format!("add rule inet {} sent {who} ip daddr {to} {chance} meta mark set {MARK}", self.table))
    }

    /// Drops all packets from a node to processes that are not nodes.
    pub(crate) fn isolate(&self, user: u32) -> anyhow::Result<()> {
        self.nft(&format!("add rule inet {} sent meta skuid {user} meta mark set {MARK}", self.table))
    }

    /// Removes all rules.
    pub(crate) fn clear(&self) -> anyhow::Result<()> {
        self.nft(&format!("flush chain inet {} sent", self.table))
    }
}

impl Drop for Firewall {
    fn drop(&mut self) {
        // Fails if the table does not exist.
        let _ = self.nft(&format!("delete table inet {}", self.table));
    }
}
