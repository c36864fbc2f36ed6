//! More clients than the limit of open files permits: excess connections are closed, the others work.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

use super::assert_healthy;
use crate::node::TestServer;
use crate::wait::wait_until;

fn limited(descriptors: usize, arguments: &[&str]) -> TestServer {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    TestServer::try_start_limited(descriptors, arguments).unwrap_or_else(|(status, log)| panic!("{status}\n{log}"))
}

fn log_lines(node: &TestServer) -> usize {
    node.log().lines().count()
}

#[test]
fn clients_beyond_the_descriptor_limit_affect_no_other_client() {
    let mut node = limited(256, &["--segment-max-age", "200ms"]);
    let mut streams: Vec<TcpStream> = (0..700).map(|_| node.connect("fast")).collect();
    let refused = || node.metric("bucksaw_sources_connections_refused_total{listener=\"fast\"}");
    wait_until("those beyond the limit are closed", || {
        refused() + node.metric("bucksaw_sources_connections{listener=\"fast\"}") == 700.0
    });
    assert!(refused() > 600.0, "{}", refused());
    // The queue then needs new files for the lines below.
    let is_active = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().path().extension() == Some("active".as_ref());
    wait_until("the queue has closed its files", || !fs::read_dir(node.dir().join("queue")).unwrap().any(is_active));
    for stream in &mut streams {
        // Most of these connections are refused.
        let _ = stream.write_all(b"a line of the crowd\n");
    }
    for sent in 1..=5 {
        node.get("/-/healthy").expect(200);
        node.get("/-/ready").expect(200);
        node.get("/metrics").expect(200);
        node.post("/api/v1/ingest", &[], b"by HTTP\n").expect(200);
        assert_eq!(node.count("\"by HTTP\""), sent);
        // Each listener has slots of its own.
        assert!(node.forward("durable", &[], b"by forward\n").status.success());
    }
    let taken = 700 - refused() as u64;
    wait_until("lines of accepted connections are found", || node.count("crowd") == taken);
    drop(streams);
    wait_until("all are closed", || node.metric("bucksaw_sources_connections") == 0.0);
    assert_eq!((node.count("\"by HTTP\""), node.count("\"by forward\"")), (5, 5));
    assert_healthy(&mut node);
    assert!(log_lines(&node) < 10, "{}", node.log());
}

#[test]
fn a_limit_below_the_number_of_stored_segments_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let store = home.path().join("store");
    std::fs::create_dir(&store).unwrap();
    // The start counts files and opens none.
    (0..200).for_each(|number| std::fs::write(store.join(format!("{number}.seg")), b"").unwrap());
    let dir = home.path().to_str().unwrap();
    let Err((status, log)) = TestServer::try_start_limited_in(home.path(), 200, &[]) else { panic!("it started") };
    assert!(!status.success());
    let said = "the limit of open files is 200, and 200 segments are stored";
    assert!(log.contains(said) && log.contains("ulimit -n ") && log.contains(dir), "{log}");
    assert!(!log.contains("backtrace"), "{log}");
}

#[test]
fn idle_http_connections_delay_no_health_check() {
    let mut node = limited(512, &[]);
    let mut idle: Vec<TcpStream> = (0..300).map(|_| node.connect("http")).collect();
    for _ in 0..10 {
        for target in ["/-/healthy", "/-/ready", "/metrics"] {
            node.get(target).expect(200);
        }
        let answer = node.get("/api/v1/cluster").expect(503);
        assert_eq!((answer.header("retry-after"), answer.header("connection")), (Some("1"), Some("close")));
        assert!(answer.json()["error"].as_str().unwrap().contains("too many HTTP connections"), "{}", answer.text());
        node.post("/api/v1/ingest", &[], b"a line\n").expect(503);
    }
    let reason = |reason: &str| node.metric(&format!("bucksaw_api_connections_refused_total{{reason=\"{reason}\"}}"));
    assert!(reason("address") > 200.0 && reason("all") == 0.0, "{} {}", reason("address"), reason("all"));
    idle.clear();
    wait_until("connections are free again", || node.get("/api/v1/cluster").status == 200);
    assert_healthy(&mut node);
    assert!(log_lines(&node) < 10, "{}", node.log());
}

