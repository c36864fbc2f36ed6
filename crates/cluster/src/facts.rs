//! Facts: the metadata that a node publishes about itself, of constant size whatever it stores.
//!
//! They contain no list of segments or streams, which would grow with the data: facts are sent to all nodes each second.
//! Anything else is requested by a call.
//!
//! A minor version ([`ClusterVersion`](crate::ClusterVersion)) may add fields: unknown fields are ignored, and missing ones have defaults. No
//! field changes its meaning.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use bucksaw_record::{Id, Millis, Producer};
use serde::{Deserialize, Serialize};

use crate::version::{ClusterVersion, Formats, MINOR_MAX, PROTOCOL};

/// Maximum bytes of an address for clients.
pub const ADDRESS_BYTES_MAX: usize = 104;

/// Maximum length of [`Facts::re_replicated`].
pub const RE_REPLICATED_MAX: usize = 3;

/// The metadata of a node.
///
/// The crate sets `incarnation`, `version`, `address`, `protocol`, `protocol_minor` and `left`; the node sets the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The node id, which belongs to the data directory.
    pub node: Id,
    /// The process: higher at each start.
    pub incarnation: Id,
    /// Rises with each change within an incarnation.
    #[serde(default)]
    pub version: u64,
    /// Its address for other nodes.
    pub address: SocketAddr,
    /// Its addresses for clients.
    #[serde(default)]
    pub clients: Clients,
    /// Its roles.
    #[serde(default)]
    pub roles: Roles,
    /// Its [`PROTOCOL`], the major version.
    #[serde(default)]
    pub protocol: u32,
    /// Its minor version.
    #[serde(default, rename = "minor")]
    pub protocol_minor: u32,
    /// The file formats that it reads and writes.
    #[serde(default)]
    pub formats: Formats,
    /// Its ingest load.
    #[serde(default)]
    pub load: Load,
    /// Records in its queue that no store has acknowledged.
    #[serde(default)]
    pub queue: DataSummary,
    /// Records in its store.
    #[serde(default)]
    pub stored: DataSummary,
    /// Bytes of its store at the start of the process; `None` until they are counted. An emptied store is detected by it even if
    /// other stores refill it quickly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_bytes_at_open: Option<u64>,
    /// When its last completed repair pass began, by its wall clock: no record of the stores that were lost then is
    /// under-replicated because of them. `None` before the first pass, and while as many stores are newly lost as the
    /// replication factor, because then records may have no replica left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair_pass_started: Option<Millis>,
    /// Lost stores, by the [fingerprint](Facts::fingerprint) of their last facts, after whose loss a repair pass
    /// completed here without under-replicated records. At most [`RE_REPLICATED_MAX`], those with the lowest ids. New
    /// facts of such a store end this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub re_replicated: Vec<u64>,
    /// Free bytes on the file system of its data directory.
    #[serde(default)]
    pub free_bytes: u64,
    /// It will leave soon: it answers, and accepts nothing new.
    #[serde(default)]
    pub draining: bool,
    /// It has left.
    #[serde(default)]
    pub left: bool,
}

/// The roles of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Roles {
    /// It accepts records.
    pub ingest: bool,
    /// It stores records.
    pub store: bool,
}

/// Addresses for clients as `HOST:PORT`; `None` without a listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clients {
    /// HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
    /// Lines and frames, acknowledged when written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast: Option<String>,
    /// Lines and frames, acknowledged when synced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durable: Option<String>,
    /// Lines and frames, acknowledged when replicated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bulk: Option<String>,
}

/// Ingest load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Load {
    /// Accepted bytes per second, smoothed over some seconds.
    pub bytes_per_second: u64,
    /// Connections of sources.
    pub connections: u64,
    /// 0 idle, 1 busy, 2 very busy, 3 overloaded.
    pub level: u8,
}

/// Bytes and time range of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DataSummary {
    /// Bytes.
    pub bytes: u64,
    /// The time of the oldest record; `None` without records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest: Option<Millis>,
    /// The time of the newest record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newest: Option<Millis>,
}

impl Facts {
    /// Facts of a node without roles.
    pub fn new(node: Id) -> Self {
        Self {
            node,
            incarnation: Id::MIN,
            version: 0,
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            clients: Clients::default(),
            roles: Roles::default(),
            protocol: PROTOCOL,
            protocol_minor: ClusterVersion::OWN.minor,
            formats: Formats::default(),
            load: Load::default(),
            queue: DataSummary::default(),
            stored: DataSummary::default(),
            stored_bytes_at_open: None,
            repair_pass_started: None,
            re_replicated: Vec::new(),
            free_bytes: 0,
            draining: false,
            left: false,
        }
    }

    /// The protocol version of the node.
    pub fn protocol_version(&self) -> ClusterVersion {
        ClusterVersion { major: self.protocol, minor: self.protocol_minor }
    }

    /// The order of facts of one node.
    pub(crate) fn incarnation_and_version(&self) -> (Id, u64) {
        (self.incarnation, self.version)
    }

    /// A hash of node, incarnation and version, which changes with every change of the facts: 48 bits, the same on every machine
    /// and in every version.
    pub fn fingerprint(&self) -> u64 {
        let (node, incarnation) = (self.node.bits().to_le_bytes(), self.incarnation.bits().to_le_bytes());
        Producer::from_key(&[&node[..], &incarnation, &self.version.to_le_bytes()].concat()).bits()
    }

    /// Whether every field is within its bounds.
    pub(crate) fn is_valid(&self) -> bool {
        let clients = &self.clients;
        let texts = [&clients.http, &clients.fast, &clients.durable, &clients.bulk];
        let plain = |text: &String| {
            // Only characters without escapes in JSON, so that the bound holds for the encoded text too.
            text.len() <= ADDRESS_BYTES_MAX
                && text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'))
        };
        texts.into_iter().flatten().all(plain)
            && self.incarnation.sequence() == 0
            && self.address.port() != 0
            && !self.address.ip().is_unspecified()
            && self.load.level <= 3
            && self.re_replicated.len() <= RE_REPLICATED_MAX
            && self.protocol_minor <= MINOR_MAX
            && self.formats.is_valid()
    }
}
