//! `bucksaw labels`: the labels of streams with records in a time range.

use serde_json::Value;

use crate::args::SummaryArgs;
use crate::exit::Exit;
use crate::summary::{self, SummaryView, cell, number};
use crate::text_table::TextTable;

pub(crate) fn run(args: &SummaryArgs) -> anyhow::Result<Exit> {
    summary::run(args, "/api/v1/labels", Vec::new(), render)
}

fn render(document: &Value, view: &SummaryView) -> (String, bool) {
    let labels: Vec<&Value> = document["labels"].as_array().into_iter().flatten().collect();
    let any = !labels.is_empty();
    let mut table = TextTable::new(vec!["label", "distinct", "values"]);
    for label in labels {
        table.push(vec![
            Some(cell(label["name"].as_str().unwrap_or_default())),
            Some(number(&label["distinct"])),
            Some(cell(&summary::values(&label["values"], "streams", view.columns))),
        ]);
    }
    (if any { summary::fit(&table.to_string(), view.columns) } else { String::new() }, any)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::print::Colour;

    #[test]
    fn labels_are_a_table() {
        let view = SummaryView { columns: None, colour: Colour::Off };
        let values = json!([{"value": "api", "streams": 2}, {"value": "web", "streams": 1}]);
        let document = json!({"labels": [{"name": "app", "distinct": 2, "values": values}]});
        let want = "LABEL  DISTINCT  VALUES\napp    2         api (2), web (1)\n";
        assert_eq!(render(&document, &view), (want.to_owned(), true));
        assert_eq!(render(&json!({"labels": []}), &view), (String::new(), false));
    }
}