#[test]
fn all_line_listeners_share_one_limit() {
    let mut node = limited(256, &[]);
    let listeners = ["fast", "durable", "bulk"];
    let crowd: Vec<TcpStream> =
        listeners.iter().flat_map(|listener| (0..100).map(|_| node.connect(listener))).collect();
    let sum = |name: &str| -> f64 {
        listeners.iter().map(|listener| node.metric(&format!("{name}{{listener=\"{listener}\"}}"))).sum()
    };
    let open = || sum("bucksaw_sources_connections");
    wait_until("all are open or closed", || open() + sum("bucksaw_sources_connections_refused_total") == 300.0);
    // Two thirds of the descriptors of 256 that files leave.
    assert_eq!(open(), 106.0);
    drop(crowd);
    wait_until("all are closed", || node.metric("bucksaw_sources_connections") == 0.0);
    assert_healthy(&mut node);
}

#[test]
fn a_reserve_connection_is_for_one_call() {
    let node = limited(256, &[]);
    let _idle: Vec<TcpStream> = (0..40).map(|_| node.connect("http")).collect();
    let mut stream = node.connect("http");
    let request = "GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    // Until the end, although the client requested keep-alive.
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.to_lowercase().contains("connection: close"), "{answer}");
    assert!(node.metric("bucksaw_api_connections_refused_total{reason=\"address\"}") > 0.0, "else it had a usual one");
}

#[test]
fn too_few_descriptors_are_refused_at_the_start() {
    for descriptors in [8, 20, 127] {
        let (status, log) = TestServer::try_start_limited(descriptors, &[]).err().unwrap();
        assert_eq!(status.code(), Some(1), "{log}");
        let lines: Vec<&str> = log.lines().collect();
        assert!(lines.len() == 1 && lines[0].contains("at least 128") && lines[0].contains("ulimit -n"), "{log}");
    }
    let mut node = limited(128, &["--segment-max-age", "200ms"]);
    let crowd: Vec<TcpStream> = (0..100).map(|_| node.connect("fast")).collect();
    node.post("/api/v1/ingest?durability=bulk", &[], b"a line\n").expect(200);
    node.wait_stored();
    drop(crowd);
    wait_until("all are closed", || node.metric("bucksaw_sources_connections") == 0.0);
    assert_healthy(&mut node);
}

