//! Files cannot be created in the queue directory: the node reports it, answers queries, and recovers.

use std::fs;
use std::io::Write as _;

use crate::node::TestServer;
use crate::wait::wait_until;

const HALTED: &str = "bucksaw_ingest_halted{reason=\"failing\"}";

#[test]
fn a_node_that_cannot_create_files_is_not_ready() {
    let mut node = TestServer::start(&["--segment-max-age", "100ms"]);
    node.post("/api/v1/ingest?durability=bulk", &[], b"kept\n").expect(200);
    node.wait_stored();
    let (queue, away) = (node.dir().join("queue"), node.dir().join("queue.away"));
    // A missing directory fails for root, too.
    fs::rename(&queue, &away).unwrap();
    for _ in 0..3 {
        let answer = node.post("/api/v1/ingest", &[], b"refused\n").expect(503);
        assert!(answer.header("retry-after").is_some(), "{}", answer.text());
        let ready = node.get("/-/ready").expect(503).text();
        assert!(ready.contains("cannot be written") && ready.contains("No such file"), "{ready}");
        assert_eq!((node.metric(HALTED), node.count("kept")), (1.0, 1));
        let status = node.status();
        assert_eq!(status["state"], "halted");
        assert!(status["halted"].as_str().unwrap().contains("No such file"), "{status}");
    }
    // Lines over TCP are not read and not lost.
    let mut tcp = node.connect("fast");
    tcp.write_all(b"held back\n").unwrap();
    fs::rename(&away, &queue).unwrap();
    wait_until("it is ready", || node.get("/-/ready").status == 200);
    assert_eq!((node.metric(HALTED), node.status()["state"].as_str()), (0.0, Some("ready")));
    node.post("/api/v1/ingest", &[], b"again\n").expect(200);
    wait_until("unread lines are stored", || node.count("held") == 1);
    assert_eq!((node.count("again"), node.count("refused")), (1, 0));
    assert!(node.terminate().success(), "{}", node.log());
}
