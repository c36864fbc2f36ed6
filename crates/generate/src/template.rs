//! A line with blanks in it: `user <user> placed order <id>`.
//!
//! Lines are written down as they look, in the tables of [`kinds`](crate::kinds), and taken apart once when a generator
//! is made. Filling one is then a walk over its parts, as fast as code written out by hand for each line would be.

use crate::words;

/// What fills a blank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placeholder {
    /// The time of the line, in five spellings.
    Time,
    CommaTime,
    SpacedTime,
    AccessTime,
    SyslogTime,
    /// Seconds since the machine came up, with microseconds.
    Uptime,
    /// The level: `info` or `INFO `.
    Level,
    LevelColumn,
    Service,
    /// A machine's name.
    Host,
    /// A client's address, and the port it calls from.
    Address,
    Port,
    /// A user's name, the number that goes with it, and the name where most are unknown and written `-`.
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
    /// How long it took: whole milliseconds, milliseconds and seconds with three decimals.
    Ms,
    MsFraction,
    Seconds,
    /// The number of an order that is still talked about; numbers recur.
    Id,
    /// A number that only grows.
    Counter,
    /// A process id of one of the machine's few processes.
    Process,
    /// Numbers: 1 to 9, mostly tens, mostly thousands, and all with long tails but the first.
    SmallNumber,
    MediumNumber,
    LargeNumber,
    /// A percentage with one decimal, without its sign.
    Percent,
    /// A price with two decimals.
    Price,
    /// A log position, `1A/4F00B2C8`.
    Position,
}

/// A piece of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TemplatePart {
    Text(&'static str),
    Word(&'static [&'static str]),
    Placeholder(Placeholder),
    /// Between two fields of the outermost JSON object: a comma, before which the line may be cut.
    Comma,
}

/// A line taken apart.
#[derive(Clone, Debug)]
pub(crate) struct Template(Vec<TemplatePart>);

impl Template {
    /// Takes a line apart that is given in pieces. A blank of no known name stays as it is written.
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
                TemplatePart::Placeholder(blank) => format!("{blank:?}"),
                TemplatePart::Comma => "COMMA".to_owned(),
            }
        }
        check(&["plain"], "plain");
        check(&["", ""], "");
        check(&["<user> bought <item>, 5% off"], "User| bought |WORD|, 5% off");
        check(&["a<,>", "b<ms>"], "a|COMMA|b|Ms");
        check(&["1 < 2 and <nobody> <ms>"], "1 |<| 2 and |<|nobody> |Ms");
        check(&["<unclosed"], "<|unclosed");
    }
}
