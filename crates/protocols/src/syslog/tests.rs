//! Messages of real senders, as events.

use bucksaw_record::time::parse_zone;
use bucksaw_record::{Labels, Level, Millis};
use proptest::prelude::*;

use super::{SyslogArrival, SyslogDecoder, SyslogSplitter};
use crate::event_lines::EventLines;

/// 2023-11-14T22:13:20Z
const ARRIVAL: SyslogArrival<'static> = SyslogArrival { now: Millis(1_700_000_000_000), sender: "" };

fn decoder(zone: &str) -> SyslogDecoder {
    SyslogDecoder::new(parse_zone(zone).unwrap(), &Labels::default())
}

/// The event of a message: labels, time, line, attributes.
fn decode(message: &[u8]) -> String {
    let mut events = EventLines::default();
    decoder("UTC").message(message, &ARRIVAL, &mut events).unwrap();
    events.events.join("\n")
}

#[track_caller]
fn check(message: &str, want: &str) {
    assert_eq!(decode(message.as_bytes()), want, "{message}");
}

#[test]
fn rfc_5424() {
    check(
        "<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - \u{feff}'su root' failed for lonvick on /dev/pts/8",
        "host.name=mymachine.example.com,service.name=su|1065910455003.000000|'su root' failed for lonvick on /dev/pts/8|\
         severity_text=crit;syslog.facility=auth;syslog.msgid=ID47",
    );
    check(
        "<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 - - %% It's time to make the do-nuts.",
        "host.name=192.0.2.1,service.name=myproc|1061727255000.003000|%% It's time to make the do-nuts.|\
         severity_text=notice;syslog.facility=local4;syslog.procid=8710",
    );
    check(
        r#"<165>1 2003-10-11T22:14:15.003Z host evntslog - ID47 [exampleSDID@32473 iut="3" eventSource="App \"x\""][p@1 class="high"] An event"#,
        "host.name=host,service.name=evntslog|1065910455003.000000|An event|severity_text=notice;syslog.facility=local4;syslog.msgid=ID47;\
         exampleSDID@32473.iut=3;exampleSDID@32473.eventSource=App \"x\";p@1.class=high",
    );
    check("<13>1 - - - - - -", "|-||severity_text=notice;syslog.facility=user");
    check(
        r#"<13>1 2023-11-14T22:13:20Z h a - - [a b="c"]"#,
        "host.name=h,service.name=a|1700000000000.000000||severity_text=notice;syslog.facility=user;a.b=c",
    );
    // Of logger of util-linux.
    check(
        "<13>1 2023-11-14T23:13:20.123456+01:00 web1 root - - [timeQuality tzKnown=\"1\" isSynced=\"0\"] hello",
        "host.name=web1,service.name=root|1700000000123.456000|hello|severity_text=notice;syslog.facility=user;timeQuality.tzKnown=1;timeQuality.isSynced=0",
    );
}

#[test]
fn rfc_5424_that_is_not_quite_one_is_kept() {
    let rest = "severity_text=notice;syslog.facility=user";
    check(
        "<13>1 2023-11-14T22:13:20Z h a - - [a b=c] x",
        &format!("host.name=h,service.name=a|1700000000000.000000|[a b=c] x|{rest}"),
    );
    check(
        "<13>1 2023-11-14T22:13:20Z h a - - no data",
        &format!("host.name=h,service.name=a|1700000000000.000000|no data|{rest}"),
    );
    check("<13>1 yesterday h a - - - x", &format!("|-|1 yesterday h a - - - x|{rest}"));
    check("<13>1 2023-11-14T22:13:20Z h a", &format!("|-|1 2023-11-14T22:13:20Z h a|{rest}"));
    check("<13>1 ", &format!("|-|1 |{rest}"));
    check("<999>1 - - - - - - x", "|-|<999>1 - - - - - - x|");
}

