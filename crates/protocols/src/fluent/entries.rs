//! Entries, each a time and a record, as events.

use bucksaw_record::{Labels, Millis};

use super::error::EntryError;
use super::layout::RecordLayout;
use super::record::{FluentRecord, push_map, read_record};
use super::time::{GroupMark, event_time, group_mark};
use super::{MsgpackError, MsgpackReader, MsgpackValue};
use crate::stream_labels::{StreamLabels, StreamMark};
use crate::{AttributeList, Decoded, Event, EventSink};

/// The longest text of the attributes that a group of Fluent Bit gives to all of its records, in bytes: a few bytes of a
/// message can repeat it.
const GROUP_BYTES_MAX: usize = 16 << 10;

/// Builds the events of one message after the other.
#[derive(Debug, Default)]
pub(super) struct FluentEntries {
    stream: StreamLabels,
    /// Where the labels of the message end, if its tag is one.
    message_labels: Option<StreamMark>,
    /// The attributes of the group, then those of the event.
    attributes: AttributeList,
    group_attributes: usize,
    /// The keys of the record before, if it is of the same message.
    layout: RecordLayout,
    /// The labels of records with these keys, if none is in the record.
    layout_labels: Option<Labels>,
    line: Vec<u8>,
    /// The name of an attribute.
    path: String,
}

/// What is common to the entries of a message, and what becomes of them.
pub(super) struct EntryTarget<'a> {
    pub(super) tag: &'a [u8],
    pub(super) sink: &'a mut dyn EventSink,
    pub(super) decoded: Decoded,
}

/// The time of an entry.
#[derive(Clone, Copy, Debug, Default)]
struct EntryTime<'a> {
    time: Option<(Millis, u32)>,
    group: Option<GroupMark>,
    metadata: Option<&'a [u8]>,
}

impl FluentEntries {
    pub(super) fn new(labels: &Labels) -> Self {
        Self { stream: StreamLabels::new(labels), ..Self::default() }
    }

    /// Begins a message: it has no group yet.
    pub(super) fn clear(&mut self) {
        self.message_labels = None;
        self.group_attributes = 0;
        self.layout.clear();
    }

    /// Frees the memory that long records need.
    pub(super) fn shrink(&mut self) {
        self.attributes = AttributeList::default();
        self.group_attributes = 0;
        self.layout = RecordLayout::default();
        self.line = Vec::new();
    }

    /// Reads the next entry, and passes its event on, or counts it as rejected.
    ///
    /// # Errors
    /// [`MsgpackError`] if the entry is damaged.
    pub(super) fn entry(
        &mut self,
        values: &mut MsgpackReader<'_>,
        target: &mut EntryTarget<'_>,
    ) -> Result<(), MsgpackError> {
        if self.entry_of_layout(values, target).is_some() {
            return Ok(());
        }
        let mut ahead = *values;
        let MsgpackValue::Array(count @ 2..) = ahead.value()? else {
            target.decoded.reject(|| EntryError::Entry.to_string());
            return values.skip(1);
        };
        let (time, record) = (ahead.raw()?, FluentRecord::take(&mut ahead)?);
        ahead.skip(count - 2)?;
        *values = ahead;
        self.event(time, None, &record, target)
    }

    /// Reads the next entry and passes its event on, if its record has the keys of the one before. `None`, without effect, if
    /// it must be read as any other.
    fn entry_of_layout(&mut self, values: &mut MsgpackReader<'_>, target: &mut EntryTarget<'_>) -> Option<()> {
        let Self { stream, message_labels, layout, layout_labels, attributes, .. } = self;
        if layout.is_empty() {
            return None;
        }
        let mut ahead = *values;
        let time = take_common_head(&mut ahead)?;
        stream.reset((*message_labels)?);
        let line = layout.read(&mut ahead, stream, attributes)?;
        *values = ahead;
        let event = Event { time, line, attributes };
        match layout_labels {
            Some(labels) => target.decoded.push(target.sink, labels, &event),
            None => target.decoded.push(target.sink, &stream.get(), &event),
        }
        Some(())
    }

