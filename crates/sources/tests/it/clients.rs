//! A node that authenticates: records come from clients with a valid credential only, and get its labels.
#![allow(clippy::disallowed_methods, reason = "tests of real sockets or threads wait in real time")]

use std::time::Duration;

use bucksaw_auth::TokenDigest;
use bucksaw_ingest::Durability;
use bucksaw_sources::{Config, ListenerProtocol, ListenerSetup};
use bucksaw_wire::{ClientToken, ServerMessage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::framed::FramedClient;
use crate::node::ListenerNode;

/// Entries for these tokens: text, scopes, and further keys.
fn auth_file(tokens: &[(&str, &str, &str)]) -> String {
    let entry = |(token, scope, rest): &(&str, &str, &str)| {
        let digest = TokenDigest::of(token);
        format!("[[token]]\nname = \"{token}\"\nsha256 = \"{digest}\"\nscopes = [\"{scope}\"]\n{rest}\n")
    };
    tokens.iter().map(entry).collect()
}

const TOKENS: [(&str, &str, &str); 3] = [
    ("writer", "ingest", "labels = { tenant = \"a\" }\nfluentd = true"),
    ("reader", "read", ""),
    ("several", "ingest", "tenants = [\"a\", \"b\"]"),
];

async fn start(setup: ListenerSetup, tokens: &[(&str, &str, &str)]) -> ListenerNode {
    let queue = bucksaw_ingest::Config::default();
    ListenerNode::start_authenticated(setup, Config::default(), queue, Some(&auth_file(tokens))).await
}

/// Sends bytes, closes the own side, and waits until the node closes its side.
async fn send(node: &ListenerNode, bytes: &[u8]) {
    let mut socket = node.connect().await;
    socket.write_all(bytes).await.unwrap();
    let _ = socket.shutdown().await;
    let _ = tokio::time::timeout(Duration::from_secs(20), socket.read_to_end(&mut Vec::new())).await.unwrap();
}

#[tokio::test]
async fn lines_need_a_token_that_may_write() {
    let node = start(ListenerSetup::lines(Durability::Fast), &TOKENS).await;
    for refused in
        ["one\n", "#labels tenant=a\none\n", "#token reader\none\n", "#token several\none\n", "#token x\none\n"]
    {
        send(&node, refused.as_bytes()).await;
    }
    send(&node, b"#token writer\n#labels app=x,tenant=b\ntwo\n").await;
    let records = node.records();
    assert_eq!((records.len(), records[0].labels.to_string().as_str()), (1, "app=x,tenant=a"));
    let refused = |reason| node.metric(&format!("auth_refused_total{{listener=\"fast\",reason=\"{reason}\"}}"));
    assert_eq!([refused("missing"), refused("scope"), refused("tenant"), refused("unknown")], [2.0, 1.0, 1.0, 1.0]);
}

#[tokio::test]
async fn framed_clients_present_their_token_before_they_send() {
    let node = start(ListenerSetup::lines(Durability::Fast), &TOKENS).await;
    let present = async |token: &str| {
        let mut client = FramedClient::welcome(&node, "app=x").await;
        client.socket.write_all(&ClientToken(token.to_owned()).encode()).await.unwrap();
        let answer = client.read_message().await;
        (client, answer)
    };
    let mut client = FramedClient::welcome(&node, "app=x").await;
    client.send(0, "refused\n").await;
    let Some(ServerMessage::Failed { acked: 0, text }) = client.read_message().await else { panic!("it is accepted") };
    assert!(text.contains("needs a credential"), "{text}");
    for token in ["x", "reader", "several"] {
        let (_, answer) = present(token).await;
        assert!(matches!(answer, Some(ServerMessage::Failed { acked: 0, .. })), "{token}: {answer:?}");
    }
    let (mut client, answer) = present("writer").await;
    assert_eq!(answer, Some(ServerMessage::Acked(0)));
    client.send(0, "one\n").await;
    assert_eq!(client.wait_for_ack(1).await, 1);
    assert_eq!(node.records()[0].labels.to_string(), "app=x,tenant=a");
    // Its next batch is refused once the token is revoked.
    node.replace_auth_file("");
    client.send(1, "two\n").await;
    let answer = client.read_message().await;
    assert!(matches!(&answer, Some(ServerMessage::Failed { acked: 1, .. })), "{answer:?}");
    assert_eq!(node.texts(), ["one"]);
}

#[tokio::test]
async fn a_node_without_an_auth_file_takes_a_token_for_nothing() {
    let node = ListenerNode::start(Durability::Fast, Config::default()).await;
    let mut client = FramedClient::welcome(&node, "app=x").await;
    client.socket.write_all(&ClientToken("any".to_owned()).encode()).await.unwrap();
    assert_eq!(client.read_message().await, Some(ServerMessage::Acked(0)));
    client.send(0, "one\n").await;
    assert_eq!(client.wait_for_ack(1).await, 1);
    send(&node, b"#token any\ntwo\n").await;
    node.until_records(2).await;
    assert!(node.texts().iter().all(|text| !text.contains("token")), "{:?}", node.texts());
}

#[tokio::test]
async fn lines_end_with_their_token() {
    let node = start(ListenerSetup::lines(Durability::Fast), &TOKENS).await;
    let mut socket = node.connect().await;
    socket.write_all(b"#token writer\none\n").await.unwrap();
    node.until_records(1).await;
    node.replace_auth_file(&auth_file(&[("writer", "ingest", "labels = { tenant = \"b\" }")]));
    socket.write_all(b"two\n").await.unwrap();
    let mut rest = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(20), socket.read_to_end(&mut rest)).await.unwrap();
    assert_eq!(node.texts(), ["one"]);
}

