//! HTTP calls with the time limit of the tests.

use std::io;

use bucksaw_faults::http;
pub(crate) use bucksaw_faults::http::{Response, StreamingResponse, encode, gzip};

use crate::wait::WAIT_MAX;

/// Sends a request and reads the whole reply.
pub(crate) fn call(
    address: &str,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Response> {
    http::call(address, method, target, headers, body, WAIT_MAX)
}

/// Sends a request without a body and reads the head of the reply.
pub(crate) fn open(
    address: &str,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
) -> io::Result<StreamingResponse> {
    http::open(address, method, target, headers, b"", WAIT_MAX)
}
