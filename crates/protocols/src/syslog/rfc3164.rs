//! Headers of RFC 3164, `Nov 14 22:13:20 host tag[procid]: message`, and of the senders that take liberties with it.
//!
//! Each part may be missing. A part is recognised by its form alone:
//!
//! - the time: `Mmm dd hh:mm:ss`, with a year or a fraction if stated, or RFC 3339 as rsyslog writes it;
//! - the tag: a word that ends with a colon or with a process id in brackets, see [`take_tag`];
//! - the host: the word behind the time, unless it is the tag, or contains bytes that a host's name cannot have.
//!
//! The line is what follows them. Where nothing is recognised, the line is all of the text.
//!
//! A text without priority may be any log line, such as `2023-11-14 22:13:20 INFO started`. Its parts are taken only if it has
//! a time of another form than that, and a tag.

use bucksaw_record::Millis;

use super::cisco;
use super::header::{SyslogHeader, take_word, without_nil};
use super::stated_time::{StatedTime, StatedTimes, take_month_time};
use super::tag::take_tag;

/// What AIX writes in front of the name of the host.
const FORWARDED: &[u8] = b"Message forwarded from ";

/// The maximum length of a host's name, that of a domain name.
const HOST_BYTES_MAX: usize = 255;

/// A time and the text behind it, usually a space and a host.
type TimeAndRest<'a> = (Option<StatedTime>, &'a [u8]);

/// Reads a text without priority: the header if there is one beyond doubt, and else the time alone and all of the text.
pub(super) fn parse_without_priority<'a>(text: &'a [u8], times: &mut StatedTimes, now: Millis) -> SyslogHeader<'a> {
    let header = parse(text, times, now);
    let has_header = header.time.is_some() && (!header.app.is_empty() || !header.msgid.is_empty());
    let has_space_in_time = text.get(4) == Some(&b'-') && text.get(10) == Some(&b' ');
    if has_header && !has_space_in_time {
        return header;
    }
    SyslogHeader { time: header.time, line: text, ..SyslogHeader::default() }
}

/// Reads what is behind the priority.
pub(super) fn parse<'a>(text: &'a [u8], times: &mut StatedTimes, now: Millis) -> SyslogHeader<'a> {
    let (sequence, rest) = cisco::take_sequence(text).unwrap_or((b"", text));
    let rest = if sequence.is_empty() { rest.strip_prefix(b": ").unwrap_or(rest) } else { rest };
    let mut header = SyslogHeader { sequence, ..SyslogHeader::default() };
    let mut found = take_time(rest, times, now);
    if found.is_none() {
        // `29: router1: *Mar  1 …`, with the name that the device is set to send.
        let (word, behind) = take_word(rest);
        let name = word.strip_suffix(b":").filter(|name| is_host(name));
        found = name.and_then(|name| Some((name, take_time(behind, times, now)?))).map(|(name, found)| {
            header.host = name;
            found
        });
    }
    let Some((time, rest)) = found else {
        return without_time(text);
    };
    header.time = time;
    if let Some((zone, line)) = cisco::take_time_end(rest) {
        if matches!(zone, b"UTC" | b"GMT") {
            header.time = take_time_utc(text, times, now).or(header.time);
        }
        header.line = line;
    } else {
        let rest = rest.trim_ascii_start();
        header = take_host_and_tag(header, rest);
    }
    header.msgid = cisco::mnemonic(header.line).unwrap_or_default();
    header
}

fn without_time(text: &[u8]) -> SyslogHeader<'_> {
    let header = SyslogHeader { line: text, ..SyslogHeader::default() };
    match take_tag(text) {
        Some(tag) => SyslogHeader { app: tag.app, procid: tag.procid, line: tag.line, ..header },
        None => SyslogHeader { msgid: cisco::mnemonic(text).unwrap_or_default(), ..header },
    }
}

fn take_host_and_tag<'a>(mut header: SyslogHeader<'a>, text: &'a [u8]) -> SyslogHeader<'a> {
    let mut rest = text;
    if let Some(behind) = text.strip_prefix(FORWARDED)
        && let (word, behind) = take_word(behind)
        && let Some(host) = word.strip_suffix(b":")
    {
        (header.host, rest) = (host, behind);
    } else if take_tag(text).is_none() {
        let (word, behind) = take_word(text);
        if word == b"-" || (is_host(word) && !behind.is_empty()) {
            (header.host, rest) = (without_nil(word), behind);
            // ASA devices write ` : ` behind the host.
            rest = rest.strip_prefix(b": ").unwrap_or(rest);
        }
    }
    header.line = rest;
    // Several spaces may be in front of a tag; in front of a message they are a part of it.
    if let Some(tag) = take_tag(rest.trim_ascii_start()) {
        (header.app, header.procid, header.line) = (tag.app, tag.procid, tag.line);
    }
    header
}

/// Takes the time at the start of a text. The time is `None` if no id can hold it.
fn take_time<'a>(text: &'a [u8], times: &mut StatedTimes, now: Millis) -> Option<TimeAndRest<'a>> {
    if text.first()?.is_ascii_digit() && text.get(4) == Some(&b'-') {
        return take_rfc3339(text, times);
    }
    let (stated, rest) = take_month_time(without_mark(text))?;
    Some((times.of_month_time(&stated, false, now), rest))
}

/// The time of a text that states UTC.
fn take_time_utc(text: &[u8], times: &mut StatedTimes, now: Millis) -> Option<StatedTime> {
    // The time begins at one of the first three words, behind a sequence number and a name.
    let mut rest = text;
    for _ in 0..3 {
        if let Some((stated, _)) = take_month_time(without_mark(rest)) {
            return times.of_month_time(&stated, true, now);
        }
        rest = take_word(rest).1;
    }
    None
}

/// Cisco devices write `*` in front of a time that is not set by an authority, and `.` if it was lost.
fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"*").or_else(|| text.strip_prefix(b".")).unwrap_or(text)
}

/// Takes RFC 3339 text, also with a space between date and time.
fn take_rfc3339<'a>(text: &'a [u8], times: &StatedTimes) -> Option<TimeAndRest<'a>> {
    let date_length = if text.get(10) == Some(&b' ') { 11 } else { 0 };
    let word = text.get(date_length..)?.iter().position(|byte| *byte == b' ').unwrap_or(text.len() - date_length);
    let (stated, rest) = text.split_at_checked(date_length + word)?;
    // A colon may be behind the time, as it is in Cisco's form.
    let (stated, rest) = match stated.strip_suffix(b":") {
        Some(before) => (before, text.get(before.len()..)?),
        None => (stated, rest),
    };
    Some((Some(times.rfc3339(stated)?), rest))
}

fn is_host(word: &[u8]) -> bool {
    let is_part =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':' | b'@' | b'/' | b'%');
    let starts_well = word.first().is_some_and(|first| first.is_ascii_alphanumeric() || *first == b':');
    starts_well && word.len() <= HOST_BYTES_MAX && word.iter().all(is_part)
}
