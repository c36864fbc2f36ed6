//! The time limit that a client gives to a call.
#![allow(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::time::Duration;

use axum::http::HeaderMap;

use super::status::{GrpcCode, GrpcError};

/// The most digits of a timeout.
const DIGITS_MAX: usize = 8;

/// The time limit of a call, if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallDeadline(Option<tokio::time::Instant>);

impl CallDeadline {
    /// Reads `grpc-timeout`; the time begins now.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, GrpcError> {
        let Some(stated) = headers.get("grpc-timeout") else { return Ok(Self(None)) };
        let timeout = stated.to_str().ok().and_then(parse_timeout).ok_or_else(|| {
            let message = "grpc-timeout is not up to 8 digits and one of H, M, S, m, u and n";
            GrpcError::new(GrpcCode::INVALID_ARGUMENT, message)
        })?;
        Ok(Self(tokio::time::Instant::now().checked_add(timeout)))
    }

    /// Waits for work until the time limit.
    pub(crate) async fn limit<T>(self, work: impl Future<Output = T>) -> Result<T, GrpcError> {
        let exceeded = |_| GrpcError::new(GrpcCode::DEADLINE_EXCEEDED, "the call took longer than its grpc-timeout");
        match self.0 {
            Some(at) => tokio::time::timeout_at(at, work).await.map_err(exceeded),
            None => Ok(work.await),
        }
    }
}

/// Parses a timeout such as `100m`.
fn parse_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > DIGITS_MAX || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(count * 3_600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_parsed() {
        let check = |text: &str, want: Option<Duration>| assert_eq!(parse_timeout(text), want, "{text}");
        check("100m", Some(Duration::from_millis(100)));
        check("99999999H", Some(Duration::from_secs(99_999_999 * 3_600)));
        check("0n", Some(Duration::ZERO));
        check("3S", Some(Duration::from_secs(3)));
        for wrong in ["", "5", "S", "123456789S", "-1S", "1.5S", "1s", "+1S", "1ä"] {
            check(wrong, None);
        }
    }
}
