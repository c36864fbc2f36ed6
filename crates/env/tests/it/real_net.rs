//! The real network, over loopback.
#![allow(clippy::disallowed_methods, reason = "tests of real sockets or threads wait in real time")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by a panic")]

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bucksaw_env::real::{self, NetConfig, Secret};
use bucksaw_env::{Body, IncomingCall, Net as _};
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

const HELLO: &[u8; 6] = b"BKSW\x01\x00";

/// Longer than any step takes on a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Several times the buffers of the kernel and of a connection.
const LARGE_BODY_BYTES: usize = 64 << 20;

fn config(secret: Option<&str>) -> NetConfig {
    let listen = "127.0.0.1:0".parse().unwrap();
    let secrets = secret.map(|secret| Secret::parse_file(secret.as_bytes()).unwrap()).unwrap_or_default();
    NetConfig { listen, secrets, ..NetConfig::default() }
}

async fn bind(config: NetConfig) -> Arc<real::Net> {
    Arc::new(real::Net::bind(config).await.unwrap())
}

async fn plain() -> Arc<real::Net> {
    bind(config(None)).await
}

const SECRET: &str = "the secret of our cluster";

async fn encrypted() -> Arc<real::Net> {
    bind(config(Some(SECRET))).await
}

/// Handles every call in a task.
fn serve<F: Future<Output = ()> + Send + 'static>(
    net: &Arc<real::Net>,
    handle: impl Fn(IncomingCall) -> F + Send + Sync + 'static,
) {
    let net = Arc::clone(net);
    tokio::spawn(async move {
        loop {
            tokio::spawn(handle(net.accept().await));
        }
    });
}

/// Replies with the request.
async fn echo(mut call: IncomingCall) {
    let (writer, body) = Body::channel();
    call.reply.send(Ok(body));
    while let Some(piece) = call.body.next().await {
        match piece {
            Ok(piece) => {
                if writer.send(piece).await.is_err() {
                    return;
                }
            }
            Err(error) => return writer.fail(error).await,
        }
    }
    let _ = writer.end().await;
}

async fn with_test_timeout<T>(future: impl Future<Output = T>) -> T {
    timeout(TEST_TIMEOUT, future).await.expect("timed out")
}

async fn call(from: &real::Net, to: &real::Net, name: &str, body: Body) -> io::Result<Vec<u8>> {
    with_test_timeout(async { from.call(to.address(), name, body).await?.read_all(LARGE_BODY_BYTES).await }).await
}