#[test]
fn a_node_without_descriptors_refuses_records_answers_queries_and_logs_little() {
    let mut node = limited(256, &["--segment-max-age", "100ms"]);
    node.post("/api/v1/ingest?durability=bulk", &[], b"kept\n").expect(200);
    node.wait_stored();
    let open = || fs::read_dir(format!("/proc/{}/fd", node.pid())).unwrap().count() as u64;
    let pid = Pid::from_raw(node.pid() as i32).unwrap();
    let set = |current| prlimit(Some(pid), Resource::Nofile, Rlimit { current: Some(current), maximum: Some(256) });
    let before = log_lines(&node);
    // One connection for requests, and no further descriptor.
    let mut stream = node.connect("http");
    wait_until("it is accepted", || ask(&mut stream, "GET /-/healthy", b"").starts_with("HTTP/1.1 200"));
    let lines = (0..4).map(|_| node.connect("fast")).collect::<Vec<TcpStream>>();
    let accepted = "bucksaw_sources_connections{listener=\"fast\"} 4\n";
    wait_until("they are accepted", || ask(&mut stream, "GET /metrics", b"").contains(accepted));
    set(open()).unwrap();
    for mut client in lines {
        // Lines that the queue cannot write are not read, or the connection is closed.
        let _ = client.write_all(b"a line without a file\n");
    }
    let mut is_refused = || {
        let answer = ask(&mut stream, "POST /api/v1/ingest", b"refused\n");
        answer.starts_with("HTTP/1.1 503") && answer.to_lowercase().contains("retry-after")
    };
    // Until then the queue may have a file to write to.
    wait_until("it refuses", &mut is_refused);
    assert_eq!((0..200).filter(|_| is_refused()).count(), 200);
    let answer = ask(&mut stream, "GET /api/v1/count?from=1d&q=kept", b"");
    assert!(answer.contains("\"count\":1"), "{answer}");
    let answer = ask(&mut stream, "GET /-/ready", b"");
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("no file descriptor is left"), "{answer}");
    let answer = ask(&mut stream, "GET /api/v1/cluster", b"");
    assert!(answer.contains(r#""state":"halted""#) && answer.contains("no file descriptor is left"), "{answer}");
    let answer = ask(&mut stream, "GET /metrics", b"");
    assert!(answer.contains("bucksaw_ingest_halted{reason=\"descriptors\"} 1"), "{answer}");
    // Hundreds of refused requests and the lines of four clients.
    let said = log_lines(&node) - before;
    assert!(said < 12, "{said} lines:\n{}", node.log());
    set(256).unwrap();
    // It recovers without further requests.
    wait_until("it is ready", || ask(&mut stream, "GET /-/ready", b"").starts_with("HTTP/1.1 200"));
    let answer = ask(&mut stream, "GET /metrics", b"");
    assert!(answer.contains("bucksaw_ingest_halted{reason=\"descriptors\"} 0"), "{answer}");
    drop(stream);
    wait_until("it accepts again", || node.post("/api/v1/ingest", &[], b"again\n").status == 200);
    assert_healthy(&mut node);
}

#[test]
fn many_files_leave_descriptors_for_http() {
    // The queue is not emptied, and each line creates a file.
    let mut node = limited(128, &["--segment-max-age", "100ms", "--replication-factor", "2"]);
    let mut accepted = 0;
    wait_until("it accepts no more files", || {
        let answer = node.post("/api/v1/ingest", &[], b"a line\n");
        accepted += u64::from(answer.status == 200);
        answer.status == 503
    });
    let files = fs::read_dir(node.dir().join("queue")).unwrap().count();
    assert!((50..72).contains(&files), "{files} of 128");
    let ready = node.get("/-/ready").expect(503);
    assert!(ready.text().contains("no file descriptor is left"), "{}", ready.text());
    // HTTP has its share.
    let held: Vec<TcpStream> = (0..6).map(|_| node.connect("http")).collect();
    for _ in 0..5 {
        node.get("/-/healthy").expect(200);
        node.get("/metrics").expect(200);
    }
    drop(held);
    wait_until("these are closed", || node.get("/api/v1/cluster").status == 200);
    assert_eq!(node.count("line"), accepted);
    // It restarts, and recovers when a store empties the queue.
    assert!(node.terminate().success());
    node.restart_with(&["--segment-max-age", "100ms", "--replication-factor", "1"]);
    wait_until("it accepts", || node.get("/-/ready").status == 200);
    node.post("/api/v1/ingest", &[], b"again\n").expect(200);
    assert_eq!((node.count("\"a line\""), node.count("again")), (accepted, 1));
    assert!(!node.log().contains("cannot accept"), "{}", node.log());
}

/// Sends a request on an open connection; returns the whole response.
fn ask(stream: &mut TcpStream, call: &str, body: &[u8]) -> String {
    let head = format!("{call} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    let mut answer = Vec::new();
    let mut piece = [0; 4_096];
    loop {
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0, "the connection was closed");
        answer.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&answer).to_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        if length.is_some_and(|length| body.len() >= length) {
            return String::from_utf8_lossy(&answer).into_owned();
        }
    }
}
