//! Docker's driver `json-file`, as in `daemon/logger/jsonfilelog/jsonlog` of Moby.

use std::sync::Arc;

use bucksaw_record::AttributeNames;

use super::json_string;
use super::line::{DecodedParts, OutputStream};
use super::runtime_times::RuntimeTimes;
use crate::AttributeList;
use crate::json_members::{push_flattened, read_only_object, string};

/// An object with more attributes is not decoded: those of the agent must fit into a record too.
const ATTRIBUTES_MAX: usize = 128;

/// An object with longer values of attributes is not decoded: each record repeats them.
const ATTRIBUTE_BYTES_MAX: usize = 64 << 10;

/// Reads objects one after the other.
#[derive(Debug, Default)]
pub(super) struct DockerReader {
    /// The decoded text of the last line that was not read in place.
    text: Vec<u8>,
    /// The JSON of the last `attrs` that were alone; empty if there were none.
    known_json: Vec<u8>,
    known: Arc<AttributeList>,
    none: Arc<AttributeList>,
    /// Whether the last line has the known attributes.
    has_known: bool,
}

impl DockerReader {
    /// Reads a line; `None` if it is no such object.
    pub(super) fn read<'a>(&mut self, line: &'a [u8], times: &mut RuntimeTimes) -> Option<DecodedParts<'a>> {
        self.read_canonical(line, times).or_else(|| self.read_any(line, times))
    }

    /// The text of the last line, if it was not in place.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// The attributes of the last line.
    pub(super) fn attributes(&self) -> &Arc<AttributeList> {
        if self.has_known { &self.known } else { &self.none }
    }

    /// Reads the form that Docker writes: `log`, `stream`, perhaps the known `attrs`, `time`.
    pub(super) fn read_canonical<'a>(&mut self, line: &'a [u8], times: &mut RuntimeTimes) -> Option<DecodedParts<'a>> {
        let rest = line.strip_prefix(br#"{"log":""#).filter(|_| is_text(line))?;
        let content = json_string::read(rest, &mut self.text)?;
        let rest = content.rest.strip_prefix(br#","stream":"std"#)?;
        let (stream, rest) = match rest.strip_prefix(br#"out","#) {
            Some(rest) => (OutputStream::Stdout, rest),
            None => (OutputStream::Stderr, rest.strip_prefix(br#"err","#)?),
        };
        let attrs = rest.strip_prefix(br#""attrs":"#);
        let rest = match attrs {
            // The text begins with the whole object that is known, so the object ends where that one ends.
            Some(rest) if !self.known_json.is_empty() => {
                rest.strip_prefix(&*self.known_json)?.strip_prefix(br#",""#)?
            }
            Some(_) => return None,
            None => rest.strip_prefix(b"\"")?,
        };
        let time = times.read(rest.strip_prefix(br#"time":""#)?.strip_suffix(br#""}"#)?)?;
        self.has_known = attrs.is_some();
        Some(DecodedParts { time, stream, text: content.text, is_partial: !content.has_line_end })
    }

    /// Reads any object that has the members, in any order. Members that are not known become attributes.
    pub(super) fn read_any<'a>(&mut self, line: &'a [u8], times: &mut RuntimeTimes) -> Option<DecodedParts<'a>> {
        let (mut log, mut stream, mut time, mut attrs) = (None, None, None, None);
        let mut list = AttributeList::default();
        read_only_object(line, |name, value| match name {
            "log" => log = Some(value),
            "stream" => stream = Some(value),
            "time" => time = Some(value),
            "attrs" => attrs = Some(value),
            _ => push_flattened(&mut list, name, value),
        })
        .ok()?;
        let stream = match &*string(stream?)? {
            "stdout" => OutputStream::Stdout,
            "stderr" => OutputStream::Stderr,
            _ => return None,
        };
        let time = times.read(string(time?)?.as_bytes())?;
        let log: String = serde_json::from_str(log?).ok()?;
        let is_known = list.is_empty();
        match attrs.filter(|attrs| *attrs != "null") {
            Some(attrs) if attrs.starts_with('{') => {
                read_only_object(attrs.as_bytes(), |name, value| push_flattened(&mut list, name, value)).ok()?;
            }
            Some(attrs) => push_flattened(&mut list, "attrs", attrs),
            None => {}
        }
        self.set_attributes(list, attrs.filter(|_| is_known))?;
        self.text.clear();
        self.text.extend_from_slice(log.as_bytes());
        let has_line_end = self.text.pop_if(|last| *last == b'\n').is_some();
        Some(DecodedParts { time, stream, text: None, is_partial: !has_line_end })
    }

    /// Sets the attributes of the line, and the JSON by which the next line knows them.
    fn set_attributes(&mut self, list: AttributeList, json: Option<&str>) -> Option<()> {
        self.has_known = !list.is_empty();
        if list.is_empty() {
            return Some(());
        }
        if list.len() > ATTRIBUTES_MAX || list.value_bytes() > ATTRIBUTE_BYTES_MAX {
            return None;
        }
        AttributeNames::new(list.iter().map(|(name, _)| name)).ok()?;
        // Equal lists stay one list, so that they are compared by their address.
        if *self.known != list {
            self.known = Arc::new(list);
        }
        self.known_json.clear();
        self.known_json.extend_from_slice(json.unwrap_or_default().as_bytes());
        Some(())
    }
}

/// Whether the bytes are UTF-8 without control characters, as in a line of JSON.
fn is_text(line: &[u8]) -> bool {
    // Both searches are vectorised.
    let has_control = line.iter().fold(false, |found, byte| found | (*byte < b' '));
    !has_control && str::from_utf8(line).is_ok()
}
