//! The short names of severity numbers.

/// The short name that OpenTelemetry gives to a severity number; `None` outside of 1 to 24.
pub(super) fn severity_name(number: i64) -> Option<&'static str> {
    const NAMES: [&str; 24] = [
        "TRACE", "TRACE2", "TRACE3", "TRACE4", "DEBUG", "DEBUG2", "DEBUG3", "DEBUG4", "INFO", "INFO2", "INFO3",
        "INFO4", "WARN", "WARN2", "WARN3", "WARN4", "ERROR", "ERROR2", "ERROR3", "ERROR4", "FATAL", "FATAL2", "FATAL3",
        "FATAL4",
    ];
    NAMES.get(usize::try_from(number.checked_sub(1)?).ok()?).copied()
}

/// The number of the name of an enum value, such as `SEVERITY_NUMBER_INFO2`. Some senders of JSON write the names.
pub(super) fn severity_number(enum_name: &str) -> Option<i64> {
    let name = enum_name.strip_prefix("SEVERITY_NUMBER_")?;
    (1..=24).find(|number| severity_name(*number) == Some(name))
}
