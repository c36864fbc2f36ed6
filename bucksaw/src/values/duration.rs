//! Time limits.

use std::time::Duration;

use bucksaw_record::time::parse_duration;

/// A time limit of more than nothing.
pub(crate) fn time_limit(text: &str) -> Result<Duration, String> {
    let limit = parse_duration(text).map_err(|error| error.to_string())?;
    if limit.is_zero() { Err("expected a time such as 10s, more than 0".to_owned()) } else { Ok(limit) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_positive() {
        assert_eq!(time_limit("300ms"), Ok(Duration::from_millis(300)));
        assert!(time_limit("0").is_err() && time_limit("0s").is_err() && time_limit("soon").is_err());
    }
}
