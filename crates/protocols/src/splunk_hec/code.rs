//! The codes of Splunk's table of answers that a node sends.

/// An outcome, with its number, its text and its status of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HecCode {
    /// All events were taken.
    Success,
    /// The request has no token.
    TokenRequired,
    /// The token is not known, or does not allow to write.
    InvalidToken,
    /// The body is empty.
    NoData,
    /// The body is not JSON, or a member is of the wrong type.
    InvalidDataFormat,
    /// An error of this server.
    InternalServerError,
    /// The server takes nothing for now; the client sends again later.
    ServerBusy,
    /// A request about acknowledgements names no channel.
    DataChannelMissing,
    /// An object has no `event`.
    EventRequired,
    /// The `event` is empty.
    EventBlank,
    /// The `fields` are not a flat object.
    IndexedFields,
    /// The server is healthy.
    Healthy,
    /// The server takes nothing for now, as an answer about its health.
    Unhealthy,
}

impl HecCode {
    /// The number of the table.
    pub const fn number(self) -> u8 {
        self.entry().0
    }

    /// The status of HTTP.
    pub const fn status(self) -> u16 {
        self.entry().1
    }

    /// The text of the table.
    pub const fn text(self) -> &'static str {
        self.entry().2
    }

    const fn entry(self) -> (u8, u16, &'static str) {
        match self {
            Self::Success => (0, 200, "Success"),
            Self::TokenRequired => (2, 401, "Token is required"),
            Self::InvalidToken => (4, 403, "Invalid token"),
            Self::NoData => (5, 400, "No data"),
            Self::InvalidDataFormat => (6, 400, "Invalid data format"),
            Self::InternalServerError => (8, 500, "Internal server error"),
            Self::ServerBusy => (9, 503, "Server is busy"),
            Self::DataChannelMissing => (10, 400, "Data channel is missing"),
            Self::EventRequired => (12, 400, "Event field is required"),
            Self::EventBlank => (13, 400, "Event field cannot be blank"),
            Self::IndexedFields => (15, 400, "Error in handling indexed fields"),
            Self::Healthy => (17, 200, "HEC is healthy"),
            Self::Unhealthy => (18, 503, "HEC is unhealthy, queues are full"),
        }
    }
}
