//! Requests and reply statuses between nodes, as JSON. Unknown fields are ignored and absent ones have defaults, so
//! nodes of adjacent versions understand each other.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_record::{Expr, Id, LabelScope, Labels, Millis};
use bucksaw_segment::stored::{IdSum, Interval, ReplicaGroup};
use bucksaw_store::{ReplicaRun, SearchShare, ShareStatus};
use serde::{Deserialize, Serialize};

use super::batch::BatchContent;
use crate::count::Bucketing;
use crate::grouping::Grouping;
use crate::request::{Order, Request};
use crate::stats::{QueryStats, TrashStats};
use bucksaw_rpc::{DecodeError, MalformedMessage, decode_versioned};

/// The version of replies, and of requests that every node understands.
const VERSION: u32 = 1;

/// The latest version of requests, which is the version of the grammar. A request has the earliest version whose
/// grammar has all forms of its expression, so a node that would misread a form refuses the request.
///
/// Version 2 added the groupings by field and by stream. A node of version 1 would ignore them and count into wrong
/// cells. Version 4 added the scope, and no form of expressions. A node of version 3 would ignore it and answer with streams
/// that the client must not see.
const REQUEST_VERSION_MAX: u32 = SCOPE_VERSION;

/// The version that added the groupings by field and by stream.
const GROUPING_VERSION: u32 = 2;

/// The version that added the scope. The next version of the grammar must be later.
const SCOPE_VERSION: u32 = 4;

const _: () = assert!(SCOPE_VERSION > bucksaw_record::expr::GRAMMAR_VERSION);

/// Maximum bytes of a request.
pub(crate) const REQUEST_BYTES_MAX: usize = 1 << 20;

/// Names of damaged files in a status; further ones are only counted.
const DAMAGED_MAX: usize = 100;

/// Sentences about duplicate node ids in a status, and characters of each.
const DUPLICATE_IDS_MAX: usize = 3;
const DUPLICATE_ID_CHARS_MAX: usize = 400;

/// Characters of a damaged file's name that are taken from a status.
const DAMAGED_CHARS_MAX: usize = 500;

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A request as sent to other nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ScatterRequest {
    pub(crate) version: u32,
    /// The expression as text.
    q: String,
    /// The lowest id, inclusive.
    from: String,
    /// The highest id, exclusive.
    to: String,
    descending: bool,
    limit: Option<u64>,
    /// If set, only this stream.
    stream: Option<BTreeMap<String, String>>,
    /// If set, the labels of the scope: the reply is as if no streams outside of it existed. Since version 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<BTreeMap<String, String>>,
    /// Bytes of text at which a batch is sent.
    batch_bytes: u64,
    /// Number of buckets of a count.
    buckets: u64,
    by_level: bool,
    /// The grouping of a count, if it is not by level. Since version 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    grouping: Option<ScatterGrouping>,
    /// Whether batches may have attributes; else the records are sent without them. Missing before version 1.1 of the cluster
    /// protocol.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    attributes: bool,
    /// The database that another node reads for the whole answer, so that stores over it answer from their queues alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    database: Option<ReadDatabase>,
    /// The share of the search that the node does. A node that ignores it searches all that it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<ScatterShare>,
}

/// A [`SearchShare`] as sent to other nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ScatterShare {
    token: String,
    skipped: Vec<ScatterRun>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    only: Option<Vec<ScatterRun>>,
}

/// A [`ReplicaRun`]: its group in hexadecimal, its first and last interval, and its sum in hexadecimal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ScatterRun(String, u32, u32, String);

/// A database that one node reads for all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ReadDatabase {
    /// The identity of the database, equal on all nodes that use it.
    id: String,
    /// The node that reads it.
    reader: String,
}

/// A [`Grouping`] as sent to other nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ScatterGrouping {
    Field { name: String, values: Vec<String> },
    Streams(Vec<BTreeMap<String, String>>),
}

/// Why this node cannot answer a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecodeRequestError {
    #[error("supports query protocol versions up to {REQUEST_VERSION_MAX}, the request has version {0}")]
    Version(u32),
    #[error("invalid request: {0}")]
    Invalid(String),
}

impl ScatterRequest {
    pub(crate) fn new(request: &Request) -> Self {
        let version = request.expr.grammar_version().max(VERSION);
        Self {
            version: if request.scope.is_some() { version.max(SCOPE_VERSION) } else { version },
            q: request.expr.to_string(),
            from: request.from.to_string(),
            to: request.to.to_string(),
            descending: request.order == Order::Descending,
            limit: request.limit,
            stream: request.stream.as_ref().map(label_pairs),
            scope: request.scope.as_ref().map(|scope| label_pairs(scope.labels())),
            ..Self::default()
        }
    }