#[tokio::test]
async fn a_credential_without_a_certificate_is_not_enough_for_gelf_and_syslog() {
    let syslog = ListenerProtocol::Syslog(bucksaw_record::time::TimeZone::UTC);
    for (name, protocol) in [("gelf", ListenerProtocol::Gelf), ("syslog", syslog)] {
        let node = start(ListenerSetup { name, durability: Durability::Fast, protocol }, &TOKENS).await;
        send(&node, b"#token writer\n").await;
        send(&node, b"<14>one\n").await;
        send(&node, b"{\"host\":\"a\",\"short_message\":\"one\"}\0").await;
        assert_eq!(node.texts(), [""; 0], "{name}");
    }
}

/// `[PING, hostname, salt, digest, user, digest]` as a sender without a shared key answers a HELO.
fn ping(helo: &[u8], user: &str, password: &str) -> Vec<u8> {
    use sha2::{Digest as _, Sha512};
    let after = |name: &[u8]| {
        let at = helo.windows(name.len()).position(|bytes| bytes == name).unwrap() + name.len() + 2;
        helo[at..at + 16].to_vec()
    };
    let (nonce, salt) = (after(b"nonce"), after(b"auth"));
    let hex = |parts: &[&[u8]]| {
        let mut digest = Sha512::new();
        parts.iter().for_each(|part| digest.update(part));
        digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let text = |text: &str| [&[0xd9, text.len() as u8][..], text.as_bytes()].concat();
    let of_key = hex(&[b"salt", b"host", &nonce]);
    let of_user = hex(&[&salt, user.as_bytes(), password.as_bytes()]);
    let parts = ["PING", "host", "salt", &of_key, user, &of_user];
    [vec![0x96], parts.iter().flat_map(|part| text(part)).collect()].concat()
}

#[tokio::test]
async fn fluentd_proves_its_user_by_the_digest_of_the_token() {
    let protocol = ListenerProtocol::Fluent(None);
    let node = start(ListenerSetup { name: "fluent", durability: Durability::Fast, protocol }, &TOKENS).await;
    let digest = TokenDigest::of("writer").to_string();
    for (user, password, is_accepted) in
        [("writer", "writer", false), ("reader", digest.as_str(), false), ("", "", false), ("writer", &digest, true)]
    {
        let mut socket = node.connect().await;
        let mut helo = vec![0; 66];
        let read = socket.read(&mut helo).await.unwrap();
        socket.write_all(&ping(&helo[..read], user, password)).await.unwrap();
        let mut pong = vec![0; 7];
        socket.read_exact(&mut pong).await.unwrap();
        assert_eq!(pong[6], if is_accepted { 0xc3 } else { 0xc2 }, "{user}");
        // `["t", 1700000000, {"log": "one"}]`
        let _ = socket.write_all(b"\x93\xa1t\xce\x65\x53\xf1\x00\x81\xa3log\xa3one").await;
    }
    node.until_records(1).await;
    let records = node.records();
    assert_eq!((records.len(), records[0].labels.get("tenant")), (1, Some("a")));
}
