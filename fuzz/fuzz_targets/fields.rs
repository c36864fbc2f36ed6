//! Fields and levels of records in JSON and logfmt.
#![no_main]
use bucksaw_scan::{Level, fields};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut found = 0;
    fields::visit(data, 50, &mut |name, value| {
        found += 1;
        let _ = (name.len(), value.len());
    });
    assert!(found <= 50);
    fields::visit_named(data, 50, &mut |name, _| assert!(fields::lookup(data, name).is_some()));
    for name in ["level", "a.b", "a.0.c", ""] {
        let _ = fields::lookup(data, name);
    }
    // Text behind the examined part does not change the level.
    let longer = [data, &[b' '; 600]].concat();
    assert_eq!(Level::of_text(&longer), Level::of_text(&[&longer[..], b" level=error"].concat()));
});
