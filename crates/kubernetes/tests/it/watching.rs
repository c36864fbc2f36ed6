//! Lists, changes, and connections that end.

use std::path::Path;
use std::time::Duration;

use bucksaw_fixtures::{KubernetesStub, stub_pod, wait_until};
use bucksaw_kubernetes::WatchTiming;

use super::watched::{Watched, put, wait_watches};

const NO_CREDENTIALS: &str = "/nonexistent";

fn start() -> (KubernetesStub, Watched) {
    let stub = KubernetesStub::start().unwrap();
    put(&stub, "first", "one");
    let watched = Watched::start(&stub.url(), Path::new(NO_CREDENTIALS));
    (stub, watched)
}

#[tokio::test]
async fn pods_of_the_node_are_listed_and_followed() {
    let (stub, watched) = start();
    stub.put(stub_pod("shop", "other", "u", "node 2", &[("app", "x")]));
    watched.wait_app("first", "one").await;
    wait_watches(&stub, 1).await;
    put(&stub, "second", "two");
    put(&stub, "first", "changed");
    stub.put(stub_pod("shop", "third", "u", "node 2", &[("app", "x")]));
    watched.wait_app("first", "changed").await;
    watched.wait_app("second", "two").await;
    stub.delete("shop", "second");
    wait_until("the deletion arrives", || watched.status().pods == 1).await;
    // Its log is still read.
    assert_eq!(
        (watched.app("second"), watched.app("other"), watched.app("third")),
        ("two".into(), "".into(), "".into())
    );
    let status = watched.status();
    assert_eq!((status.is_synced, status.deleted_pods, status.reconnects, status.error), (true, 1, 0, None));
    assert!(status.last_event_age.is_some());
    let requests = stub.requests();
    assert_eq!(requests[0], "/api/v1/pods?fieldSelector=spec%2EnodeName%3Dnode%201&resourceVersion=0");
    assert!(
        requests[1]
            .contains("watch=1&allowWatchBookmarks=true&fieldSelector=spec%2EnodeName%3Dnode%201&resourceVersion=10")
    );
    watched.stop.send_replace(true);
    watched.task.await.unwrap();
}

#[tokio::test]
async fn a_watch_goes_on_after_the_last_event_or_bookmark() {
    let (stub, watched) = start();
    watched.wait_app("first", "one").await;
    wait_watches(&stub, 1).await;
    // Changes of others, up to version 104.
    for at in 0..3 {
        stub.put(stub_pod("shop", &format!("other-{at}"), "u", "node 2", &[]));
    }
    stub.bookmark();
    put(&stub, "second", "two");
    watched.wait_app("second", "two").await;
    stub.bookmark();
    stub.disconnect();
    // Unseen, between two watches or in the next one.
    put(&stub, "third", "three");
    stub.delete("shop", "first");
    watched.wait_app("third", "three").await;
    wait_until("the deletion arrives", || watched.status().deleted_pods == 1).await;
    let requests = stub.requests();
    assert_eq!(requests.len(), 3, "{requests:#?}");
    assert!(requests[2].contains("&resourceVersion=105&"), "{requests:#?}");
    assert!(watched.status().reconnects == 1);
}

#[tokio::test]
async fn forgotten_changes_are_listed_again_in_pages() {
    let (stub, watched) = start();
    watched.wait_app("first", "one").await;
    wait_watches(&stub, 1).await;
    stub.set_away(true);
    wait_watches(&stub, 0).await;
    stub.delete("shop", "first");
    for at in 0..120 {
        put(&stub, &format!("pod-{at}"), "new");
    }
    stub.forget_history();
    stub.set_away(false);
    wait_until("all pods are known", || watched.status().pods == 120 && watched.status().is_synced).await;
    assert_eq!(watched.status().deleted_pods, 1);
    let requests = stub.requests();
    let pages: Vec<&String> = requests.iter().filter(|request| request.contains("&limit=50")).collect();
    assert_eq!(pages.len(), 3, "{requests:#?}");
    assert!(pages[2].ends_with("&continue=100"), "{pages:#?}");
    // The server says so within a watch, too.
    put(&stub, "late", "x");
    watched.wait_app("late", "x").await;
    stub.send(b"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410}}\n");
    wait_until("it is listed again", || stub.requests().len() > requests.len() + 2).await;
    watched.wait_synced().await;
}

#[tokio::test]
async fn a_watch_ends_after_its_time_and_goes_on() {
    let stub = KubernetesStub::start().unwrap();
    put(&stub, "first", "one");
    let timing =
        WatchTiming { watch: Duration::from_millis(1), retry_min: Duration::from_millis(5), ..WatchTiming::default() };
    let watched = Watched::start_with(&stub.url(), Path::new(NO_CREDENTIALS), timing);
    wait_until("a second watch runs", || watched.status().reconnects > 0).await;
    put(&stub, "second", "two");
    watched.wait_app("second", "two").await;
    assert_eq!((watched.status().is_synced, watched.status().error), (true, None));
    assert!(stub.requests()[1].ends_with("&timeoutSeconds=1"));
}

#[tokio::test]
async fn a_server_that_sends_nothing_is_left() {
    let stub = KubernetesStub::start().unwrap();
    stub.keep_watches_open();
    let timing = WatchTiming {
        watch: Duration::from_millis(1),
        grace: Duration::ZERO,
        retry_min: Duration::from_millis(5),
        ..WatchTiming::default()
    };
    let watched = Watched::start_with(&stub.url(), Path::new(NO_CREDENTIALS), timing);
    wait_until("a second watch runs", || watched.status().reconnects > 0).await;
    put(&stub, "first", "one");
    watched.wait_app("first", "one").await;
}
