//! Reads arbitrary bytes as the headers of a request, for the fuzzer.

use std::sync::OnceLock;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use prometheus_client::registry::Registry;

use crate::access::{asks_for_json, pending_login, presented_token, requested_tenant};
use crate::config::Config;
use crate::grpc::{CallDeadline, stated_encoding};
use crate::guard::Guard;
use crate::ingest_params::{content_encoding, idempotency_key, labels, media_type};
use crate::metrics::Metrics;

/// The headers that handlers and checks read.
const NAMES: [&str; 17] = [
    "accept",
    "accept-encoding",
    "authorization",
    "bucksaw-label",
    "content-encoding",
    "content-type",
    "cookie",
    "dd-api-key",
    "grpc-encoding",
    "grpc-timeout",
    "host",
    "idempotency-key",
    "origin",
    "sec-fetch-dest",
    "sec-fetch-mode",
    "sec-fetch-site",
    "x-scope-orgid",
];

/// Reads each line of `data` as a header: its first byte chooses the name. The line after the last LF is the target.
pub fn headers(data: &[u8]) {
    static GUARD: OnceLock<Guard> = OnceLock::new();
    let guard = GUARD.get_or_init(|| {
        let config =
            Config { allowed_hosts: vec!["a.example".to_owned(), "*.b.example".to_owned()], ..Config::default() };
        Guard::new(&config, Metrics::new(&mut Registry::default()))
    });
    let mut lines = data.split(|byte| *byte == b'\n');
    let target = lines.next_back().and_then(|target| Uri::try_from(target).ok()).unwrap_or_default();
    let mut headers = HeaderMap::new();
    for line in lines {
        let Some((number, value)) = line.split_first() else { continue };
        let name = NAMES.get(usize::from(*number) % NAMES.len()).copied().unwrap_or("accept");
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.append(HeaderName::from_static(name), value);
        }
    }
    let _ = guard.check(&Method::GET, &target, &headers);
    if let Ok(Some(token)) = presented_token(&headers) {
        assert!(!token.expose().is_empty());
    }
    let _ = (requested_tenant(&headers), pending_login(&headers), asks_for_json(&headers), media_type(&headers));
    let chosen = crate::accept_encoding::choose(&headers, ["zstd", "gzip"]);
    assert!(chosen.is_none_or(|encoding| encoding == "zstd" || encoding == "gzip"));
    let _ =
        (content_encoding(&headers), idempotency_key(&headers), stated_encoding(&headers), CallDeadline::of(&headers));
    let _ = labels("bucksaw-label", headers.get_all("bucksaw-label").iter().map(HeaderValue::as_bytes), None);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(data in prop::collection::vec(any::<u8>(), 0..200)) {
            super::headers(&data);
        }
    }
}
