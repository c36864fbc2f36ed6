//! The few members of a document that are more than a part of the line.

use bucksaw_record::Millis;

use crate::json_members::{read_only_object, stated_time, text};

/// The JSON of some members of a document; empty if it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DocumentMembers<'a> {
    pub(super) time: Option<(Millis, u32)>,
    /// `host.name` or `host.hostname`, or `host` itself.
    pub(super) host: &'a str,
    /// `service.name`, or `service` itself.
    pub(super) service: &'a str,
}

impl<'a> DocumentMembers<'a> {
    /// Reads a document.
    ///
    /// # Errors
    /// It is not exactly one JSON object.
    pub(super) fn read(document: &'a [u8]) -> Result<Self, serde_json::Error> {
        let mut members = Self::default();
        read_only_object(document, |name, value| match name {
            "@timestamp" => members.time = stated_time(value),
            "host" => members.host = named(value),
            "host.name" => members.host = value,
            "service" => members.service = named(value),
            "service.name" => members.service = value,
            _ => {}
        })?;
        Ok(members)
    }
}

/// The member `name` of an object, or else `hostname`; a string itself; empty for other values.
fn named(json: &str) -> &str {
    if json.starts_with('"') {
        return json;
    }
    let (mut name, mut hostname) = ("", "");
    // Other values have no members.
    let _ = read_only_object(json.as_bytes(), |member, value| match member {
        "name" => name = value,
        "hostname" => hostname = value,
        _ => {}
    });
    if text(name).is_empty() { hostname } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found() {
        let check = |document: &str, time: Option<u64>, host: &str, service: &str| {
            let members = DocumentMembers::read(document.as_bytes()).unwrap();
            let got = (members.time.map(|(at, _)| at.0), &*text(members.host), &*text(members.service));
            assert_eq!(got, (time, host, service), "{document}");
        };
        check("{}", None, "", "");
        check(
            r#"{"@timestamp":"2023-11-14T22:13:20.5Z","host":{"name":"a","hostname":"b"}}"#,
            Some(1_700_000_000_500),
            "a",
            "",
        );
        check(
            r#"{"@timestamp":1700000000500,"host":{"hostname":"b"},"service":{"name":"s"}}"#,
            Some(1_700_000_000_500),
            "b",
            "s",
        );
        check(r#"{"@timestamp":"1700000000500","host":"a","service":"s"}"#, Some(1_700_000_000_500), "a", "s");
        check(r#"{"host.name":"a","service.name":"s","x":{"host":"b"}}"#, None, "a", "s");
        check(r#"{"@timestamp":"soon","host":7,"service":null}"#, None, "", "");
        check(r#"{"host":{"name":""}}"#, None, "", "");
    }
}