/// Waits until `count` connections are counted as refused, which happens after they are closed.
async fn refused(net: &real::Net, count: u64) {
    let until = async {
        while net.counters().refused_connections.get() < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    with_test_timeout(until).await;
    assert_eq!(net.counters().refused_connections.get(), count);
}

/// Waits until at most `count` connections are open.
async fn open_at_most(net: &real::Net, count: i64) {
    let until = async {
        while net.counters().connections.get() > count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    with_test_timeout(until).await;
}

fn kind<T: std::fmt::Debug>(result: io::Result<T>) -> io::ErrorKind {
    result.unwrap_err().kind()
}

fn pieces(bytes: usize) -> impl Iterator<Item = Bytes> {
    let piece: Bytes = (0..65_536_u32).map(|n| (n % 251) as u8).collect();
    (0..bytes / piece.len()).map(move |_| piece.clone())
}

/// The nodes change the secret one after the other, in two rounds; every node reaches every other at every moment.
#[tokio::test(flavor = "multi_thread")]
async fn the_secret_changes_without_a_stop() {
    let (old, new) = ("an old secret of the cluster", "a new secret of the cluster");
    let (old_first, new_first) = (format!("{old}\n{new}\n"), format!("{new}\n{old}\n"));
    let nodes = [bind(config(Some(old))).await, bind(config(Some(old))).await, bind(config(Some(old))).await];
    for node in &nodes {
        serve(node, echo);
    }
    let all_reach_all = async || {
        for from in &nodes {
            for to in &nodes {
                assert_eq!(call(from, to, "a", Body::whole("x")).await.unwrap(), b"x");
                from.send(to.address(), b"hello".to_vec());
                let (_, datagram) = with_test_timeout(to.receive()).await;
                assert_eq!(datagram, b"hello");
            }
        }
    };
    for secrets in [old_first.as_str(), &new_first, new] {
        for node in &nodes {
            node.replace_secrets(Secret::parse_file(secrets.as_bytes()).unwrap());
            all_reach_all().await;
        }
    }
    let late = bind(config(Some(old))).await;
    assert_eq!(kind(call(&late, &nodes[0], "a", Body::empty()).await), io::ErrorKind::PermissionDenied);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_answered_and_share_connections() {
    for (near, far) in [(plain().await, plain().await), (encrypted().await, encrypted().await)] {
        serve(&far, |call| async move {
            let name = call.name.clone();
            let request = call.body.read_all(100).await.unwrap();
            call.reply.send(Ok(Body::whole([name.as_bytes(), b" ", &request].concat())));
        });
        for n in 0..50 {
            let reply = call(&near, &far, "a/b", Body::whole(n.to_string())).await.unwrap();
            assert_eq!(reply, format!("a/b {n}").as_bytes());
        }
        assert_eq!(call(&near, &far, "c", Body::empty()).await.unwrap(), b"c ");
        // One on an idle machine; a busy one may detect too late that a connection can be reused.
        let accepted = far.counters().accepted_connections.get();
        assert!((1..25).contains(&accepted), "{accepted} connections for 51 calls");
        assert!(
            far.counters().received_bytes.get() > 50
                && near.counters().sent_bytes.get() >= far.counters().received_bytes.get()
        );
        // A node can call itself.
        assert_eq!(call(&far, &far, "c", Body::whole("d")).await.unwrap(), b"c d");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_go_both_ways_at_once() {
    for (near, far) in [(plain().await, plain().await), (encrypted().await, encrypted().await)] {
        serve(&far, echo);
        let (writer, body) = Body::channel();
        let write = async {
            for piece in pieces(LARGE_BODY_BYTES) {
                writer.send(piece).await.unwrap();
            }
            writer.end().await.unwrap();
        };
        let read = async { near.call(far.address(), "echo", body).await?.read_all(LARGE_BODY_BYTES).await };
        let ((), read) = with_test_timeout(async { tokio::join!(write, read) }).await;
        assert!(read.unwrap() == pieces(LARGE_BODY_BYTES).collect::<Vec<_>>().concat());
        assert_eq!(call(&near, &far, "echo", Body::whole("again")).await.unwrap(), b"again");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_waits_for_the_reader() {
    for (near, far) in [(plain().await, plain().await), (encrypted().await, encrypted().await)] {
        // The caller writes, the callee does not read.
        let (writer, body) = Body::channel();
        let written = Arc::new(AtomicUsize::new(0));
        let writing = tokio::spawn(write_large_body(writer, Arc::clone(&written)));
        let calling = tokio::spawn(near.call(far.address(), "take", body));
        let incoming = with_test_timeout(far.accept()).await;
        assert_writer_waits(&near, &far, &written).await;
        assert_eq!(with_test_timeout(incoming.body.read_all(LARGE_BODY_BYTES)).await.unwrap().len(), LARGE_BODY_BYTES);
        with_test_timeout(writing).await.unwrap();

        // The callee writes, the caller does not read.
        let (writer, body) = Body::channel();
        let written = Arc::new(AtomicUsize::new(0));
        let writing = tokio::spawn(write_large_body(writer, Arc::clone(&written)));
        incoming.reply.send(Ok(body));
        let reply = with_test_timeout(calling).await.unwrap().unwrap();
        assert_writer_waits(&near, &far, &written).await;
        assert_eq!(with_test_timeout(reply.read_all(LARGE_BODY_BYTES)).await.unwrap().len(), LARGE_BODY_BYTES);
        with_test_timeout(writing).await.unwrap();
    }
}

async fn write_large_body(writer: bucksaw_env::BodyWriter, written: Arc<AtomicUsize>) {
    for piece in pieces(LARGE_BODY_BYTES) {
        let bytes = piece.len();
        writer.send(piece).await.unwrap();
        written.fetch_add(bytes, Ordering::SeqCst);
    }
    writer.end().await.unwrap();
}

/// Sends a body of the same length in another call, which is read: it arrives whole before the unread one is half written.
async fn assert_writer_waits(near: &real::Net, far: &real::Net, written: &AtomicUsize) {
    let (writer, body) = Body::channel();
    let call = near.call(far.address(), "read", body);
    let handle = async {
        let IncomingCall { body, reply, .. } = far.accept().await;
        assert_eq!(body.read_all(LARGE_BODY_BYTES).await.unwrap().len(), LARGE_BODY_BYTES);
        reply.send(Ok(Body::empty()));
    };
    let (replied, ..) =
        with_test_timeout(async { tokio::join!(call, handle, write_large_body(writer, Arc::default())) }).await;
    replied.unwrap();
    let unread = written.load(Ordering::SeqCst);
    assert!((1..LARGE_BODY_BYTES / 2).contains(&unread), "{unread} bytes written and not read");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_body_is_an_error_for_the_peer() {
    for (near, far) in [(plain().await, plain().await), (encrypted().await, encrypted().await)] {
        // The reply fails, with an error or by a dropped writer.
        for fail in [true, false] {
            let calling = tokio::spawn(near.call(far.address(), "give", Body::empty()));
            let given = with_test_timeout(far.accept()).await;
            let (writer, body) = Body::channel();
            given.reply.send(Ok(body));
            writer.send("some").await.unwrap();
            let mut reply = with_test_timeout(calling).await.unwrap().unwrap();
            assert_eq!(with_test_timeout(reply.next()).await.unwrap().unwrap(), "some");
            if fail {
                writer.fail(io::ErrorKind::StorageFull.into()).await;
            } else {
                drop(writer);
            }
            assert_eq!(kind(with_test_timeout(reply.next()).await.unwrap()), io::ErrorKind::UnexpectedEof);
            assert!(reply.next().await.is_none());
        }
        // The request fails.
        for fail in [true, false] {
            let (writer, body) = Body::channel();
            let calling = tokio::spawn(near.call(far.address(), "take", body));
            writer.send("some").await.unwrap();
            let mut incoming = with_test_timeout(far.accept()).await;
            assert_eq!(with_test_timeout(incoming.body.next()).await.unwrap().unwrap(), "some");
            if fail {
                writer.fail(io::ErrorKind::StorageFull.into()).await;
            } else {
                drop(writer);
            }
            assert_eq!(kind(with_test_timeout(incoming.body.next()).await.unwrap()), io::ErrorKind::UnexpectedEof);
            let kinds = [io::ErrorKind::UnexpectedEof, io::ErrorKind::StorageFull];
            assert_eq!(kind(with_test_timeout(calling).await.unwrap()), kinds[usize::from(fail)]);
        }
    }
}

/// A peer that sends `reply` on every connection and closes it.
async fn replying_peer(reply: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut hello = [0; 6];
            stream.read_exact(&mut hello).await.unwrap();
            let (hello_reply, rest) = reply.split_at(reply.len().min(6));
            stream.write_all(hello_reply).await.unwrap();
            // The response follows the request.
            if !rest.is_empty() && stream.read(&mut [0; 1_000]).await.unwrap() > 0 {
                let _ = stream.write_all(rest).await;
            }
            // Reads the rest of the request, so that the connection is closed and not reset.
            stream.shutdown().await.unwrap();
            let _ = stream.read_to_end(&mut Vec::new()).await;
        }
    });
    address
}

#[tokio::test]
async fn a_truncated_reply_is_an_error() {
    let near = plain().await;
    for (reply, expected_kind, message) in [
        (&b""[..], io::ErrorKind::UnexpectedEof, ""),
        (b"BKS", io::ErrorKind::UnexpectedEof, ""),
        (b"HTTP/1.1 400 Bad Request", io::ErrorKind::InvalidData, "not a bucksaw node"),
        (b"BKSW\x01\x01", io::ErrorKind::ConnectionAborted, "no common version"),
        (b"BKSW\x07\x00", io::ErrorKind::ConnectionAborted, "no common version"),
        (b"BKSW\x01\x00HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc", io::ErrorKind::UnexpectedEof, ""),
        (
            b"BKSW\x01\x00HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
            io::ErrorKind::UnexpectedEof,
            "",
        ),
        (b"BKSW\x01\x00HTTP/1.1 200 OK\r\n", io::ErrorKind::UnexpectedEof, ""),
        (b"BKSW\x01\x00nonsense\r\n\r\n", io::ErrorKind::InvalidData, ""),
    ] {
        let to = replying_peer(reply).await;
        let calling =
            with_test_timeout(async { near.call(to, "a", Body::whole("b")).await?.read_all(100).await }).await;
        let error = calling.unwrap_err();
        assert_eq!(error.kind(), expected_kind, "{error}, after {}", reply.escape_ascii());
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_carry_their_message() {
    let (near, far) = (encrypted().await, encrypted().await);
    serve(&far, |call| async move {
        match call.name.as_str() {
            "full" => call.reply.send(Err(io::Error::new(io::ErrorKind::StorageFull, "the disk is full"))),
            "long" => call.reply.send(Err(io::Error::other("ö".repeat(10_000)))),
            "forgotten" => drop(call.reply),
            other => call.reply.send(Err(io::Error::new(io::ErrorKind::Unsupported, format!("no call {other}")))),
        }
    });
    let check = async |name: &str, kind: io::ErrorKind, message: &str| {
        let error = call(&near, &far, name, Body::whole("body")).await.unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, message));
    };
    check("full", io::ErrorKind::Other, "the disk is full").await;
    check("forgotten", io::ErrorKind::Other, "the call was dropped").await;
    check("dance", io::ErrorKind::Unsupported, "no call dance").await;
    check("long", io::ErrorKind::Other, &"ö".repeat(2_048)).await;
    assert_eq!(kind(call(&near, &far, "no name", Body::empty()).await), io::ErrorKind::InvalidInput);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_message_reaches_a_caller_that_is_still_sending() {
    let (near, far) = (plain().await, plain().await);
    serve(&far, |call| async move { call.reply.send(Err(io::Error::other("not today"))) });
    for _ in 0..20 {
        let (writer, body) = Body::channel();
        let writing = tokio::spawn(async move {
            // Ends when the reader is dropped.
            while writer.send(vec![0; 65_536]).await.is_ok() {}
        });
        let error = call(&near, &far, "take", body).await.unwrap_err();
        assert_eq!(error.to_string(), "not today");
        with_test_timeout(writing).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_port_is_connection_refused() {
    let near = plain().await;
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    assert_eq!(kind(with_test_timeout(near.call(free, "a", Body::empty())).await), io::ErrorKind::ConnectionRefused);
    // A peer that accepts connections and sends nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = bind(NetConfig { handshake_timeout: Duration::from_millis(50), ..config(None) }).await;
    let error = with_test_timeout(near.call(silent.local_addr().unwrap(), "a", Body::empty())).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_node_can_be_called_again() {
    let near = plain().await;
    let far = plain().await;
    let address = far.address();
    let serving = {
        let far = Arc::clone(&far);
        tokio::spawn(async move {
            loop {
                echo(far.accept().await).await;
            }
        })
    };
    assert_eq!(call(&near, &far, "a", Body::whole("b")).await.unwrap(), b"b");
    serving.abort();
    let _ = serving.await;
    drop(far);
    // The port is free when the connections of the dropped network are closed.
    let far = with_test_timeout(async {
        loop {
            match real::Net::bind(NetConfig { listen: address, ..config(None) }).await {
                Ok(net) => break Arc::new(net),
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    })
    .await;
    serve(&far, echo);
    // A call on a connection whose end was not detected yet may fail.
    let reply = with_test_timeout(async {
        loop {
            match call(&near, &far, "a", Body::whole("c")).await {
                Ok(reply) => break reply,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    });
    assert_eq!(reply.await, b"c");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_without_the_secret_is_refused() {
    for (ours, theirs, message) in [
        (Some(SECRET), Some("the secret of another cluster"), "different cluster secrets"),
        (Some(SECRET), None, "the called node has none"),
        (None, Some(SECRET), "the calling node has none"),
    ] {
        let (near, far) = (bind(config(ours)).await, bind(config(theirs)).await);
        serve(&far, echo);
        for count in 1..=3 {
            let error = call(&near, &far, "a", Body::whole("b")).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            assert!(error.to_string().contains(message), "{error}");
            refused(&far, count).await;
        }
        assert_eq!(far.counters().connections.get(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_connection_cannot_be_replayed() {
    let near = encrypted().await;
    let recorder = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let calling = tokio::spawn(near.call(recorder.local_addr().unwrap(), "a", Body::empty()));
    let mut recorded = [0; 54];
    with_test_timeout(recorder.accept()).await.unwrap().0.read_exact(&mut recorded).await.unwrap();
    calling.abort();

    let far = bind(NetConfig { handshake_timeout: Duration::from_millis(500), ..config(Some(SECRET)) }).await;
    for (count, then) in [(1, &b""[..]), (2, &[&[17, 0][..], &[1; 17]].concat())] {
        let mut stream = TcpStream::connect(far.address()).await.unwrap();
        stream.write_all(&recorded).await.unwrap();
        let mut reply = [0; 60];
        with_test_timeout(stream.read_exact(&mut reply)).await.unwrap();
        assert_eq!(reply[..6], *HELLO, "the first message is accepted");
        stream.write_all(then).await.unwrap();
        let _ = with_test_timeout(stream.read_to_end(&mut Vec::new())).await;
        refused(&far, count).await;
        assert_eq!(far.counters().connections.get(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_bytes_are_refused_and_harmless() {
    for far in [plain().await, encrypted().await] {
        serve(&far, echo);
        for (n, invalid) in [
            &b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"[..],
            b"POST /a HTTP/1.1\r\ncontent-length: 1\r\n\r\nb",
            &[0; 1_000],
            b"BKSW\x00\x00",
            b"BKSW\x01\x09",
            &[&b"BKSW\x01\x01"[..], &[7; 48]].concat(), // a handshake without the secret
        ]
        .into_iter()
        .enumerate()
        {
            let mut stream = TcpStream::connect(far.address()).await.unwrap();
            stream.write_all(invalid).await.unwrap();
            let mut reply = Vec::new();
            let _ = with_test_timeout(stream.read_to_end(&mut reply)).await;
            assert!(!reply.windows(4).any(|bytes| bytes == b"HTTP"), "{}", reply.escape_ascii());
            refused(&far, n as u64 + 1).await;
        }
        assert_eq!(call(&far, &far, "a", Body::whole("b")).await.unwrap(), b"b");
    }
    // Invalid requests after a valid handshake.
    let far = plain().await;
    serve(&far, echo);
    for invalid in [
        "GET /a HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
        "POST /../a?b HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
        "POST /é HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
        "nonsense\r\n\r\n".to_owned(),
        format!("POST /a HTTP/1.1\r\na: {}\r\n\r\n", "b".repeat(1 << 20)),
        format!("POST /a HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(1_000)),
    ] {
        let mut stream = TcpStream::connect(far.address()).await.unwrap();
        stream.write_all(HELLO).await.unwrap();
        let _ = stream.write_all(invalid.as_bytes()).await;
        stream.shutdown().await.unwrap_or_default();
        let mut reply = Vec::new();
        let _ = with_test_timeout(stream.read_to_end(&mut reply)).await;
        assert!(!reply.windows(6).any(|bytes| bytes == b"200 OK"), "{}", reply.escape_ascii());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_handshake_times_out() {
    let short =
        NetConfig { handshake_timeout: Duration::from_millis(50), idle_max: Duration::from_millis(50), ..config(None) };
    let far = bind(short).await;
    for beginning in [&b""[..], b"BKS", HELLO, b"BKSW\x01\x00POST /a HTTP/1.1\r\nhost:"] {
        let mut stream = TcpStream::connect(far.address()).await.unwrap();
        stream.write_all(beginning).await.unwrap();
        // One byte at a time, without end.
        let (mut read, mut write) = stream.split();
        let dripping = async {
            while beginning.len() > HELLO.len() && write.write_all(b"a").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let mut reply = Vec::new();
        let _ = with_test_timeout(async { tokio::join!(dripping, read.read_to_end(&mut reply)) }).await;
    }
    refused(&far, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_limited() {
    let near = plain().await;
    let far = bind(NetConfig { connections_max: 2, ..config(None) }).await;
    let calls: Vec<_> = (0..2).map(|_| tokio::spawn(near.call(far.address(), "wait", Body::empty()))).collect();
    let waiting = [with_test_timeout(far.accept()).await, with_test_timeout(far.accept()).await];
    let error = with_test_timeout(near.call(far.address(), "wait", Body::empty())).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    assert!(error.to_string().contains("too many connections"), "{error}");
    for call in waiting {
        call.reply.send(Ok(Body::empty()));
    }
    for call in calls {
        with_test_timeout(call).await.unwrap().unwrap();
    }
    serve(&far, echo);
    assert_eq!(call(&near, &far, "a", Body::whole("b")).await.unwrap(), b"b");
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_call_ends_it_on_both_sides() {
    for (near, far) in [(plain().await, plain().await), (encrypted().await, encrypted().await)] {
        // Before the reply.
        let (writer, body) = Body::channel();
        let calling = tokio::spawn(near.call(far.address(), "a", body));
        let mut incoming = with_test_timeout(far.accept()).await;
        calling.abort();
        with_test_timeout(writer.closed()).await;
        assert!(with_test_timeout(incoming.body.next()).await.unwrap().is_err());
        drop(incoming);

        // During the reply: its writer gets the end, whether it writes or waits.
        for write in [true, false] {
            let calling = tokio::spawn(near.call(far.address(), "a", Body::empty()));
            let incoming = with_test_timeout(far.accept()).await;
            let (writer, body) = Body::channel();
            incoming.reply.send(Ok(body));
            writer.send("some").await.unwrap();
            drop(with_test_timeout(calling).await.unwrap().unwrap());
            if write {
                with_test_timeout(async { while writer.send(vec![0; 65_536]).await.is_ok() {} }).await;
            }
            with_test_timeout(writer.closed()).await;
        }
        open_at_most(&far, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_callee_closes_the_request_body() {
    let (near, far) = (plain().await, plain().await);
    let (writer, body) = Body::channel();
    let calling = tokio::spawn(near.call(far.address(), "a", body));
    let mut incoming = with_test_timeout(far.accept()).await;
    drop(far);
    with_test_timeout(writer.closed()).await;
    assert!(with_test_timeout(incoming.body.next()).await.unwrap().is_err());
    assert!(with_test_timeout(calling).await.unwrap().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_calls_are_answered() {
    let (near, far) = (encrypted().await, encrypted().await);
    serve(&far, echo);
    let calls: Vec<_> = (0..200_u32)
        .map(|n| {
            let (near, far) = (Arc::clone(&near), Arc::clone(&far));
            tokio::spawn(async move {
                for m in 0..5 {
                    let body = format!("{n} {m}").repeat(1_000).into_bytes();
                    assert!(call(&near, &far, "a", Body::whole(body.clone())).await.unwrap() == body);
                }
            })
        })
        .collect();
    for call in calls {
        with_test_timeout(call).await.unwrap();
    }
    // The number of pooled connections is bounded.
    open_at_most(&far, NetConfig::default().idle_connections_max as i64).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_body_passes_encrypted() {
    const BYTES: usize = 100 << 20;
    let (near, far) = (encrypted().await, encrypted().await);
    serve(&far, |call| async move {
        let (writer, body) = Body::channel();
        call.reply.send(Ok(body));
        for piece in pieces(BYTES) {
            writer.send(piece).await.unwrap();
        }
        writer.end().await.unwrap();
    });
    let started = tokio::time::Instant::now();
    let read =
        with_test_timeout(async { near.call(far.address(), "much", Body::empty()).await?.read_all(BYTES).await });
    assert_eq!(read.await.unwrap().len(), BYTES);
    let seconds = started.elapsed().as_secs_f64();
    println!("{:.0} MB/s encrypted", BYTES as f64 / 1e6 / seconds);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_datagrams_with_the_secret_are_received() {
    for secret in [None, Some(SECRET)] {
        let (near, far) = (bind(config(secret)).await, bind(config(secret)).await);
        let others = [plain().await, encrypted().await, bind(config(Some("the secret of another cluster"))).await];
        let mut bad = 0;
        for other in others.iter().zip([None, Some(SECRET), Some("")]).filter(|(_, theirs)| *theirs != secret) {
            other.0.send(far.address(), b"let me in".to_vec());
            bad += 1;
        }
        let raw = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for invalid in [&b""[..], b"nonsense", &[0xB5; 2_000]] {
            raw.send_to(invalid, far.address()).unwrap();
            bad += 1;
        }
        // Loopback preserves the order.
        near.send(far.address(), b"hello".to_vec());
        near.send(far.address(), vec![7; bucksaw_env::DATAGRAM_BYTES_MAX]);
        near.send(far.address(), vec![7; bucksaw_env::DATAGRAM_BYTES_MAX + 1]);
        near.send(far.address(), Vec::new());
        assert_eq!(with_test_timeout(far.receive()).await, (near.address(), b"hello".to_vec()));
        assert_eq!(with_test_timeout(far.receive()).await, (near.address(), vec![7; bucksaw_env::DATAGRAM_BYTES_MAX]));
        assert_eq!(with_test_timeout(far.receive()).await, (near.address(), Vec::new()));
        assert_eq!(far.counters().rejected_datagrams.get(), bad);
        assert_eq!(near.counters().unsent_datagrams.get(), 1);
    }
}

#[tokio::test]
async fn an_unspecified_address_is_not_advertised() {
    let listen: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let error = real::Net::bind(NetConfig { listen, ..config(None) }).await.unwrap_err();
    assert!(error.to_string().contains("advertise it"), "{error}");
    let advertise = Some("192.0.2.1:0".parse().unwrap());
    let net = bind(NetConfig { listen, advertise, ..config(None) }).await;
    assert_eq!(net.address().ip().to_string(), "192.0.2.1");
    assert_ne!(net.address().port(), 0);
    // The node can call itself although the advertised address leads elsewhere.
    serve(&net, echo);
    assert_eq!(call(&net, &net, "a", Body::whole("b")).await.unwrap(), b"b");
    net.send(net.address(), b"me".to_vec());
    assert_eq!(with_test_timeout(net.receive()).await.1, b"me");
}

#[tokio::test]
async fn names_resolve_to_reachable_addresses() {
    let net = plain().await;
    assert_eq!(net.resolve("127.0.0.1:80").await.unwrap(), ["127.0.0.1:80".parse().unwrap()]);
    assert!(net.resolve("localhost:80").await.unwrap().iter().all(SocketAddr::is_ipv4));
    assert_eq!(kind(net.resolve("[::1]:80").await), io::ErrorKind::NotFound);
    assert!(net.resolve("localhost").await.is_err());
}