    /// Passes on the event of a record, or counts it as rejected. A record that is nil is no event.
    pub(super) fn event(
        &mut self,
        time: &[u8],
        metadata: Option<&[u8]>,
        record: &FluentRecord<'_>,
        target: &mut EntryTarget<'_>,
    ) -> Result<(), MsgpackError> {
        if record.is_nil() {
            return Ok(());
        }
        self.layout.clear();
        let time = entry_time(time)?;
        let metadata = metadata.or(time.metadata);
        let built = match time.group {
            Some(GroupMark::Start) => self.start_group(metadata, record.start()),
            Some(GroupMark::End) => {
                self.group_attributes = 0;
                Ok(())
            }
            None => self.build(target.tag, metadata, record).map(|()| {
                let labels = self.stream.get();
                let event = Event { time: time.time, line: &self.line, attributes: &self.attributes };
                target.decoded.push(target.sink, &labels, &event);
            }),
        };
        match built {
            Ok(()) => Ok(()),
            Err(EntryError::Msgpack(error)) => Err(error),
            Err(error) => {
                target.decoded.reject(|| error.to_string());
                Ok(())
            }
        }
    }

    /// Reads an event into the buffers.
    fn build(&mut self, tag: &[u8], metadata: Option<&[u8]>, record: &FluentRecord<'_>) -> Result<(), EntryError> {
        let Self { stream, message_labels, attributes, group_attributes, layout, layout_labels, line, path } = self;
        attributes.truncate(*group_attributes);
        line.clear();
        // The first record of a message may be the only one.
        let is_first = message_labels.is_none();
        if let Some(mark) = *message_labels {
            stream.reset(mark);
        } else {
            stream.clear();
            match str::from_utf8(tag) {
                Ok(tag) => stream.push("tag", tag, attributes),
                Err(_) => attributes.push("tag", tag),
            }
            // A tag that is no label is an attribute, which every event gets anew.
            let is_label = attributes.len() == *group_attributes;
            *message_labels = is_label.then(|| stream.mark());
        }
        if let Some(metadata) = metadata {
            push_map(MsgpackReader::new(metadata), attributes, path)?;
        }
        let is_alone = attributes.len() == *group_attributes;
        read_record(record, line, stream, attributes, path)?;
        if is_alone && !is_first {
            layout.learn(record, attributes, *group_attributes);
            *layout_labels = (!layout.is_empty() && !layout.has_labels()).then(|| stream.get());
        }
        Ok(())
    }

    /// Keeps what Fluent Bit states of the following records: the resource and scope of OTLP.
    fn start_group(&mut self, metadata: Option<&[u8]>, record: MsgpackReader<'_>) -> Result<(), EntryError> {
        let Self { attributes, path, .. } = self;
        self.group_attributes = 0;
        attributes.clear();
        for map in metadata.map(MsgpackReader::new).into_iter().chain([record]) {
            push_map(map, attributes, path)?;
        }
        let name_bytes: usize = attributes.iter().map(|(name, _)| name.len()).sum();
        if name_bytes + attributes.value_bytes() > GROUP_BYTES_MAX {
            return Err(EntryError::Group(GROUP_BYTES_MAX));
        }
        self.group_attributes = attributes.len();
        Ok(())
    }
}

/// Passes over the head of an entry in the usual forms, with and without metadata, which are none: `[time, record]` and
/// `[[time, {}], record]`. Returns its time, an `EventTime` that marks no group.
fn take_common_head(values: &mut MsgpackReader<'_>) -> Option<Option<(Millis, u32)>> {
    values.strip(&[0x92])?;
    let has_metadata = values.strip(&[0x92]).is_some();
    values.strip(&[0xd7, 0x00])?;
    let time = MsgpackValue::Extension(0, values.bytes::<8>()?);
    if has_metadata {
        values.strip(&[0x80])?;
    }
    group_mark(time).is_none().then(|| event_time(time))
}

/// Reads the first element of an entry: a time, or an array of a time and metadata.
fn entry_time(value: &[u8]) -> Result<EntryTime<'_>, MsgpackError> {
    let mut values = MsgpackReader::new(value);
    let first = values.value()?;
    let (time, metadata) = match first {
        MsgpackValue::Array(0) => return Ok(EntryTime::default()),
        MsgpackValue::Array(count) => {
            let time = MsgpackReader::new(values.raw()?).value()?;
            (time, if count > 1 { Some(values.raw()?) } else { None })
        }
        time => (time, None),
    };
    Ok(EntryTime { time: event_time(time), group: group_mark(time), metadata })
}