#[test]
fn rfc_3164() {
    let auth = "severity_text=crit;syslog.facility=auth";
    let user = "severity_text=notice;syslog.facility=user";
    check(
        "<34>Nov  4 22:13:20 mymachine su: 'su root' failed",
        &format!("host.name=mymachine,service.name=su|1699136000000.000000|'su root' failed|{auth}"),
    );
    check(
        "<34>Nov 14 22:13:20 mymachine sshd[4711]: x\n",
        &format!("host.name=mymachine,service.name=sshd|1700000000000.000000|x|{auth};syslog.procid=4711"),
    );
    // logger over a Unix socket states no host.
    check("<13>Nov 14 22:13:20 root: hello", &format!("service.name=root|1700000000000.000000|hello|{user}"));
    check(
        "<13>Nov 14 22:13:20 cron[1]: hello",
        &format!("service.name=cron|1700000000000.000000|hello|{user};syslog.procid=1"),
    );
    // rsyslog with times of high precision.
    check(
        "<13>2023-11-14T23:13:20.123456+01:00 leto kernel: [ 1.2] segfault",
        &format!("host.name=leto,service.name=kernel|1700000000123.456000|[ 1.2] segfault|{user}"),
    );
    check(
        "<13>2023-11-14 22:13:20 leto app: x",
        &format!("host.name=leto,service.name=app|1700000000000.000000|x|{user}"),
    );
    check(
        "<13>Nov 14 22:13:20 fe80::1 app: x",
        &format!("host.name=fe80::1,service.name=app|1700000000000.000000|x|{user}"),
    );
    // AIX
    check(
        "<13>Nov 14 22:13:20 Message forwarded from aix1: sshd[7]: x",
        &format!("host.name=aix1,service.name=sshd|1700000000000.000000|x|{user};syslog.procid=7"),
    );
    check(
        "<13>Nov 14 22:13:20 web1 last message repeated 2 times",
        &format!("host.name=web1|1700000000000.000000|last message repeated 2 times|{user}"),
    );
    check("<13>Nov 14 22:13:20 - app: x", &format!("service.name=app|1700000000000.000000|x|{user}"));
    check("<13>Nov 14 22:13:20 hello", &format!("|1700000000000.000000|hello|{user}"));
    check("<13>app: x", &format!("service.name=app|-|x|{user}"));
    check("<13>just text", &format!("|-|just text|{user}"));
    check("<13>", &format!("|-||{user}"));
    check(
        "<13>date=2023-11-14 time=22:13:20 devname=\"fw\"",
        &format!("|-|date=2023-11-14 time=22:13:20 devname=\"fw\"|{user}"),
    );
    check("<13>Nov 14 22:13:20 {\"a\": 1}", &format!("|1700000000000.000000|{{\"a\": 1}}|{user}"));
}

#[test]
fn messages_without_priority() {
    check("Nov 14 22:13:20 web1 sshd[7]: x", "host.name=web1,service.name=sshd|1700000000000.000000|x|syslog.procid=7");
    check("2023-11-14T22:13:20Z web1 app: x", "host.name=web1,service.name=app|1700000000000.000000|x|");
    check("Nov 14 22:13:20 web1 hello", "|1700000000000.000000|Nov 14 22:13:20 web1 hello|");
    check("2023-11-14 22:13:20 INFO main: x", "|1700000000000.000000|2023-11-14 22:13:20 INFO main: x|");
    check("error: no header", "|-|error: no header|");
    check("", "");
    check("\r\n\0", "");
}

#[test]
fn cisco() {
    let local = "severity_text=notice;syslog.facility=local7";
    check(
        "<189>29: *Nov 14 22:13:20.123: %SYS-5-CONFIG_I: Configured from console",
        &format!(
            "|1700000000123.000000|%SYS-5-CONFIG_I: Configured from console|{local};syslog.msgid=SYS-5-CONFIG_I;syslog.sequence=29"
        ),
    );
    check(
        "<189>2975: switch1: Nov 14 22:13:20.123 CET: %LINK-3-UPDOWN: x",
        &format!(
            "host.name=switch1|1700000000123.000000|%LINK-3-UPDOWN: x|{local};syslog.msgid=LINK-3-UPDOWN;syslog.sequence=2975"
        ),
    );
    check(
        "<189>: 2023 Nov 14 22:13:20 UTC: %ETHPORT-5-IF_UP: x",
        &format!("|1700000000000.000000|%ETHPORT-5-IF_UP: x|{local};syslog.msgid=ETHPORT-5-IF_UP"),
    );
    check(
        "<189>Nov 14 2023 22:13:20: %ASA-4-106023: Deny tcp",
        &format!("|1700000000000.000000|%ASA-4-106023: Deny tcp|{local};syslog.msgid=ASA-4-106023"),
    );
    check(
        "<189>Nov 14 2023 22:13:20 fw1 : %ASA-4-106023: Deny tcp",
        &format!("host.name=fw1|1700000000000.000000|%ASA-4-106023: Deny tcp|{local};syslog.msgid=ASA-4-106023"),
    );
    check(
        "<189>Nov 14 2023 22:13:20 localhost CiscoASA[999]: %ASA-6-305011: Built",
        &format!(
            "host.name=localhost,service.name=CiscoASA|1700000000000.000000|%ASA-6-305011: Built|{local};syslog.procid=999;syslog.msgid=ASA-6-305011"
        ),
    );
    check("<189>%ASA-6-305011: Built", &format!("|-|%ASA-6-305011: Built|{local};syslog.msgid=ASA-6-305011"));
    check("<189>45: 00:00:46: %LINK-3-UPDOWN: x", &format!("|-|45: 00:00:46: %LINK-3-UPDOWN: x|{local}"));
    // The zone of the message prevails over that of the listener, if it is one that has one meaning.
    let mut events = EventLines::default();
    for zone in ["UTC", "CET"] {
        let message = format!("<189>7: *Nov 14 22:13:20 {zone}: %A-1-B: x");
        decoder("Europe/Berlin").message(message.as_bytes(), &ARRIVAL, &mut events).unwrap();
    }
    assert!(
        events.events[0].starts_with("|1700000000000") && events.events[1].starts_with("|1699996400000"),
        "{events:?}"
    );
}

