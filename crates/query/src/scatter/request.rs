//! What one node asks another, and what it is told besides records: JSON, in which unknown fields are passed over and
//! absent ones have defaults, so that nodes of adjacent versions understand each other.

use std::collections::BTreeMap;
use std::time::Duration;

use bucksaw_record::{Expr, Id, Labels};
use serde::{Deserialize, Serialize};

use crate::count::Bucketing;
use crate::request::{Order, Request};
use crate::stats::{QueryStats, TrashStats};
use bucksaw_rpc::{DecodeError, MalformedMessage, decode_versioned};

/// The version of questions and answers. A node answers questions of its own version and of the one before.
pub(crate) const VERSION: u32 = 1;

/// The oldest version that is understood.
const VERSION_MIN: u32 = 1;

/// Bytes of a question.
pub(crate) const REQUEST_BYTES_MAX: usize = 1 << 20;

/// Names of damaged files that one node tells of; of more it tells only that there are more.
const DAMAGED_MAX: usize = 100;

/// Sentences about twins that one node tells, and characters of each.
const DUPLICATE_IDS_MAX: usize = 3;
const DUPLICATE_ID_CHARS_MAX: usize = 400;

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A question, as it is sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ScatterRequest {
    #[serde(default)]
    pub(crate) version: u32,
    /// The expression, as it is typed.
    #[serde(default)]
    q: String,
    /// The lowest id that counts.
    #[serde(default)]
    from: String,
    /// Ids below this count.
    #[serde(default)]
    to: String,
    #[serde(default)]
    descending: bool,
    #[serde(default)]
    limit: Option<u64>,
    /// Only this stream.
    #[serde(default)]
    stream: Option<BTreeMap<String, String>>,
    /// Bytes of text after which a batch is sent.
    #[serde(default)]
    batch_bytes: u64,
    /// Stretches of time, of a question for counts.
    #[serde(default)]
    buckets: u64,
    #[serde(default)]
    by_level: bool,
}

/// Why a question cannot be answered by this node.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecodeRequestError {
    #[error("supports query protocol version {VERSION}, the request has version {0}")]
    Version(u32),
    #[error("invalid request: {0}")]
    Invalid(String),
}

impl ScatterRequest {
    pub(crate) fn new(request: &Request) -> Self {
        let pairs = |labels: &Labels| labels.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self {
            version: VERSION,
            q: request.expr.to_string(),
            from: request.from.to_string(),
            to: request.to.to_string(),
            descending: request.order == Order::Descending,
            limit: request.limit,
            stream: request.stream.as_ref().map(pairs),
            batch_bytes: 0,
            buckets: 0,
            by_level: false,
        }
    }

    pub(crate) fn with_batch_bytes(self, bytes: usize) -> Self {
        Self { batch_bytes: bytes as u64, ..self }
    }