    pub(crate) fn with_batch_bytes(self, bytes: usize) -> Self {
        Self { batch_bytes: bytes as u64, ..self }
    }

    /// For a requester that knows [`MessageKind::AttributedBatch`](super::message::MessageKind::AttributedBatch).
    pub(crate) fn with_attributes(self) -> Self {
        Self { attributes: true, ..self }
    }

    /// For stores over the database `id`, which `reader` reads for all of them.
    pub(crate) fn with_database_read_by(self, id: String, reader: Id) -> Self {
        Self { database: Some(ReadDatabase { id, reader: reader.to_string() }), ..self }
    }

    /// For a node that does a share of the search; `None` for one that searches all that it has.
    pub(crate) fn with_share(self, share: Option<&SearchShare>) -> Self {
        let runs = |runs: &[ReplicaRun]| runs.iter().map(ScatterRun::new).collect();
        let share = share.map(|share| ScatterShare {
            token: share.token.clone(),
            skipped: runs(&share.skipped),
            only: share.only.as_deref().map(runs),
        });
        Self { share, ..self }
    }

    /// For the records of another range.
    pub(crate) fn within(self, from: Id, to: Id) -> Self {
        Self { from: from.to_string(), to: to.to_string(), ..self }
    }

    /// Whether the store `own`, over a database with this identity, is read by another node.
    pub(crate) fn is_database_read_by_another(&self, own: Option<&str>, node: Id) -> bool {
        let is_read = |read: &ReadDatabase| own == Some(read.id.as_str()) && read.reader != node.to_string();
        self.database.as_ref().is_some_and(is_read)
    }

    /// What batches of the reply may contain.
    pub(crate) fn batch_content(&self) -> BatchContent {
        if self.attributes { BatchContent::LinesAndAttributes } else { BatchContent::Lines }
    }

    pub(crate) fn with_bucketing(self, bucketing: Bucketing) -> Self {
        let by_level = bucketing.grouping == Grouping::Level;
        let grouping = match bucketing.grouping {
            Grouping::None | Grouping::Level => None,
            Grouping::Field { name, values } => Some(ScatterGrouping::Field { name, values }),
            Grouping::Streams(streams) => Some(ScatterGrouping::Streams(streams.iter().map(label_pairs).collect())),
        };
        let version = if grouping.is_some() { self.version.max(GROUPING_VERSION) } else { self.version };
        Self { version, buckets: bucketing.buckets as u64, by_level, grouping, ..self }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        // Writing to memory cannot fail, and every key is a string.
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeRequestError> {
        decode_versioned(bytes, "version", &(VERSION..=REQUEST_VERSION_MAX)).map_err(|error| match error {
            DecodeError::Version(version) => DecodeRequestError::Version(version.unwrap_or_default()),
            DecodeError::Invalid(error) => DecodeRequestError::Invalid(error.to_string()),
        })
    }

    pub(crate) fn request(&self) -> Result<Request, DecodeRequestError> {
        let invalid = |error: &dyn std::fmt::Display| DecodeRequestError::Invalid(error.to_string());
        let id = |text: &str| text.parse::<Id>().map_err(|error| invalid(&error));
        let labels = |pairs: &Option<BTreeMap<String, String>>| {
            pairs.clone().map(Labels::new).transpose().map_err(|error| invalid(&error))
        };
        let expr = Expr::parse(self.q.as_bytes()).map_err(|error| invalid(&error))?;
        let share = match &self.share {
            Some(share) => Some(share.decode().ok_or_else(|| invalid(&"the share of the search"))?),
            None => None,
        };
        Ok(Request {
            from: id(&self.from)?,
            to: id(&self.to)?,
            stream: labels(&self.stream)?,
            scope: labels(&self.scope)?.map(LabelScope::new),
            order: if self.descending { Order::Descending } else { Order::Ascending },
            limit: self.limit,
            share: share.map(Arc::new),
            ..Request::new(expr, Millis(0), Millis::MAX)
        })
    }

    pub(crate) fn bucketing(&self) -> Result<Bucketing, DecodeRequestError> {
        let labels = |pairs: &BTreeMap<String, String>| Labels::new(pairs.clone());
        let grouping = match &self.grouping {
            None if self.by_level => Grouping::Level,
            None => Grouping::None,
            Some(ScatterGrouping::Field { name, values }) => {
                Grouping::Field { name: name.clone(), values: values.clone() }
            }
            Some(ScatterGrouping::Streams(streams)) => {
                let streams: Result<Vec<Labels>, _> = streams.iter().map(labels).collect();
                Grouping::Streams(streams.map_err(|error| DecodeRequestError::Invalid(error.to_string()))?)
            }
        };
        if grouping.len() > Grouping::VALUES_MAX {
            return Err(DecodeRequestError::Invalid(format!("more than {} groups", Grouping::VALUES_MAX)));
        }
        Ok(Bucketing { buckets: usize::try_from(self.buckets).unwrap_or(usize::MAX), grouping })
    }

    /// From 4 KiB to 256 KiB.
    pub(crate) fn batch_bytes(&self) -> usize {
        usize::try_from(self.batch_bytes).unwrap_or(usize::MAX).clamp(4 << 10, 256 << 10)
    }
}

impl ScatterShare {
    fn decode(&self) -> Option<SearchShare> {
        let runs = |runs: &[ScatterRun]| runs.iter().map(ScatterRun::decode).collect::<Option<Vec<_>>>();
        let only = match &self.only {
            Some(only) => Some(runs(only)?),
            None => None,
        };
        Some(SearchShare { token: self.token.clone(), skipped: runs(&self.skipped)?, only })
    }
}

impl ScatterRun {
    fn new(run: &ReplicaRun) -> Self {
        Self(run.group.to_string(), run.first.0, run.last.0, format!("{:x}", run.sum.0))
    }