#[test]
fn bytes_are_kept() {
    assert_eq!(
        decode(b"<13>Nov 14 22:13:20 h a: one\n\ttwo\nthree\n"),
        "host.name=h,service.name=a|1700000000000.000000|one\n\ttwo\nthree|severity_text=notice;syslog.facility=user"
    );
    let mut events = EventLines::default();
    decoder("UTC").message(b"<13>Nov 14 22:13:20 h a: \xff\x00x", &ARRIVAL, &mut events).unwrap();
    assert_eq!(events.lines, [b"\xff\x00x"]);
    assert_eq!(
        decode(b"<13>1 - h\xff a - - - x"),
        "host.name=h\u{fffd},service.name=a|-|x|severity_text=notice;syslog.facility=user"
    );
}

#[test]
fn the_sender_is_the_host_of_messages_without_one() {
    let mut events = EventLines::default();
    let labels = Labels::parse("site=x").unwrap();
    let mut decoder = SyslogDecoder::new(parse_zone("UTC").unwrap(), &labels);
    let arrival = SyslogArrival { sender: "192.0.2.7", ..ARRIVAL };
    for message in ["<13>x", "<13>1 - web1 - - - - x"] {
        decoder.message(message.as_bytes(), &arrival, &mut events).unwrap();
    }
    let labels: Vec<&str> = events.events.iter().map(|event| event.split('|').next().unwrap()).collect();
    assert_eq!(labels, ["host.name=192.0.2.7,site=x", "host.name=web1,site=x"]);
}

#[test]
fn pieces_of_a_long_message_share_its_header() {
    let mut events = EventLines::default();
    let mut decoder = decoder("UTC");
    let mut splitter = SyslogSplitter::new(64);
    let message = format!("<13>1 2023-11-14T22:13:20Z web1 app 7 - - {}\n<13>x\n", "y".repeat(60));
    splitter.push(message.as_bytes(), &mut |frame| decoder.frame(&frame, &ARRIVAL, &mut events).unwrap());
    let rest = "severity_text=notice;syslog.facility=user";
    let piece = |count| {
        format!("host.name=web1,service.name=app|1700000000000.000000|{}|{rest};syslog.procid=7", "y".repeat(count))
    };
    assert_eq!(events.events, [piece(22), piece(38), format!("|-|x|{rest}")]);
}

#[test]
fn every_severity_is_a_level() {
    let mut events = EventLines::default();
    let mut levels = Vec::new();
    for priority in 0..8 {
        decoder("UTC").message(format!("<{priority}>x").as_bytes(), &ARRIVAL, &mut events).unwrap();
        let name = events.events.last().unwrap().split("severity_text=").nth(1).unwrap();
        levels.push(Level::from_name(name.split(';').next().unwrap().as_bytes()).unwrap());
    }
    use Level::{Debug, Error, Fatal, Info, Warn};
    assert_eq!(levels, [Fatal, Fatal, Fatal, Error, Warn, Info, Info, Debug]);
}

#[test]
fn refused_events_are_reported_and_the_next_one_is_taken() {
    let mut events = EventLines { value_bytes_max: Some(20), ..EventLines::default() };
    let mut decoder = decoder("UTC");
    let error = decoder.message(b"<13>1 - - - a-process-id - - x", &ARRIVAL, &mut events).unwrap_err();
    assert_eq!(error.to_string(), "the attributes have 22 bytes; a record may have 20");
    decoder.message(b"<13>x", &ARRIVAL, &mut events).unwrap();
    assert_eq!(events.events.len(), 1);
}

proptest! {
    /// Any bytes are one event, whose line is the end of the message.
    #[test]
    fn nothing_is_lost_of_any_message(message in prop_oneof![
        prop::collection::vec(any::<u8>(), 0..120),
        "<[0-9]{1,3}>(1 )?[-a-zA-Z0-9:\\[\\]\" =.%]{0,80}".prop_map(String::into_bytes),
        "(<13>)?([0-9]{1,4}: )?(Nov 14 22:13:20|2023-11-14T22:13:20Z)?[ :a-z\\[\\]0-9%-]{0,40}".prop_map(String::into_bytes),
    ]) {
        let mut events = EventLines::default();
        decoder("Europe/Berlin").message(&message, &ARRIVAL, &mut events).unwrap();
        let kept = super::decoder::without_end(&message);
        prop_assert_eq!(events.lines.len(), usize::from(!kept.is_empty()));
        for line in events.lines {
            prop_assert!(kept.ends_with(&line));
        }
    }
}
