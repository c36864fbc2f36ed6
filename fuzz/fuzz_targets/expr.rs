//! Filter expressions: an accepted expression prints to text that parses to the same expression.
#![no_main]
use bucksaw_record::{Expr, Labels, RecordView};
use bucksaw_scan::Plan;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let (input, record) = data.split_at(data.len() / 2);
    let Ok(expr) = Expr::parse(input) else { return };
    let printed = expr.to_string();
    // Printing may add quotes and so exceed the length limit of an expression.
    if printed.len() <= input.len() * 4 && printed.len() < 16 << 10 {
        assert_eq!(Expr::parse(printed.as_bytes()).as_ref(), Ok(&expr), "{printed}");
    }
    if input.len() < 200
        && let Ok(plan) = Plan::compile(&expr)
    {
        let _ = plan.matches(&Labels::default(), RecordView::line_only(record));
    }
});
