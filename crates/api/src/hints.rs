//! Hints: advice on valid expressions that are probably mistaken.
//!
//! A hint never changes an answer. It is one sentence in `stats.hints`.

use bucksaw_query::{Request, UnknownField};
use bucksaw_record::expr;

use crate::app::App;
use crate::error::ApiError;
use crate::params::Params;
use crate::permits::acquire_query_permit;

/// The hints of one answer.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    /// Those that follow from the text of the expression.
    of_text: Vec<String>,
    request: Option<Request>,
}

impl Hints {
    /// The hints for a request with this filter as typed.
    pub(crate) fn of(request: &Request, params: &Params) -> Self {
        Self { of_text: text_hints(params.bytes("q").unwrap_or_default()), request: Some(request.clone()) }
    }

    /// The hints for a result with this number of records.
    pub(crate) async fn for_result(self, app: &App, matched: u64) -> Result<Vec<String>, ApiError> {
        if matched > 0 || self.request.is_none() {
            return Ok(self.of_text);
        }
        let permit = acquire_query_permit(app).await?;
        Ok(self.for_answer(app, matched, permit).await)
    }

    /// As [`Self::for_result`], with a permit that is held until the work ends.
    pub(crate) async fn for_answer(self, app: &App, matched: u64, permit: impl Send + 'static) -> Vec<String> {
        let mut hints = self.of_text;
        if matched == 0
            && let Some(request) = &self.request
        {
            // An answer without a hint is still right.
            let unknown = app.answers.unknown_fields(request, permit).await.unwrap_or_default();
            hints.extend(unknown.into_iter().map(unknown_field));
        }
        hints
    }
}

/// The hints that follow from the text of an expression alone.
pub(crate) fn text_hints(q: &[u8]) -> Vec<String> {
    expr::hints(q).into_iter().map(|hint| hint.message).collect()
}

/// Names of other systems for the line of a record.
const LINE_NAMES: [&str; 9] = ["line", "message", "msg", "_msg", "@message", "log", "text", "body", "_line"];

fn unknown_field(field: UnknownField) -> String {
    let UnknownField { name, nearest, records_examined } = field;
    let examined = match records_examined {
        1 => "the only record of this time range has no".to_owned(),
        _ => format!("none of the newest {records_examined} records of this time range has a"),
    };
    match nearest {
        Some(nearest) => format!("{examined} field `{name}`; there is `{nearest}`"),
        None if LINE_NAMES.contains(&name.as_str()) => {
            format!("{examined} field `{name}`; the line is searched by words alone, or by `_line=…`")
        }
        None => format!("{examined} field `{name}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_is_not_there_gets_the_nearest_name() {
        let check = |name: &str, nearest: Option<&str>, records_examined: u64, want: &str| {
            let nearest = nearest.map(str::to_owned);
            assert_eq!(unknown_field(UnknownField { name: name.to_owned(), nearest, records_examined }), want);
        };
        let of_two = "none of the newest 2 records of this time range has a field";
        check("stauts", Some("status"), 2, &format!("{of_two} `stauts`; there is `status`"));
        check("colour", None, 1, "the only record of this time range has no field `colour`");
        check("message", None, 2, &format!("{of_two} `message`; the line is searched by words alone, or by `_line=…`"));
        check("message", Some("massage"), 2, &format!("{of_two} `message`; there is `massage`"));
    }
}
