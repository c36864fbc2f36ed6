//! The answer to a client without TLS at a port with TLS, in the protocol of the client.

use bucksaw_wire::{HelloReply, MAGIC, RefusalCode};

/// The answer by the first byte of the client; empty for clients that read none.
pub(crate) fn answer(first: [u8; 1]) -> Vec<u8> {
    match first {
        // The method of a request of HTTP.
        [letter] if letter.is_ascii_uppercase() => http_answer(),
        [byte] if byte == MAGIC[0] => {
            let text = "this port speaks TLS: give --tls, or --ca with the file of its CA".to_owned();
            HelloReply::Refused { code: RefusalCode::MALFORMED, text }.encode()
        }
        _ => Vec::new(),
    }
}

fn http_answer() -> Vec<u8> {
    let body = "{\"error\":\"this port speaks TLS: use https://\"}\n";
    let head = "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n";
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

#[cfg(test)]
mod tests {
    use bucksaw_wire::DecodeProgress;

    use super::*;

    #[test]
    fn each_protocol_is_answered_in_its_own_words() {
        assert!(String::from_utf8(answer(*b"G")).unwrap().ends_with("use https://\"}\n"));
        let reply = HelloReply::decode(&answer([MAGIC[0]])).unwrap();
        assert!(
            matches!(reply, DecodeProgress::Complete(HelloReply::Refused { text, .. }, _) if text.contains("--tls"))
        );
        assert!(answer(*b"<").is_empty() && answer([0]).is_empty());
    }
}
