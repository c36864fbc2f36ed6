//! Kinds of messages in a reply. The first is a [head](MessageKind::Head), the last an
//! [end](MessageKind::End): a reply without one was truncated.

/// The content of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageKind {
    /// The node that replies and its snapshot; JSON.
    Head = 1,
    /// The progress of the query; JSON.
    Progress = 2,
    /// Records.
    Batch = 3,
    /// Counted ids.
    Cells = 4,
    /// The end of the reply; JSON.
    End = 5,
    /// Streams with their numbers; JSON.
    Streams = 128,
    /// Records, some of which have attributes.
    AttributedBatch = 129,
}

impl bucksaw_rpc::StreamMessageKind for MessageKind {
    fn to_byte(self) -> u8 {
        self as u8
    }

    fn from_byte(byte: u8) -> Option<Self> {
        let all =
            [Self::Head, Self::Progress, Self::Batch, Self::Cells, Self::End, Self::Streams, Self::AttributedBatch];
        all.into_iter().find(|kind| *kind as u8 == byte)
    }
}
