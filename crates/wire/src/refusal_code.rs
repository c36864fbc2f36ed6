//! Why a node refuses a client.

/// The reason of a refusal, for programs. A newer node may send other codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalCode(pub u16);

impl RefusalCode {
    /// The major version is not supported.
    pub const VERSION: Self = Self(1);
    /// The labels are malformed or exceed their limit.
    pub const LABELS: Self = Self(2);
    /// The hello is malformed.
    pub const MALFORMED: Self = Self(3);
    /// The node is overloaded. A [`ServerMessage::Redirect`](crate::ServerMessage::Redirect) follows, then the connection ends.
    pub const BUSY: Self = Self(4);
    /// The client presents no valid credential.
    pub const UNAUTHENTICATED: Self = Self(5);
}
