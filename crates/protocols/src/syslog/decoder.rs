//! One message becomes one event.

use std::borrow::Cow;

use bucksaw_record::time::TimeZone;
use bucksaw_record::{Labels, Millis};

use super::header::SyslogHeader;
use super::priority::take_priority;
use super::splitter::SyslogFrame;
use super::stated_time::{StatedTime, StatedTimes};
use super::{rfc3164, rfc5424, structured_data};
use crate::stream_labels::{HOST_NAME, SERVICE_NAME, StreamLabels};
use crate::{AttributeList, Event, EventError, EventSink};

/// What the listener knows of a message.
#[derive(Clone, Copy, Debug)]
pub struct SyslogArrival<'a> {
    /// The time of arrival, from which the year of a message is found that states none.
    pub now: Millis,
    /// The address of the sender: the label `host.name` of messages that state no host. Empty if there is none, as on a Unix
    /// socket.
    pub sender: &'a str,
}

/// Decodes the messages of one listener or connection. Keeps the labels of earlier messages, at most 1 MiB of them.
#[derive(Debug)]
pub struct SyslogDecoder {
    times: StatedTimes,
    labels: StreamLabels,
    attributes: AttributeList,
    /// The labels and the time of the last message, which its further pieces have too.
    last: Option<(Labels, Option<StatedTime>)>,
    /// What labels and attributes of the last message follow from; empty if these were freed.
    described: DescribedParts,
}

/// The parts of a header besides its time, and the sender. One sender's next message has the same ones as a rule, and so the
/// same labels and attributes.
#[derive(Debug, Default)]
struct DescribedParts {
    bytes: Vec<u8>,
    lengths: [usize; PARTS],
}

const PARTS: usize = 9;

impl DescribedParts {
    fn are(&self, parts: [&[u8]; PARTS]) -> bool {
        let mut rest = self.bytes.as_slice();
        !rest.is_empty()
            && self.lengths == parts.map(<[u8]>::len)
            && parts.iter().all(|part| match rest.split_at_checked(part.len()) {
                Some((known, behind)) => {
                    rest = behind;
                    // See `StreamLabels::get` on empty lists.
                    part.is_empty() || known == *part
                }
                None => false,
            })
    }

    fn set(&mut self, parts: [&[u8]; PARTS]) {
        self.bytes.clear();
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.lengths = parts.map(<[u8]>::len);
    }
}

impl SyslogDecoder {
    /// A decoder that reads times without a zone in `zone`; UTC is the customary default. All events get `labels` too, which
    /// prevail over what messages state.
    pub fn new(zone: TimeZone, labels: &Labels) -> Self {
        Self {
            times: StatedTimes::new(zone),
            labels: StreamLabels::new(labels),
            attributes: AttributeList::default(),
            last: None,
            described: DescribedParts::default(),
        }
    }

    /// Decodes a message found by a [`SyslogSplitter`](super::SyslogSplitter). A further piece of a message that was too
    /// long becomes an event with the labels, the attributes and the time of the first piece.
    ///
    /// # Errors
    /// [`EventError`] if the sink refuses the event.
    pub fn frame(
        &mut self,
        frame: &SyslogFrame<'_>,
        arrival: &SyslogArrival<'_>,
        sink: &mut dyn EventSink,
    ) -> Result<(), EventError> {
        match &self.last {
            Some((labels, time)) if frame.continues => {
                let event = Event { time: *time, line: frame.bytes, attributes: &self.attributes };
                sink.push(labels, &event)
            }
            _ => self.message(frame.bytes, arrival, sink),
        }
    }

    /// Decodes a message, such as a datagram. Line ends and NULs behind it are removed; line ends inside it are kept. An
    /// empty message is no event.
    ///
    /// # Errors
    /// [`EventError`] if the sink refuses the event.
    pub fn message(
        &mut self,
        message: &[u8],
        arrival: &SyslogArrival<'_>,
        sink: &mut dyn EventSink,
    ) -> Result<(), EventError> {
        let message = without_end(message);
        if message.is_empty() {
            return Ok(());
        }
        let priority = take_priority(message);
        let text = priority.map_or(message, |(_, text)| text);
        let header = match priority {
            Some(_) => {
                rfc5424::parse(text, &self.times).unwrap_or_else(|| rfc3164::parse(text, &mut self.times, arrival.now))
            }
            None => rfc3164::parse_without_priority(text, &mut self.times, arrival.now),
        };
        let (severity, facility) = priority.map_or(("", ""), |(priority, _)| (priority.severity, priority.facility));
        let labels = self.describe([severity, facility], &header, arrival.sender);
        let event = Event { time: header.time, line: header.line, attributes: &self.attributes };
        let taken = sink.push(&labels, &event);
        self.last = Some((labels, header.time));
        taken
    }

    /// Frees what no message needs, except one that `continues`: for connections that are idle.
    pub fn release_memory(&mut self, continues: bool) {
        if !continues {
            self.last = None;
            self.attributes.clear();
        }
        self.described = DescribedParts::default();
        self.attributes.shrink();
        self.labels.forget();
    }

    /// Bytes that are kept for further pieces of a message after [`Self::release_memory`].
    pub fn held_bytes(&self) -> usize {
        if self.last.is_some() { self.attributes.bytes() } else { 0 }
    }

    /// Collects the attributes that priority and header state, and returns the labels.
    fn describe(&mut self, [severity, facility]: [&str; 2], header: &SyslogHeader<'_>, sender: &str) -> Labels {
        let SyslogHeader { host, app, procid, msgid, sequence, structured_data, .. } = *header;
        let [severity, facility, sender_bytes] = [severity, facility, sender].map(str::as_bytes);
        let parts = [severity, facility, host, app, procid, msgid, sequence, structured_data, sender_bytes];
        if let Some((labels, _)) = self.last.as_ref().filter(|_| self.described.are(parts)) {
            return labels.clone();
        }
        self.described.set(parts);
        self.attributes.clear();
        self.labels.clear();
        for (name, value) in [("severity_text", severity), ("syslog.facility", facility)] {
            if !value.is_empty() {
                self.attributes.push(name, value);
            }
        }
        let host = String::from_utf8_lossy(header.host);
        let host = if host.is_empty() { Cow::Borrowed(sender) } else { host };
        self.labels.push(HOST_NAME, &host, &mut self.attributes);
        self.labels.push(SERVICE_NAME, &String::from_utf8_lossy(header.app), &mut self.attributes);
        let stated =
            [("syslog.procid", header.procid), ("syslog.msgid", header.msgid), ("syslog.sequence", header.sequence)];
        for (name, value) in stated.into_iter().filter(|(_, value)| !value.is_empty()) {
            self.attributes.push(name, value);
        }
        if !header.structured_data.is_empty() {
            structured_data::push(header.structured_data, &mut self.attributes);
        }
        self.labels.get()
    }
}

/// The message without the line ends and NULs that some senders put behind it.
pub(super) fn without_end(message: &[u8]) -> &[u8] {
    let kept = message.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r' | b'\0'));
    kept.and_then(|last| message.get(..=last)).unwrap_or_default()
}
