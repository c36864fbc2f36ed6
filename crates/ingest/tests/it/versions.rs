//! Fixtures of each version are decoded, and so are messages of the next.

use std::fmt::Debug;

use bucksaw_cluster::ClusterVersion;
use bucksaw_env::Body;
use bucksaw_fixtures::{GoldenFiles, expect_ready, with_unknown_fields};
use bucksaw_ingest::lease::{AckRequest, FetchReply, FetchRequest, FetchedSegment, QueueBacklogStatus, WaitRequest};
use bucksaw_record::{Id, Millis, Producer};
use bucksaw_rpc::{encode_head, message_body, read_head, read_message};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

fn fixtures() -> GoldenFiles {
    GoldenFiles::new(env!("CARGO_MANIFEST_DIR"), ClusterVersion::OWN)
}

fn id(number: u64) -> Id {
    Id::new(Millis(1_763_680_200_000 + number), Producer::new(number), 0)
}

fn wait_request() -> WaitRequest {
    WaitRequest { text_bytes: 1 << 24, age_ms: 4_000, wait_ms: 5_000 }
}

fn backlog_status() -> QueueBacklogStatus {
    QueueBacklogStatus {
        due: true,
        segments: 3,
        text_bytes: 1 << 20,
        oldest_ms: 900,
        has_waiting_client: true,
        full: true,
    }
}

fn fetch_request() -> FetchRequest {
    FetchRequest { holder: id(1), text_bytes: 1 << 24, lease_ms: 60_000 }
}

fn fetch_reply() -> FetchReply {
    let segment = |number, bytes, text_bytes| FetchedSegment { id: id(number), bytes, text_bytes };
    FetchReply { segments: vec![segment(2, 1_032, 900), segment(3, 32, 0)], backlog: backlog_status() }
}

fn ack_request() -> AckRequest {
    AckRequest { holder: id(1), stored: vec![id(2)], returned: vec![id(3), id(4)], unreadable: vec![id(4)] }
}

fn bytes(message: &impl Serialize) -> Vec<u8> {
    expect_ready(message_body(message).unwrap().read_all(1 << 20)).unwrap()
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> T {
    expect_ready(read_message(Body::whole(bytes.to_vec()))).unwrap()
}

/// Messages implement `Debug`, not `PartialEq`.
fn assert_same(one: &impl Debug, other: &impl Debug) {
    assert_eq!(format!("{one:?}"), format!("{other:?}"));
}

fn check<T: Serialize + DeserializeOwned + Debug>(kind: &str, message: &T) {
    fixtures().check(kind, &bytes(message));
    fixtures().read_all(kind).iter().for_each(|fixture| assert_same(&decode::<T>(fixture), message));
}

fn check_extended<T: Serialize + DeserializeOwned + Debug>(message: &T, seed: u64) {
    assert_same(&decode::<T>(&with_unknown_fields(&bytes(message), seed).unwrap()), message);
}

#[test]
fn messages_of_all_versions_are_read() {
    check("wait", &wait_request());
    check("backlog", &backlog_status());
    check("fetch-request", &fetch_request());
    check("fetch-reply", &fetch_reply());
    check("ack", &ack_request());
}

#[test]
fn message_heads_of_all_versions_are_read() {
    let body = [&encode_head(&fetch_request()).unwrap()[..], b"and the rest"].concat();
    fixtures().check("head", &body);
    for fixture in fixtures().read_all("head") {
        let (found, mut rest) = expect_ready(read_head::<FetchRequest>(Body::whole(fixture))).unwrap();
        assert_same(&found, &fetch_request());
        assert_eq!(expect_ready(rest.next_chunk(100)).unwrap().unwrap(), &b"and the rest"[..]);
    }
}

proptest! {
    #[test]
    fn fields_of_later_versions_are_ignored(seed: u64) {
        check_extended(&wait_request(), seed);
        check_extended(&backlog_status(), seed);
        check_extended(&fetch_request(), seed);
        check_extended(&fetch_reply(), seed);
        check_extended(&ack_request(), seed);
    }
}
