//! What a node tells of itself: small, and of constant size whatever it holds.
//!
//! A list of segments or of streams has no place here: it would grow with the data, and what grows cannot be told to all
//! nodes each second. Whoever wants more calls the node.
//!
//! Fields may be added, with another minor version ([`Version`](crate::Version)): who does not know one passes over it, and who
//! misses one takes its default. None may change its meaning.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use bucksaw_record::{Id, Millis, Producer};
use serde::{Deserialize, Serialize};

use crate::json_text;
use crate::version::{Formats, MINOR_MAX, PROTOCOL, Version};

/// An address for clients has at most so many bytes.
pub const ADDRESS_BYTES_MAX: usize = 104;

/// A node tells of so many stores that were made good, at most ([`Facts::made_good`]).
pub const RE_REPLICATED_MAX: usize = 3;

/// What a node tells of itself.
///
/// The crate itself keeps `incarnation`, `version`, `address`, `protocol`, `protocol_minor` and `left`; whoever starts a
/// node sets the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The node, for as long as its data directory lives.
    #[serde(with = "json_text::id")]
    pub node: Id,
    /// Since when it runs: another one at each start, and a later one is higher.
    #[serde(with = "json_text::id")]
    pub incarnation: Id,
    /// Higher whenever it tells anything new in the same incarnation.
    #[serde(default)]
    pub version: u64,
    /// Where other nodes reach it.
    pub address: SocketAddr,
    /// Where clients reach it.
    #[serde(default)]
    pub clients: Clients,
    /// What it does.
    #[serde(default)]
    pub roles: Roles,
    /// What it speaks: its own [`PROTOCOL`].
    #[serde(default)]
    pub protocol: u32,
    /// What was added to that: its own minor version.
    #[serde(default, rename = "minor")]
    pub protocol_minor: u32,
    /// The files that it can give and take.
    #[serde(default)]
    pub formats: Formats,
    /// How busy it is taking in.
    #[serde(default)]
    pub load: Load,
    /// What it has accepted and no store has taken.
    #[serde(default)]
    pub queue: DataSummary,
    /// What lies on its store.
    #[serde(default)]
    pub stored: DataSummary,
    /// Bytes of its store when it was started. None before it has counted them. A store that was emptied says so by this, however
    /// soon others fill it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_bytes_at_open: Option<u64>,
    /// When its last pass of repair that came to its end began, by its wall clock: stores that it took for lost then hold
    /// nothing that has fewer copies for it. None since its start; not told either while as many stores are newly lost as
    /// there are copies, for then records may be nowhere else.
    #[serde(default, with = "json_text::millis", skip_serializing_if = "Option::is_none")]
    pub repair_pass_started: Option<Millis>,
    /// Stores that are gone, by the [marks](Facts::mark) of the last facts that came of them: since they were taken for lost
    /// a pass of repair over all that this one holds has ended, and nothing of it is held by too few of the others. At most
    /// [`MADE_GOOD_MAX`]; of more those with the lowest ids. What it says of one ends when that one tells anything new.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub re_replicated: Vec<u64>,
    /// Room on the file system of its data directory, in bytes.
    #[serde(default)]
    pub free_bytes: u64,
    /// It will go soon: it answers, and takes nothing new.
    #[serde(default)]
    pub draining: bool,
    /// It said goodbye.
    #[serde(default)]
    pub left: bool,
}

/// What a node does. It may do both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roles {
    /// It takes in records.
    #[serde(default)]
    pub ingest: bool,
    /// It keeps records.
    #[serde(default)]
    pub store: bool,
}

/// Where clients reach a node: `HOST:PORT` each, and none where it does not listen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clients {
    /// HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
    /// Lines and frames, acknowledged when written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fast: Option<String>,
    /// Lines and frames, acknowledged when synced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable: Option<String>,
    /// Lines and frames, acknowledged when replicated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bulk: Option<String>,
}

/// How busy a node is taking in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Bytes of records accepted in a second, smoothed over some seconds.
    #[serde(default)]
    pub bytes_per_second: u64,
    /// Connections of sources.
    #[serde(default)]
    pub connections: u64,
    /// 0 idle, 1 busy, 2 very busy, 3 overloaded.
    #[serde(default)]
    pub level: u8,
}

/// How much there is, and of which time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataSummary {
    /// Bytes.
    #[serde(default)]
    pub bytes: u64,
    /// The time of the oldest record; none when there is no record.
    #[serde(default, with = "json_text::millis", skip_serializing_if = "Option::is_none")]
    pub oldest: Option<Millis>,
    /// The time of the newest record.
    #[serde(default, with = "json_text::millis", skip_serializing_if = "Option::is_none")]
    pub newest: Option<Millis>,
}

impl Facts {
    /// The facts of a node that does nothing, to be filled in.
    #[must_use]
    pub fn new(node: Id) -> Self {
        Self {
            node,
            incarnation: Id::MIN,
            version: 0,
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            clients: Clients::default(),
            roles: Roles::default(),
            protocol: PROTOCOL,
            protocol_minor: Version::OWN.minor,
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

    /// What the node speaks.
    #[must_use]
    pub fn protocol_version(&self) -> Version {
        Version { major: self.protocol, minor: self.protocol_minor }
    }

    /// Whether what is told of versions is within its bounds.
    pub(crate) fn has_valid_versions(&self) -> bool {
        self.protocol_minor <= MINOR_MAX && self.formats.is_valid()
    }

    /// What tells two facts of one node apart, the newer higher.
    pub(crate) fn incarnation_and_version(&self) -> (Id, u64) {
        (self.incarnation, self.version)
    }

    /// A number for just these facts of just this node: another one whenever it has told anything new. The same on every
    /// machine and in every version, and in 48 bits, so that others can be told of it in few bytes.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let (node, incarnation) = (self.node.bits().to_le_bytes(), self.incarnation.bits().to_le_bytes());
        Producer::from_key(&[&node[..], &incarnation, &self.version.to_le_bytes()].concat()).bits()
    }

    /// Whether these could be the facts of a node: every text within its bounds.
    pub(crate) fn is_valid(&self) -> bool {
        let clients = &self.clients;
        let texts = [&clients.http, &clients.fast, &clients.durable, &clients.bulk];
        let plain = |text: &String| {
            // What needs no escape in JSON, so that the bound is one of the encoded form as well.
            text.len() <= ADDRESS_BYTES_MAX
                && text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'))
        };
        texts.into_iter().flatten().all(plain)
            && self.incarnation.sequence() == 0
            && self.address.port() != 0
            && !self.address.ip().is_unspecified()
            && self.load.level <= 3
            && self.re_replicated.len() <= RE_REPLICATED_MAX
            && self.has_valid_versions()
    }
}
