//! Complete events, and who takes them.

use std::sync::Arc;

use bucksaw_protocols::AttributeList;
use bucksaw_protocols::container::OutputStream;
use bucksaw_record::Millis;

/// A complete event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineEvent<'a> {
    /// The offset of its first byte in the file.
    pub(crate) offset: u64,
    /// Its text without the last LF. It may be longer than a record.
    pub(crate) text: &'a [u8],
    /// The time that the format of the file states.
    pub(crate) time: Option<(Millis, u32)>,
    /// The stream of the container.
    pub(crate) stream: Option<OutputStream>,
    /// What else the format of the file states. Events with the same ones share the list.
    pub(crate) attributes: &'a Arc<AttributeList>,
    /// Flags of its record.
    pub(crate) flags: u8,
    /// Whether its line is not in the format of its file.
    pub(crate) is_undecoded: bool,
}

/// Takes complete events in their order.
pub(crate) trait LineEventSink {
    /// Takes an event.
    fn push(&mut self, event: &LineEvent<'_>);

    /// The bytes that an event with these attributes adds to its text.
    fn added_bytes(&self, attributes: &AttributeList) -> usize;

    /// Bytes of events that it still takes. It takes one more, of any length.
    fn room(&self) -> usize;
}
