//! A frame from disk or wire: any bytes open or are refused, and what opens has rows that fit its text.
#![no_main]
use bucksaw_segment::{Frame, Header};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((head, body)) = data.split_first_chunk::<{ Header::LEN }>() else { return };
    // Sealed anew, so that the checksum does not keep the fuzzer from what lies behind it.
    let Ok(header) = Header::parse(head) else { return };
    if header.body_len as usize != body.len() {
        return;
    }
    let sealed = header.seal(7, &[body]);
    let Ok(frame) = Frame::open(7, &sealed, body) else { return };
    if let Ok(rows) = frame.rows() {
        assert_eq!(rows.count, header.count);
        assert!(rows.id(rows.count - 1).is_some());
    }
    let _ = frame.labels();
});
