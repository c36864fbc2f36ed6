//! The records that runs erase.

use crate::record_attributes::record_number;

/// The expression of the erasure; [`is_erased`] is its oracle.
pub(crate) const EXPRESSION: &str = "/record [0-9]*7 /";

/// Whether a record with this line is erased, if its time is in the range.
pub(crate) fn is_erased(line: &str) -> bool {
    record_number(line).is_some_and(|number| number.ends_with('7'))
}

#[cfg(test)]
mod tests {
    use bucksaw_record::{Labels, RecordView};
    use bucksaw_scan::Plan;

    use super::*;

    #[test]
    fn the_oracle_agrees_with_the_expression() {
        let (_, plan) = Plan::parse(EXPRESSION.as_bytes()).unwrap();
        for line in
            ["client 0 record 7 xx", "client 7 record 8 ", "client 0 record 17 ", "client 1 record 70 x", "text"]
        {
            let matches = plan.matches(&Labels::default(), RecordView::line_only(line.as_bytes()));
            assert_eq!(matches, is_erased(line), "{line}");
        }
    }
}