    fn decode(&self) -> Option<ReplicaRun> {
        let Self(group, first, last, sum) = self;
        let group = ReplicaGroup(NonZeroU64::new(u64::from_str_radix(group, 16).ok()?)?);
        let (first, last) = (Interval(*first), Interval(*last));
        let is_valid = first <= last && last.0 >> Interval::BITS == 0;
        let sum = IdSum(u128::from_str_radix(sum, 16).ok()?);
        is_valid.then_some(ReplicaRun { group, first, last, sum })
    }
}

fn label_pairs(labels: &Labels) -> BTreeMap<String, String> {
    labels.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The status of a reply: in its head, at intervals, and at its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ReplyStatus {
    pub(crate) version: u32,
    pub(crate) segments_read: u64,
    pub(crate) segments_skipped: u64,
    pub(crate) bytes_scanned: u64,
    pub(crate) bytes_skipped: u64,
    pub(crate) damaged: Vec<String>,
    /// The time limit that ended the query, in milliseconds; 0 if none did.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) timed_out_ms: u64,
    /// Segments in the trash that may have records of the requested time, and their records.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) trashed_segments: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) trashed_records: u64,
    /// In the head: the number of nodes in the member list of the replying node, itself included.
    pub(crate) nodes: u64,
    /// In the head: the id of the node.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) node: String,
    /// In the head: duplicate node ids, one sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) duplicate_ids: Vec<String>,
    /// No further record precedes this id in the order of the answer.
    pub(crate) reached: Option<String>,
    /// The fraction of the work that is done.
    pub(crate) done: f64,
    /// No further ids follow for buckets before this.
    pub(crate) buckets_done: u64,
    /// Bytes of the queue that a tail has skipped so far.
    pub(crate) bytes_lost: u64,
    /// Whether the node has more streams than it sent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) streams_cut: bool,
    /// In the head: whether the node has lost records since it reported what it holds, so that others cannot rely on its share.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) share_refused: bool,
    /// In the head: whether the node holds more records than it reported, so that a division by a new report is a better one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) share_outdated: bool,
}

impl ReplyStatus {
    pub(crate) fn from_stats(stats: &QueryStats) -> Self {
        let mut damaged: Vec<String> = stats.damaged.iter().take(DAMAGED_MAX).cloned().collect();
        if stats.damaged.len() > DAMAGED_MAX {
            damaged.push(format!("({} more)", stats.damaged.len() - DAMAGED_MAX));
        }
        let timed_out_ms = stats.timed_out.map_or(0, |limit| limit.as_millis().try_into().unwrap_or(u64::MAX).max(1));
        Self {
            version: VERSION,
            timed_out_ms,
            trashed_segments: stats.trashed.segments,
            trashed_records: stats.trashed.records,
            share_refused: stats.share == ShareStatus::Refused,
            share_outdated: stats.share == ShareStatus::Outdated,
            segments_read: stats.segments_read,
            segments_skipped: stats.segments_skipped,
            bytes_scanned: stats.bytes_scanned,
            bytes_skipped: stats.bytes_skipped,
            damaged,
            ..Self::default()
        }
    }

    /// Adds the replying node and the duplicate node ids that it has found.
    pub(crate) fn with_node(self, node: Id, duplicate_ids: impl IntoIterator<Item = String>) -> Self {
        let duplicate_ids = duplicate_ids.into_iter().take(DUPLICATE_IDS_MAX).collect();
        Self { node: node.to_string(), duplicate_ids, ..self }
    }

    /// Whether it states another node than `node`.
    pub(crate) fn is_from_other_node(&self, node: Id) -> bool {
        !self.node.is_empty() && self.node != node.to_string()
    }

    /// The replying node, for messages.
    pub(crate) fn node_name(&self) -> String {
        self.node.chars().take(DUPLICATE_ID_CHARS_MAX).collect()
    }

    /// The duplicate node ids, limited in number and length.
    pub(crate) fn duplicate_ids(&self) -> impl Iterator<Item = String> {
        let cut = |sentence: &String| sentence.chars().take(DUPLICATE_ID_CHARS_MAX).collect();
        self.duplicate_ids.iter().take(DUPLICATE_IDS_MAX).map(cut)
    }

    /// Adds the position of a search, as a key of this order.
    pub(crate) fn with_position(self, order: Order, key: u128) -> Self {
        Self { reached: Some(order.id_at(key).to_string()), ..self }
    }

    /// The position of a search, as a key of this order.
    pub(crate) fn position(&self, order: Order) -> u128 {
        self.reached.as_ref().and_then(|id| id.parse().ok()).map_or(0, |id| order.key(id))
    }

    /// Whether it only shows that the node is live.
    pub(crate) fn is_keepalive(&self) -> bool {
        self.version == 0
    }

    /// The statistics of the node; names of damaged files start with `node`.
    pub(crate) fn stats(&self, node: &str) -> QueryStats {
        let damaged = |name: &String| format!("{node}: {}", name.chars().take(DAMAGED_CHARS_MAX).collect::<String>());
        QueryStats {
            segments_read: self.segments_read,
            segments_skipped: self.segments_skipped,
            bytes_scanned: self.bytes_scanned,
            bytes_skipped: self.bytes_skipped,
            timed_out: (self.timed_out_ms > 0).then(|| Duration::from_millis(self.timed_out_ms)),
            trashed: TrashStats { segments: self.trashed_segments, records: self.trashed_records },
            damaged: self.damaged.iter().take(DAMAGED_MAX + 1).map(damaged).collect(),
            ..QueryStats::default()
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        // Writing to memory cannot fail, and every key is a string.
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, MalformedMessage> {
        serde_json::from_slice(bytes).map_err(|_| MalformedMessage("invalid reply status"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests_round_trip() {
        for expr in ["", "error -debug", r#"a OR ("b c" x=~/y\/z/i)"#, r#""\xff""#, "n>=1.5", "@level>=warn a=* d>1.5h"]
        {
            let expr = Expr::parse(expr.as_bytes()).unwrap();
            let request = Request {
                stream: Some(Labels::parse("app=web,path=\"/a,b\"").unwrap()),
                order: Order::Descending,
                limit: Some(7),
                ..Request::new(expr, Millis(5), Millis::MAX)
            };
            let field = Grouping::Field { name: "user.id".to_owned(), values: vec!["a b".to_owned(), String::new()] };
            let streams = Grouping::Streams(vec![Labels::default(), Labels::parse("app=\"a,b\"").unwrap()]);
            for (grouping, version) in [(Grouping::None, 1), (Grouping::Level, 1), (field, 2), (streams, 2)] {
                let bucketing = Bucketing { buckets: 12, grouping };
                let sent = ScatterRequest::new(&request).with_bucketing(bucketing.clone()).with_batch_bytes(9_000);
                let decoded = ScatterRequest::decode(&sent.encode()).unwrap();
                let version = request.expr.grammar_version().max(version);
                assert_eq!((&decoded, decoded.batch_bytes(), decoded.version), (&sent, 9_000, version));
                assert_eq!(decoded.bucketing().unwrap(), bucketing);
                assert_eq!(format!("{:?}", decoded.request().unwrap()), format!("{request:?}"));
            }
        }
    }

    #[test]
    fn unknown_fields_are_ignored_and_unknown_versions_rejected() {
        let decode = |text: &str| ScatterRequest::decode(text.as_bytes());
        let minimal = ScatterRequest::decode(
            br#"{"version":1,"from":"00000000000000000000000000","to":"00000000000000000000000000","new":[1]}"#,
        );
        assert!(minimal.unwrap().request().is_ok());
        assert!(matches!(decode(r#"{"version":5}"#), Err(DecodeRequestError::Version(5))));
        let message = decode(r#"{"version":5,"q":[],"from":7}"#).unwrap_err().to_string();
        assert_eq!(message, "supports query protocol versions up to 4, the request has version 5");
        let unknown = decode(r#"{"version":2,"grouping":{"colour":{"name":"x"}}}"#);
        assert!(matches!(unknown, Err(DecodeRequestError::Invalid(_))), "it is refused, not ignored");
        let many: Vec<String> = (0..=Grouping::VALUES_MAX).map(|number| number.to_string()).collect();
        let bucketing = Bucketing { buckets: 1, grouping: Grouping::Field { name: "n".to_owned(), values: many } };
        let request = Request::new(Expr::All, Millis(0), Millis(1));
        assert!(ScatterRequest::new(&request).with_bucketing(bucketing).bucketing().is_err());
        assert!(matches!(decode("{}"), Err(DecodeRequestError::Version(0))));
        assert!(matches!(decode("["), Err(DecodeRequestError::Invalid(_))));
        assert!(decode(r#"{"version":1,"q":"("}"#).unwrap().request().is_err());
    }

    #[test]
    fn a_request_has_the_version_of_its_expression() {
        let version = |text: &str| {
            let expr = Expr::parse(text.as_bytes()).unwrap();
            ScatterRequest::new(&Request::new(expr, Millis(0), Millis::MAX)).version
        };
        assert_eq!((version("level=error n>5"), version("@level=error"), version("n=*")), (1, 2, 2));
        assert_eq!(version("_line=error"), 3);
    }

    #[test]
    fn a_scope_is_sent_and_refused_by_nodes_that_would_ignore_it() {
        for labels in ["", "tenant=a", "env=dev,tenant=a"] {
            let scope = LabelScope::new(Labels::parse(labels).unwrap());
            let request = Request::new(Expr::All, Millis(0), Millis::MAX).within(Some(scope));
            let sent = ScatterRequest::new(&request).with_bucketing(Bucketing::default());
            assert_eq!(sent.version, SCOPE_VERSION);
            let decoded = ScatterRequest::decode(&sent.encode()).unwrap().request().unwrap();
            assert_eq!(decoded.scope, request.scope, "{labels}");
        }
        let plain = ScatterRequest::new(&Request::new(Expr::All, Millis(0), Millis::MAX));
        assert!(plain.request().is_ok());
        let damaged = ScatterRequest { scope: Some([("1".to_owned(), "x".to_owned())].into()), ..plain };
        assert!(damaged.request().is_err(), "it is refused, not ignored");
    }

    #[test]
    fn statuses_round_trip() {
        let stats = QueryStats {
            bytes_scanned: 5,
            damaged: (0..150).map(|at| format!("{at:03}")).collect(),
            ..QueryStats::default()
        };
        let id = Id::from_bits(77);
        for order in [Order::Ascending, Order::Descending] {
            let sent = ReplyStatus::from_stats(&stats).with_position(order, order.key(id));
            let status = ReplyStatus::decode(&sent.encode()).unwrap();
            assert_eq!(status.position(order), order.key(id));
            let stats = status.stats("n1");
            assert_eq!((stats.bytes_scanned, stats.damaged.len()), (5, DAMAGED_MAX + 1));
            assert!(stats.damaged.contains("n1: 007") && stats.damaged.contains("n1: (50 more)"));
        }
    }

    #[test]
    fn a_time_limit_makes_the_answer_partial() {
        let limit = Some(Duration::from_secs(60));
        let sent = ReplyStatus::from_stats(&QueryStats { timed_out: limit, ..QueryStats::default() });
        let stats = ReplyStatus::decode(&sent.encode()).unwrap().stats("n1");
        assert_eq!((stats.timed_out, stats.damaged.len(), stats.is_partial()), (limit, 0, true));
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = ScatterRequest::decode(&bytes).map(|request| request.request());
            let _ = ReplyStatus::decode(&bytes);
        }
    }
}
