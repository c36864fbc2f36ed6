//! Headers of RFC 5424: `1 2023-11-14T22:13:20Z host app procid msgid [structured data] message`.

use super::header::{SyslogHeader, take_word, without_nil};
use super::stated_time::StatedTimes;
use super::structured_data;

/// The mark of UTF-8 that may be in front of the message.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads what is behind the priority. `None` if it is no RFC 5424 header up to the message id.
///
/// Structured data with wrong syntax is a part of the message, so it is not lost.
pub(super) fn parse<'a>(text: &'a [u8], times: &StatedTimes) -> Option<SyslogHeader<'a>> {
    let (version, rest) = take_word(text);
    let is_version = matches!(version, [b'1'..=b'9'] | [b'1'..=b'9', b'0'..=b'9']);
    let (time, rest) = take_word(rest);
    let time = if time == b"-" { None } else { Some(times.rfc3339(time).filter(|_| is_version)?) };
    let (host, rest) = take_word(rest);
    let (app, rest) = take_word(rest);
    let (procid, rest) = take_word(rest);
    let (msgid, rest) = take_word(rest);
    if !is_version || [host, app, procid, msgid].iter().any(|part| part.is_empty()) {
        return None;
    }
    let mut header = SyslogHeader {
        time,
        host: without_nil(host),
        app: without_nil(app),
        procid: without_nil(procid),
        msgid: without_nil(msgid),
        line: rest,
        ..SyslogHeader::default()
    };
    if let Some((data, behind)) = structured_data::length(rest).and_then(|length| rest.split_at_checked(length))
        && (behind.is_empty() || behind.starts_with(b" "))
    {
        header.structured_data = data;
        header.line = behind.strip_prefix(b" ").unwrap_or(behind);
    }
    header.line = header.line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(header.line);
    Some(header)
}
