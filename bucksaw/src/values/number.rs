//! Whole numbers.

/// Most records of a context on one side, as in the API.
const CONTEXT_RECORDS_MAX: u64 = 1_000;

/// Most records that `tail -n` shows first; they are held in memory.
const LINES_MAX: u64 = 100_000;

/// A whole number.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    within(text, 0, u64::MAX)
}

/// The number of records of a context on one side.
pub(crate) fn context_count(text: &str) -> Result<u64, String> {
    within(text, 0, CONTEXT_RECORDS_MAX)
}

/// The number of records of one request of an export.
pub(crate) fn page_count(text: &str) -> Result<u64, String> {
    within(text, 1, u64::MAX)
}

/// The number of records that `tail` shows first.
pub(crate) fn line_count(text: &str) -> Result<u64, String> {
    within(text, 0, LINES_MAX)
}

/// The number of buckets of a histogram.
pub(crate) fn bucket_count(text: &str) -> Result<u64, String> {
    within(text, 1, 10_000)
}

/// The number of stores that keep each record.
pub(crate) fn replication_factor(text: &str) -> Result<u32, String> {
    within(text, 1, 64).and_then(|factor| u32::try_from(factor).map_err(|_| "expected less than 65".to_owned()))
}

/// The number of members of a consumer group that a node runs.
pub(crate) fn worker_count(text: &str) -> Result<usize, String> {
    within(text, 1, 64).and_then(|count| usize::try_from(count).map_err(|_| "expected less than 65".to_owned()))
}

/// The level of zstd of stored blocks.
pub(crate) fn store_level(text: &str) -> Result<i8, String> {
    within(text, 1, 15).and_then(|level| i8::try_from(level).map_err(|_| "expected less than 16".to_owned()))
}

/// The number of nodes of a planned cluster.
pub(crate) fn node_count(text: &str) -> Result<u32, String> {
    within(text, 1, 1_000).and_then(|count| u32::try_from(count).map_err(|_| "expected less than 1001".to_owned()))
}

/// The number of its nodes that may be down.
pub(crate) fn failed_node_count(text: &str) -> Result<u32, String> {
    within(text, 0, 999).and_then(|count| u32::try_from(count).map_err(|_| "expected less than 1000".to_owned()))
}

fn within(text: &str, min: u64, max: u64) -> Result<u64, String> {
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = if is_digits { text.parse().ok() } else { None };
    number.filter(|number| (min..=max).contains(number)).ok_or_else(|| match (min, max) {
        (0, u64::MAX) => "expected a whole number such as 10".to_owned(),
        (min, max) => format!("expected a whole number from {min} to {max}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_parse() {
        assert_eq!(count("0"), Ok(0));
        assert_eq!(count("18446744073709551615"), Ok(u64::MAX));
        for text in ["", "-1", "+1", "1.5", "many", "18446744073709551616", "1 "] {
            assert!(count(text).unwrap_err().starts_with("expected a whole number"), "{text}");
        }
        assert_eq!((context_count("1000"), replication_factor("64")), (Ok(1_000), Ok(64)));
        assert_eq!(context_count("1001").unwrap_err(), "expected a whole number from 0 to 1000");
        assert_eq!(replication_factor("0").unwrap_err(), "expected a whole number from 1 to 64");
        assert_eq!((node_count("1000"), node_count("0").is_err(), failed_node_count("0")), (Ok(1_000), true, Ok(0)));
        assert_eq!((worker_count("64"), worker_count("0").is_err()), (Ok(64), true));
        assert!(bucket_count("0").is_err() && line_count("100001").is_err());
    }
}
