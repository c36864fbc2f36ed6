//! A filter expression: parses or is refused, prints to what parses to the same, and compiles or is refused.
#![no_main]
use bucksaw_record::{Expr, Labels};
use bucksaw_scan::Plan;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let (input, record) = data.split_at(data.len() / 2);
    let Ok(expr) = Expr::parse(input) else { return };
    let printed = expr.to_string();
    // Printing may quote, and so be longer than what is accepted.
    if printed.len() <= input.len() * 4 && printed.len() < 16 << 10 {
        assert_eq!(Expr::parse(printed.as_bytes()).as_ref(), Ok(&expr), "{printed}");
    }
    if input.len() < 200
        && let Ok(plan) = Plan::compile(&expr)
    {
        let _ = plan.matches(&Labels::default(), record);
    }
});
