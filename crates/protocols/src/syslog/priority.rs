//! The priority in front of a message: `<34>` is facility 4 and severity 2.

/// The names of the severities 0 to 7; the rule for levels recognises them.
const SEVERITIES: [&str; 8] = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

/// The names of the facilities 0 to 23.
const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp", "ntp",
    "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
];

/// Facility and severity by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SyslogPriority {
    pub(super) facility: &'static str,
    pub(super) severity: &'static str,
}

/// The name of a severity from 0 (`emerg`) to 7 (`debug`).
pub(crate) fn severity_name(severity: usize) -> Option<&'static str> {
    SEVERITIES.get(severity).copied()
}

/// The priority, and the text behind it; `None` if the text starts with none, or with one above 191.
pub(super) fn take_priority(text: &[u8]) -> Option<(SyslogPriority, &[u8])> {
    let digits_from = text.strip_prefix(b"<")?;
    let length = digits_from.iter().take(4).take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = digits_from.split_at_checked(length).filter(|_| (1..=3).contains(&length))?;
    let number = digits.iter().fold(0, |number, digit| number * 10 + usize::from(digit - b'0'));
    let facility = FACILITIES.get(number / 8)?;
    Some((SyslogPriority { facility, severity: severity_name(number % 8)? }, rest.strip_prefix(b">")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_read() {
        let check = |text: &str, want: Option<(&str, &str, &str)>| {
            let got = take_priority(text.as_bytes());
            let got = got.map(|(found, rest)| (found.facility, found.severity, str::from_utf8(rest).unwrap()));
            assert_eq!(got, want, "{text}");
        };
        check("<34>x", Some(("auth", "crit", "x")));
        check("<0>", Some(("kern", "emerg", "")));
        check("<191>1 ", Some(("local7", "debug", "1 ")));
        check("<013>x", Some(("user", "notice", "x")));
        for bad in ["", "<", "<>", "<192>", "<1234>", "<12", "<-1>", "<1a>", "34>", " <34>"] {
            check(bad, None);
        }
    }
}
