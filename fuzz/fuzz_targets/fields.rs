//! Fields of records: JSON and logfmt of any kind. And the level that is looked for in them.
#![no_main]
use bucksaw_scan::{Level, fields};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut found = 0;
    fields::each(data, 50, &mut |name, value| {
        found += 1;
        let _ = (name.len(), value.len());
    });
    assert!(found <= 50);
    for name in ["level", "a.b", "a.0.c", ""] {
        let _ = fields::lookup(data, name);
    }
    // What follows the part that is looked at changes nothing.
    let longer = [data, &[b' '; 600]].concat();
    assert_eq!(Level::of_text(&longer), Level::of_text(&[&longer[..], b" level=error"].concat()));
});
