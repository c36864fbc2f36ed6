//! Kinds of ports and of redirects.

use crate::append::Durability;

/// The kind of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerKind {
    /// HTTP.
    Http,
    /// Lines and the framed protocol, with this durability.
    Tcp(Durability),
}

/// What a redirect means for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectKind {
    /// It may stay.
    Suggested,
    /// It is new and is refused.
    Refused,
    /// It is connected and must leave.
    Disconnected,
}

impl RedirectKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Suggested, Self::Refused, Self::Disconnected];

    /// The name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Suggested => "suggested",
            Self::Refused => "refused",
            Self::Disconnected => "disconnected",
        }
    }
}
