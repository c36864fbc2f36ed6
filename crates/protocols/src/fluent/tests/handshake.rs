//! The handshake with a real sender.

use super::super::FluentHandshake;
use super::{frames, hex};

/// What `@fluent-org/logger` for JavaScript sends after a HELO with the nonce `0123456789abcdef` if its key is `secret`: a PING,
/// and a message after the PONG.
const PING: &str = "\
     96a450494e47a6636c69656e74d9203562343535623666613136353133366562626262333334376436376266356536d980653266613837\
     34653066393336383930313362303232346363396164306530643662663665316537633639353665643963373231356530343232323037\
     34346366393039313531663034343864643630623030653162306165643731653434386362316131313736646563656338346565313431\
     316230653965366661343038a0a093ab73686f702e6f7264657273c42092d7006553f100075bcd1582a76d657373616765a470616964a5\
     6f726465720781a473697a6501";

fn handshake(key: &[u8]) -> FluentHandshake {
    FluentHandshake::new(key, "server", *b"0123456789abcdef")
}

#[test]
fn the_first_bytes_are_a_nonce_without_users() {
    let want = b"\x92\xa4HELO\x83\xa5nonce\xc4\x100123456789abcdef\xa4auth\xa0\xa9keepalive\xc3";
    assert_eq!(handshake(b"secret").helo(), want);
}

#[test]
fn a_sender_with_the_key_is_accepted() {
    let (messages, error) = frames(FluentHandshake::PING_BYTES_MAX, &[&hex(PING)]);
    assert!(messages.len() == 2 && error.is_none());
    let pong = handshake(b"secret").answer(&messages[0], |_| false).unwrap();
    assert!(pong.is_accepted);
    assert_eq!(pong.client, "client");
    // sha512("5b455b6fa165136ebbbb3347d67bf5e6" "server" "0123456789abcdef" "secret")
    let digest = "4d5445c0f4691afef30c151748cd0138d9d50353aa36a70be4513d6115e5bb26\
                  c6efcd7a10c48a430bf4f6ac6a82567955d6114c09f691977ffc0598c957980e";
    let want = [b"\x95\xa4PONG\xc3\xa0\xa6server\xd9\x80", digest.as_bytes()].concat();
    assert_eq!(pong.answer, want);
}

#[test]
fn a_sender_without_the_key_is_refused() {
    let ping = &frames(1 << 20, &[&hex(PING)]).0[0];
    let refused = b"\x95\xa4PONG\xc2\xb3shared_key mismatch\xa0\xa0";
    let check = |handshake: &FluentHandshake, ping: &[u8]| {
        let pong = handshake.answer(ping, |_| false).unwrap();
        assert_eq!((pong.is_accepted, pong.answer.as_slice()), (false, refused.as_slice()));
    };
    check(&handshake(b"Secret"), ping);
    check(&handshake(b""), ping);
    check(&FluentHandshake::new(b"secret", "server", *b"another nonce 16"), ping);
    let mut other_salt = ping.clone();
    let at = other_salt.windows(4).position(|bytes| bytes == b"5b45").unwrap();
    other_salt[at] = b'e';
    check(&handshake(b"secret"), &other_salt);
    check(&handshake(b"secret"), b"\x94\xa4PING\xa1h\xa1s\xa0");
}

#[test]
fn other_messages_are_no_ping() {
    let check = |message: &[u8], want: &str| {
        let error = handshake(b"secret").answer(message, |_| false).unwrap_err().to_string();
        assert_eq!(error, want, "{}", message.escape_ascii());
    };
    let no_ping =
        "not a message of the forward protocol: the listener has a shared key, and the sender does not send PING";
    check(b"\xc0", no_ping);
    check(b"\x93\xa4shop\x01\x80", no_ping);
    check(b"\x96\xa4PONG\xa0\xa0\xa0\xa0\xa0", no_ping);
    check(
        b"\x96\xa4PING\xa0\x01\xa0\xa0\xa0",
        "not a message of the forward protocol: an element of PING is not a string",
    );
    check(b"\x96\xa4PING\xa0", "the message is not valid MessagePack: a value is cut off");
    check(b"", "the message is not valid MessagePack: a value is cut off");
}

#[test]
fn the_key_is_not_in_debug_output() {
    let text = format!("{:?}", handshake(b"secret"));
    assert!(text.contains("server") && !text.contains("secret"), "{text}");
}