    pub(crate) fn with_bucketing(self, division: Bucketing) -> Self {
        Self { buckets: division.buckets as u64, by_level: division.by_level, ..self }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        // Writing to memory cannot fail, and every key is a string.
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeRequestError> {
        decode_versioned(bytes, "version", &(VERSION_MIN..=VERSION)).map_err(|error| match error {
            DecodeError::Version(version) => DecodeRequestError::Version(version.unwrap_or_default()),
            DecodeError::Invalid(error) => DecodeRequestError::Invalid(error.to_string()),
        })
    }

    pub(crate) fn request(&self) -> Result<Request, DecodeRequestError> {
        let senseless = |error: &dyn std::fmt::Display| DecodeRequestError::Invalid(error.to_string());
        let id = |text: &str| text.parse::<Id>().map_err(|error| senseless(&error));
        Ok(Request {
            expr: Expr::parse(self.q.as_bytes()).map_err(|error| senseless(&error))?,
            from: id(&self.from)?,
            to: id(&self.to)?,
            stream: self.stream.clone().map(Labels::new).transpose().map_err(|error| senseless(&error))?,
            order: if self.descending { Order::Descending } else { Order::Ascending },
            limit: self.limit,
        })
    }

    pub(crate) fn bucketing(&self) -> Bucketing {
        Bucketing { buckets: usize::try_from(self.buckets).unwrap_or(usize::MAX), by_level: self.by_level }
    }

    /// From 4 kB to 256 kB.
    pub(crate) fn batch_bytes(&self) -> usize {
        usize::try_from(self.batch_bytes).unwrap_or(usize::MAX).clamp(4 << 10, 256 << 10)
    }
}

/// What a node says of its answer: in the head, now and then, and at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReplyStatus {
    #[serde(default)]
    pub(crate) version: u32,
    #[serde(default)]
    pub(crate) segments_read: u64,
    #[serde(default)]
    pub(crate) segments_skipped: u64,
    #[serde(default)]
    pub(crate) bytes_scanned: u64,
    #[serde(default)]
    pub(crate) bytes_skipped: u64,
    #[serde(default)]
    pub(crate) damaged: Vec<String>,
    /// The time limit that ended its work, in milliseconds; left out where none did.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) timed_out_ms: u64,
    /// Segments in its trash that may have records of the question's time, and their records.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) trashed_segments: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) trashed_records: u64,
    /// How many nodes it knows of that count, itself among them; told in the head.
    #[serde(default)]
    pub(crate) nodes: u64,
    /// Which node it is; told in the head.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) node: String,
    /// Ids that two live processes have, each in a sentence; told in the head.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) twins: Vec<String>,
    /// No record with an id before this, in the order of the answer, will come.
    #[serde(default)]
    pub(crate) reached: Option<String>,
    /// Which part of the work is done.
    #[serde(default)]
    pub(crate) done: f64,
    /// No count of a stretch of time before this will come.
    #[serde(default)]
    pub(crate) buckets_done: u64,
    /// Bytes that a follower was too slow for, so far.
    #[serde(default)]
    pub(crate) bytes_lost: u64,
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
            segments_read: stats.segments_read,
            segments_skipped: stats.segments_skipped,
            bytes_scanned: stats.bytes_scanned,
            bytes_skipped: stats.bytes_skipped,
            damaged,
            ..Self::default()
        }
    }

    /// The same by this node, which knows of these twins.
    pub(crate) fn with_node(self, node: Id, twins: impl IntoIterator<Item = String>) -> Self {
        Self { node: node.to_string(), twins: twins.into_iter().take(DUPLICATE_IDS_MAX).collect(), ..self }
    }

    /// Whether it says that it is of another node than this one.
    pub(crate) fn is_from_other_node(&self, node: Id) -> bool {
        !self.node.is_empty() && self.node != node.to_string()
    }

    /// The node that tells it, for people.
    pub(crate) fn node_name(&self) -> String {
        self.node.chars().take(DUPLICATE_ID_CHARS_MAX).collect()
    }

    /// The twins of which it tells.
    pub(crate) fn duplicate_ids(&self) -> impl Iterator<Item = String> {
        self.twins.iter().take(DUPLICATE_IDS_MAX).map(|twins| twins.chars().take(DUPLICATE_ID_CHARS_MAX).collect())
    }

    /// The same with how far a search has come: to a place in an answer of this order.
    pub(crate) fn with_position(self, order: Order, place: u128) -> Self {
        Self { reached: Some(order.id_at(place).to_string()), ..self }
    }

    /// The place in an answer of this order that was reached.
    pub(crate) fn position(&self, order: Order) -> u128 {
        self.reached.as_ref().and_then(|id| id.parse().ok()).map_or(0, |id| order.key(id))
    }

    /// Whether it says nothing but that its node is there.
    pub(crate) fn is_keepalive(&self) -> bool {
        self.version == 0
    }

    /// Adds what a node told in the end to what others did; what is damaged bears the node's name.
    pub(crate) fn add_to(&self, stats: &mut QueryStats, node: &str) {
        stats.segments_read = stats.segments_read.saturating_add(self.segments_read);
        stats.segments_skipped = stats.segments_skipped.saturating_add(self.segments_skipped);
        stats.bytes_scanned = stats.bytes_scanned.saturating_add(self.bytes_scanned);
        stats.bytes_skipped = stats.bytes_skipped.saturating_add(self.bytes_skipped);
        if self.timed_out_ms > 0 {
            stats.timed_out = stats.timed_out.max(Some(Duration::from_millis(self.timed_out_ms)));
        }
        stats.trashed.add(TrashStats { segments: self.trashed_segments, records: self.trashed_records });
        stats.damaged.extend(self.damaged.iter().take(DAMAGED_MAX + 1).map(|name| {
            let name: String = name.chars().take(500).collect();
            format!("{node}: {name}")
        }));
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
    use bucksaw_record::Millis;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn questions_come_back() {
        for expr in ["", "error -debug", r#"a OR ("b c" x=~/y\/z/i)"#, r#""\xff""#, "n>=1.5"] {
            let expr = Expr::parse(expr.as_bytes()).unwrap();
            let request = Request {
                stream: Some(Labels::parse("app=web,path=\"/a,b\"").unwrap()),
                order: Order::Descending,
                limit: Some(7),
                ..Request::new(expr, Millis(5), Millis::MAX)
            };
            let division = Bucketing { buckets: 12, by_level: true };
            let sent = ScatterRequest::new(&request).with_bucketing(division).with_batch_bytes(9_000);
            let question = ScatterRequest::decode(&sent.encode()).unwrap();
            assert_eq!((&question, question.bucketing(), question.batch_bytes()), (&sent, division, 9_000));
            assert_eq!(format!("{:?}", question.request().unwrap()), format!("{request:?}"));
        }
    }

    #[test]
    fn unknown_fields_are_passed_over_and_versions_are_not() {
        let decode = |text: &str| ScatterRequest::decode(text.as_bytes());
        let least = ScatterRequest::decode(
            br#"{"version":1,"from":"00000000000000000000000000","to":"00000000000000000000000000","new":[1]}"#,
        );
        assert!(least.unwrap().request().is_ok());
        assert!(matches!(decode(r#"{"version":2}"#), Err(DecodeRequestError::Version(2))));
        let words = decode(r#"{"version":2,"q":[],"from":7}"#).unwrap_err().to_string();
        assert_eq!(words, "supports query protocol version 1, the request has version 2");
        assert!(matches!(decode("{}"), Err(DecodeRequestError::Version(0))));
        assert!(matches!(decode("["), Err(DecodeRequestError::Invalid(_))));
        assert!(decode(r#"{"version":1,"q":"("}"#).unwrap().request().is_err());
    }

    #[test]
    fn what_is_told_comes_back() {
        let stats = QueryStats {
            bytes_scanned: 5,
            damaged: (0..150).map(|at| format!("{at:03}")).collect(),
            ..QueryStats::default()
        };
        let id = Id::from_bits(77);
        for order in [Order::Ascending, Order::Descending] {
            let told =
                ReplyStatus::decode(&ReplyStatus::from_stats(&stats).with_position(order, order.key(id)).encode())
                    .unwrap();
            assert_eq!(told.position(order), order.key(id));
            let mut sum = QueryStats::default();
            told.add_to(&mut sum, "n1");
            assert_eq!((sum.bytes_scanned, sum.damaged.len()), (5, DAMAGED_MAX + 1));
            assert!(sum.damaged.contains("n1: 007") && sum.damaged.contains("n1: (50 more)"));
        }
    }

    #[test]
    fn a_time_limit_makes_the_answer_partial() {
        let limit = Some(Duration::from_secs(60));
        let told = ReplyStatus::from_stats(&QueryStats { timed_out: limit, ..QueryStats::default() });
        let mut sum = QueryStats::default();
        ReplyStatus::decode(&told.encode()).unwrap().add_to(&mut sum, "n1");
        assert_eq!((sum.timed_out, sum.damaged.len(), sum.is_partial()), (limit, 0, true));
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = ScatterRequest::decode(&bytes).map(|question| question.request());
            let _ = ReplyStatus::decode(&bytes);
        }
    }
}
