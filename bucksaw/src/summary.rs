//! Runs a call that summarises matching records, and prints its answer.

use anyhow::Context as _;
use bucksaw_env::{Clock, real};
use bucksaw_record::Millis;
use serde_json::Value;

use crate::answer::AnswerStats;
use crate::args::{DocumentFormat, SummaryArgs};
use crate::exit::Exit;
use crate::expression::RecordRules;
use crate::node_client::{self, NodeClient};
use crate::one_line::one_line;
use crate::print::{Colour, Out, sanitise};
use crate::progress::Progress;
use crate::{interrupt, terminal};

/// Values of a field that are shown where the output is no terminal.
const VALUES_SHOWN: usize = 5;

/// How a summary is shown to people.
pub(crate) struct SummaryView {
    /// The columns of the terminal, if the output is one.
    pub(crate) columns: Option<usize>,
    pub(crate) colour: Colour,
}

/// Runs the call with these parameters besides expression and range. `render` returns the text for people, and whether
/// anything matched.
pub(crate) fn run(
    args: &SummaryArgs,
    call: &str,
    more: Vec<(&'static str, String)>,
    render: impl Fn(&Value, &SummaryView) -> (String, bool),
) -> anyhow::Result<Exit> {
    let selection = RecordRules::build(&args.pattern)?;
    let mut parameters = vec![("q", selection.spelling)];
    parameters.extend(args.window.parameters(Millis(real::Clock::default().unix_ms()), &args.display.zone())?);
    parameters.extend(more);
    interrupt::exit_on_interrupt()?;
    let path = node_client::path(call, &parameters);
    let client = NodeClient::new(&args.node)?;
    let answer =
        node_client::runtime()?.block_on(async { Progress::new("searching").during(client.get(&path)).await })?;
    let document: Value = serde_json::from_slice(&answer).context("the node's answer cannot be read")?;
    let mut out = Out::coloured(args.display.color)?;
    let columns = out.terminal.then(|| terminal::columns(&std::io::stdout())).flatten();
    let (text, any) = render(&document, &SummaryView { columns, colour: out.colour });
    match args.output {
        DocumentFormat::Text => out.write(text.as_bytes())?,
        DocumentFormat::Json => {
            out.write_json(answer.trim_ascii_end())?;
            out.write(b"\n")?;
        }
    }
    out.flush()?;
    let stats = AnswerStats::from_answer(&document).unwrap_or_default();
    Ok(stats.settle(any, args.allow_partial))
}

/// The most frequent values of a field with their counts, as a cell: `200 (7), 404 (1)`.
pub(crate) fn values(values: &Value, count: &str, columns: Option<usize>) -> String {
    let values = values.as_array().into_iter().flatten();
    let shown = values.take(if columns.is_some() { usize::MAX } else { VALUES_SHOWN }).map(|value| {
        let text = value["value"].as_str().map_or_else(|| value["value"].to_string(), one_line);
        let cut = if value["cut"] == true { "…" } else { "" };
        format!("{text}{cut} ({})", value[count])
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// A number, or a dash.
pub(crate) fn number(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".to_owned(), |number| number.to_string())
}

/// A text as a cell, sanitised.
pub(crate) fn cell(text: &str) -> String {
    let mut shown = Vec::new();
    sanitise(one_line(text).as_bytes(), &mut shown);
    String::from_utf8_lossy(&shown).into_owned()
}

/// Lines cut to the columns of a terminal.
pub(crate) fn fit(text: &str, columns: Option<usize>) -> String {
    let Some(columns) = columns else { return text.to_owned() };
    let line = |line: &str| match line.chars().count() > columns {
        true => line.chars().take(columns.saturating_sub(1)).chain("…\n".chars()).collect::<String>(),
        false => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_shown_with_their_counts() {
        let given = json!([{"value": "a\nb", "count": 2}, {"value": "long", "count": 1, "cut": true}]);
        assert_eq!(values(&given, "count", None), "a b (2), long… (1)");
        let many: Vec<Value> = (0..9).map(|value| json!({"value": value.to_string(), "count": 1})).collect();
        assert_eq!(values(&many.clone().into(), "count", None).matches('(').count(), VALUES_SHOWN);
        assert_eq!(values(&many.into(), "count", Some(80)).matches('(').count(), 9);
        assert_eq!(values(&Value::Null, "count", None), "");
    }

    #[test]
    fn lines_are_cut_to_the_terminal() {
        assert_eq!(fit("äbcdef\nxyz\n", Some(4)), "äbc…\nxyz\n");
        assert_eq!(fit("abcdef\n", None), "abcdef\n");
    }
}
