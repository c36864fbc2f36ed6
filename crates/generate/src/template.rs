//! Line templates with placeholders: `user <user> placed order <id>`.
//!
//! The tables of [`kinds`](crate::kinds) contain lines as they look. A generator parses each template once; filling
//! one is a loop over its parts, as fast as code written for each line.

use crate::words;

/// A placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placeholder {
    /// The time of the line, in five formats.
    Time,
    CommaTime,
    SpacedTime,
    AccessTime,
    SyslogTime,
    /// Seconds since boot, with microseconds.
    Uptime,
    /// The level: `info` or `INFO `.
    Level,
    LevelColumn,
    Service,
    /// A host name.
    Host,
    /// A client address, and its port.
    Address,
    Port,
    /// A user name, the user's number, and a name that is mostly `-` for an unknown user.
    User,
    UserId,
    RemoteUser,
    Session,
    /// 32 and 16 hexadecimal digits.
    Trace,
    Span,
    /// The request that the line is about.
    Method,
    Url,
    Status,
    Bytes,
    /// Its duration: whole milliseconds, milliseconds and seconds with three decimals.
    Ms,
    MsFraction,
    Seconds,
    /// The number of a recent order; numbers recur.
    Id,
    /// A number that only increases.
    Counter,
    /// The id of one of the host's few processes.
    Process,
    /// Numbers: 1 to 9, mostly tens, mostly thousands. All but the first have long tails.
    SmallNumber,
    MediumNumber,
    LargeNumber,
    /// A percentage with one decimal, without its sign.
    Percent,
    /// A price with two decimals.
    Price,
    /// A write-ahead log position, `1A/4F00B2C8`.
    Position,
}

/// A part of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TemplatePart {
    Text(&'static str),
    Word(&'static [&'static str]),
    Placeholder(Placeholder),
    /// A comma between two fields of the outermost JSON object, before which the line may be cut.
    Comma,
}

/// A parsed template.
#[derive(Clone, Debug)]
pub(crate) struct Template(Vec<TemplatePart>);

impl Template {
    /// Parses the parts of a template. An unknown placeholder stays as written.
    pub(crate) fn new(pieces: &[&'static str]) -> Self {
        let mut parts = Vec::new();
        for &piece in pieces {
            let mut rest = piece;
            while let Some((before, after)) = rest.split_once('<') {
                push_text(&mut parts, before);
                match after.split_once('>').and_then(|(name, after)| Some((parse_placeholder(name)?, after))) {
                    Some((part, after)) => {
                        parts.push(part);
                        rest = after;
                    }
                    None => {
                        push_text(&mut parts, "<");
                        rest = after;
                    }
                }
            }
            push_text(&mut parts, rest);
        }
        Self(parts)
    }

    pub(crate) fn parts(&self) -> &[TemplatePart] {
        &self.0
    }
}

fn push_text(parts: &mut Vec<TemplatePart>, text: &'static str) {
    if !text.is_empty() {
        parts.push(TemplatePart::Text(text));
    }
}

fn parse_placeholder(name: &str) -> Option<TemplatePart> {
    Some(TemplatePart::Placeholder(match name {
        "," => return Some(TemplatePart::Comma),
        "time" => Placeholder::Time,
        "comma-time" => Placeholder::CommaTime,
        "spaced-time" => Placeholder::SpacedTime,
        "access-time" => Placeholder::AccessTime,
        "syslog-time" => Placeholder::SyslogTime,
        "uptime" => Placeholder::Uptime,
        "level" => Placeholder::Level,
        "LEVEL" => Placeholder::LevelColumn,
        "service" => Placeholder::Service,
        "host" => Placeholder::Host,
        "address" => Placeholder::Address,
        "port" => Placeholder::Port,
        "user" => Placeholder::User,
        "user-id" => Placeholder::UserId,
        "visitor" => Placeholder::RemoteUser,
        "session" => Placeholder::Session,
        "trace" => Placeholder::Trace,
        "span" => Placeholder::Span,
        "method" => Placeholder::Method,
        "url" => Placeholder::Url,
        "status" => Placeholder::Status,
        "bytes" => Placeholder::Bytes,
        "ms" => Placeholder::Ms,
        "ms.fraction" => Placeholder::MsFraction,
        "seconds" => Placeholder::Seconds,
        "id" => Placeholder::Id,
        "growing" => Placeholder::Counter,
        "pid" => Placeholder::Process,
        "few" => Placeholder::SmallNumber,
        "some" => Placeholder::MediumNumber,
        "many" => Placeholder::LargeNumber,
        "percent" => Placeholder::Percent,
        "price" => Placeholder::Price,
        "position" => Placeholder::Position,
        _ => return words::word_list(name).map(TemplatePart::Word),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_at_placeholders() {
        let check = |pieces: &[&'static str], want: &str| {
            let parts: Vec<String> = Template::new(pieces).parts().iter().map(name).collect();
            assert_eq!(parts.join("|"), want, "{pieces:?}");
        };
        fn name(part: &TemplatePart) -> String {
            match part {
                TemplatePart::Text(text) => (*text).to_owned(),
                TemplatePart::Word(_) => "WORD".to_owned(),
                TemplatePart::Placeholder(placeholder) => format!("{placeholder:?}"),
                TemplatePart::Comma => "COMMA".to_owned(),
            }
        }
        check(&["plain"], "plain");
        check(&["", ""], "");
        check(&["<user> bought <item>, 5% off"], "User| bought |WORD|, 5% off");
        check(&["a<,>", "b<ms>"], "a|COMMA|b|Ms");
        check(&["1 < 2 and <unknown> <ms>"], "1 |<| 2 and |<|unknown> |Ms");
        check(&["<unclosed"], "<|unclosed");
    }
}
