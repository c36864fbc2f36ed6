//! The answer of an HTTP API.

use std::borrow::Cow;

/// An answer in the format of its protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAnswer {
    /// The status of HTTP.
    pub status: u16,
    /// JSON; plain text for GELF.
    pub body: Cow<'static, str>,
}

impl HttpAnswer {
    /// The answer with a status and a body.
    pub fn new(status: u16, body: impl Into<Cow<'static, str>>) -> Self {
        Self { status, body: body.into() }
    }
}
