//! Fields of records: JSON and logfmt of any kind.
#![no_main]
use bucksaw_scan::fields;
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
});
