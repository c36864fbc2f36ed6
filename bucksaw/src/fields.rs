//! `bucksaw fields`: the fields of matching records with their most frequent values.

use serde_json::Value;

use crate::args::SummaryArgs;
use crate::exit::Exit;
use crate::summary::{self, SummaryView, cell, number};
use crate::text_table::TextTable;

pub(crate) fn run(args: &SummaryArgs) -> anyhow::Result<Exit> {
    summary::run(args, "/api/v1/fields", Vec::new(), render)
}

fn render(document: &Value, view: &SummaryView) -> (String, bool) {
    let fields: Vec<&Value> = document["fields"].as_array().into_iter().flatten().collect();
    let any_range = fields.iter().any(|field| field["numbers"].is_object());
    let names = ["field", "kind", "records", "distinct", "range", "values"].into_iter();
    let mut table = TextTable::new(names.filter(|name| any_range || *name != "range").collect());
    for field in fields {
        let range = match &field["numbers"] {
            Value::Object(numbers) => {
                let bound = |name: &str| numbers.get(name).map_or_else(|| "?".to_owned(), Value::to_string);
                Some(format!("{} to {}", bound("min"), bound("max")))
            }
            _ => None,
        };
        let text = |name: &str| Some(cell(field[name].as_str().unwrap_or_default()));
        let mut row =
            vec![text("name"), text("kind"), Some(number(&field["records"])), Some(number(&field["distinct"]))];
        if any_range {
            row.push(range);
        }
        row.push(Some(cell(&summary::values(&field["values"], "count", view.columns))));
        table.push(row);
    }
    let records = document["records"].as_u64().unwrap_or_default();
    let newest = if document["sampled"] == true { "the newest " } else { "" };
    let plural = if records == 1 { "" } else { "s" };
    let text = if records == 0 { String::new() } else { format!("{table}in {newest}{records} record{plural}\n") };
    (summary::fit(&text, view.columns), records > 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::print::Colour;

    #[test]
    fn fields_are_a_table() {
        let view = SummaryView { columns: None, colour: Colour::Off };
        let document = json!({
            "fields": [
                {"name": "app", "kind": "label", "records": 3, "distinct": 1, "values": [{"value": "web", "count": 3}]},
                {"name": "n", "kind": "field", "records": 2, "distinct": null, "numbers": {"min": 1, "avg": 2, "max": 2.5},
                    "values": [{"value": "1", "count": 1}, {"value": "\u{1b}", "count": 1}]},
            ],
            "records": 3, "sampled": true,
        });
        let want = "FIELD  KIND   RECORDS  DISTINCT  RANGE     VALUES\n\
                    app    label  3        1         -         web (3)\n\
                    n      field  2        -         1 to 2.5  1 (1), \\x1b (1)\n\
                    in the newest 3 records\n";
        assert_eq!(render(&document, &view), (want.to_owned(), true));
        assert_eq!(render(&json!({"fields": [], "records": 0}), &view), (String::new(), false));
        assert_eq!(render(&json!([]), &view), (String::new(), false));
    }
}
