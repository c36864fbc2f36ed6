//! Servers that are away, refuse, or answer nonsense.

use std::fs;
use std::path::Path;

use bucksaw_fixtures::{KubernetesStub, wait_until};

use super::watched::{Watched, put, wait_watches};

async fn start() -> (KubernetesStub, Watched) {
    let stub = KubernetesStub::start().unwrap();
    put(&stub, "first", "one");
    let watched = Watched::start(&stub.url(), Path::new("/nonexistent"));
    watched.wait_app("first", "one").await;
    wait_watches(&stub, 1).await;
    (stub, watched)
}

#[tokio::test]
async fn a_connection_may_end_in_the_middle_of_an_object() {
    let (stub, watched) = start().await;
    stub.send(b"{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"na");
    stub.disconnect();
    put(&stub, "first", "two");
    watched.wait_app("first", "two").await;
    assert_eq!((watched.status().unreadable_events, watched.status().reconnects > 0), (0, true));
}

#[tokio::test]
async fn what_is_no_event_is_counted_and_the_pods_are_listed_again() {
    let (stub, watched) = start().await;
    stub.send(b"<html>\n{}\n\n");
    stub.send(&[vec![b'x'; 5 << 20], b"\n".to_vec()].concat());
    put(&stub, "first", "two");
    watched.wait_app("first", "two").await;
    assert_eq!((watched.status().unreadable_events, watched.status().is_synced), (3, true));
    stub.disconnect();
    wait_until("the pods are listed", || stub.requests().len() == 4).await;
    assert!(!stub.requests()[2].contains("watch=1"), "{:#?}", stub.requests());
    // Nothing but nonsense ends the watch.
    wait_watches(&stub, 1).await;
    let before = watched.status().reconnects;
    // The connection that ended may still count as the watch for a moment, and get the first of it.
    let is_ended = || {
        stub.send(&b"nonsense\n".repeat(16));
        watched.status().reconnects > before
    };
    wait_until("the watch ends", is_ended).await;
    watched.wait_synced().await;
    put(&stub, "first", "three");
    watched.wait_app("first", "three").await;
}

#[tokio::test]
async fn an_event_may_arrive_byte_by_byte() {
    let (stub, watched) = start().await;
    stub.write_in_pieces(1);
    put(&stub, "first", "slow");
    watched.wait_app("first", "slow").await;
    assert_eq!(watched.status().unreadable_events, 0);
}

#[tokio::test]
async fn a_server_may_be_away_or_refuse() {
    let stub = KubernetesStub::start().unwrap();
    put(&stub, "first", "one");
    stub.set_away(true);
    let watched = Watched::start(&stub.url(), Path::new("/nonexistent"));
    wait_until("the error is known", || watched.status().error.is_some()).await;
    assert!(!watched.status().is_synced);
    stub.set_away(false);
    watched.wait_app("first", "one").await;
    for status in [500, 429, 403, 301, 204] {
        stub.fail_next(status);
    }
    let before = stub.requests().len();
    stub.disconnect();
    wait_until("the failures are over", || stub.requests().len() >= before + 6).await;
    watched.wait_synced().await;
    assert_eq!(watched.status().error, None);
    // A pod stays known meanwhile.
    stub.set_away(true);
    wait_until("the server is missed", || !watched.status().is_synced).await;
    assert_eq!(watched.app("first"), "one");
}

#[tokio::test]
async fn a_token_that_has_changed_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    #[expect(clippy::disallowed_methods, reason = "real files")]
    let write = |token: &str| fs::write(dir.path().join("token"), token).unwrap();
    let stub = KubernetesStub::start().unwrap();
    put(&stub, "first", "one");
    stub.require_token("second");
    write("first\n");
    let watched = Watched::start(&stub.url(), dir.path());
    let error = || watched.status().error.unwrap_or_default();
    wait_until("it is refused", || error().contains("401: refused 401")).await;
    assert!(!error().contains("first"), "the token is shown: {}", error());
    write("second\n");
    watched.wait_app("first", "one").await;
    watched.wait_synced().await;
}
