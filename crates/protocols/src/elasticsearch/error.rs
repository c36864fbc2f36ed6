//! Errors in the format of Elasticsearch.

use crate::HttpAnswer;

/// An error with a status of HTTP, one of Elasticsearch's types of errors, and a reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {reason}")]
pub struct ElasticError {
    /// The status of HTTP.
    pub status: u16,
    /// The type of error.
    pub kind: &'static str,
    /// What is wrong.
    pub reason: String,
}

impl ElasticError {
    /// `400` with `illegal_argument_exception`.
    pub(super) fn illegal_argument(reason: impl Into<String>) -> Self {
        Self { status: 400, kind: "illegal_argument_exception", reason: reason.into() }
    }

    /// The answer to the request.
    pub fn answer(&self) -> HttpAnswer {
        let cause = self.cause();
        let members = cause.trim_start_matches('{');
        let body = format!(r#"{{"error":{{"root_cause":[{cause}],{members},"status":{}}}"#, self.status);
        HttpAnswer::new(self.status, body)
    }

    /// The error as an object with type and reason.
    pub(super) fn cause(&self) -> String {
        let reason = serde_json::Value::from(self.reason.as_str());
        format!(r#"{{"type":"{}","reason":{reason}}}"#, self.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_has_the_format_of_elasticsearch() {
        let error = ElasticError::illegal_argument("a \"b\"");
        assert_eq!(
            error.answer().body,
            r#"{"error":{"root_cause":[{"type":"illegal_argument_exception","reason":"a \"b\""}],"type":"illegal_argument_exception","reason":"a \"b\""},"status":400}"#
        );
        assert_eq!(error.to_string(), "illegal_argument_exception: a \"b\"");
    }
}
