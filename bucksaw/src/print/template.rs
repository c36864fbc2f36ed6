//! Fills in the template of a record.

use std::borrow::Cow;

use bucksaw_scan::fields;

use crate::answer::NodeRecord;
use crate::values::{DisplayZone, OutputPart, OutputTemplate};

/// A missing value, so that columns stay in place.
const MISSING: &[u8] = b"-";

/// A part of the output.
pub(super) enum FilledPart<'a> {
    /// Text of the template or of the program.
    Own(Cow<'a, str>),
    /// Bytes from outside.
    Value(Cow<'a, [u8]>),
    /// The line itself.
    Line,
}

/// The parts of the output for a record with this line.
pub(super) fn fill<'a>(
    template: &'a OutputTemplate,
    record: &'a NodeRecord<'a>,
    line: &'a [u8],
    zone: &DisplayZone,
) -> Vec<FilledPart<'a>> {
    let part = |part: &'a OutputPart| match part {
        OutputPart::Text(text) => FilledPart::Own(text.into()),
        OutputPart::Time => FilledPart::Value(Cow::Owned(zone.format_text(&record.time).into_bytes())),
        OutputPart::Id => value(Some(Cow::Borrowed(record.id.as_bytes()))),
        OutputPart::Line => FilledPart::Line,
        OutputPart::Labels => value(Some(Cow::Owned(record.stream().into_bytes()))),
        OutputPart::Label(name) => value(label(record, name)),
        OutputPart::Field(name) => value(label(record, name).or_else(|| fields::lookup(line, name))),
    };
    template.0.iter().map(part).collect()
}

fn label<'a>(record: &'a NodeRecord<'a>, name: &str) -> Option<Cow<'a, [u8]>> {
    record.labels.get(name).map(|value| Cow::Borrowed(value.as_bytes()))
}

fn value(found: Option<Cow<'_, [u8]>>) -> FilledPart<'_> {
    FilledPart::Value(found.filter(|value| !value.is_empty()).unwrap_or(Cow::Borrowed(MISSING)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_labels_or_keys_of_the_line() {
        let json = br#"{"time":"2026-11-20T23:10:00.000000Z","id":"i","labels":{"app":"web","n":"1"},"line":"{\"n\":2,\"a\":{\"b\":\"x y\"}}"}"#;
        let record = NodeRecord::parse(json).unwrap();
        let line = record.line().unwrap();
        let check = |template: &str, want: &str| {
            let template = template.parse().unwrap();
            let parts = fill(&template, &record, &line, &DisplayZone::utc());
            let shown = parts.into_iter().map(|part| match part {
                FilledPart::Own(text) => text.into_owned(),
                FilledPart::Value(value) => String::from_utf8(value.into_owned()).unwrap(),
                FilledPart::Line => "LINE".to_owned(),
            });
            assert_eq!(shown.collect::<String>(), want, "{template:?}");
        };
        check("{time} {id} {line}", "2026-11-20T23:10:00.000000Z i LINE");
        check("{labels}|{label:app}|{label:a.b}", "app=web,n=1|web|-");
        check("{field:n} {field:a.b} {field:none}", "1 x y -");
    }
}
