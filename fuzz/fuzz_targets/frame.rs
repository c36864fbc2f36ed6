//! Frames from disk or wire: the rows of an accepted frame agree with its header.
#![no_main]
use bucksaw_segment::{Frame, FrameHeader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((head, body)) = data.split_first_chunk::<{ FrameHeader::LEN }>() else { return };
    // A new checksum lets the fuzzer reach the code behind the check.
    let Ok(header) = FrameHeader::parse(head) else { return };
    if header.body_len as usize != body.len() {
        return;
    }
    let encoded = header.encode(7, &[body]);
    let Ok(frame) = Frame::open(7, &encoded, body) else { return };
    if let Ok(rows) = frame.rows() {
        assert_eq!(rows.count, header.count);
        assert!(rows.id(rows.count - 1).is_some());
    }
    let _ = frame.labels();
});
