//! Compressed bodies that are invalid, or much larger than they seem.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::assert_healthy;
use crate::client::gzip;
use crate::node::TestServer;

const BOMB_BYTES: usize = 1 << 30;

fn framed_snappy(text: &[u8]) -> Vec<u8> {
    let mut packer = snap::write::FrameEncoder::new(Vec::new());
    packer.write_all(text).unwrap();
    packer.into_inner().unwrap()
}

/// Writes `count` zeros.
fn zeros(to: &mut impl std::io::Write, count: usize) {
    let zeros = vec![0; 1 << 20];
    (0..count >> 20).for_each(|_| to.write_all(&zeros).unwrap());
}

fn post(node: &TestServer, encoding: &str, body: &[u8]) -> (u16, String) {
    let answer = node.post("/api/v1/ingest?label=from=bodies", &[("Content-Encoding", encoding)], body);
    (answer.status, answer.text())
}

#[test]
fn bombs_are_cut_off() {
    let mut node = TestServer::start(&["--retention-bytes", "1GB"]);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    zeros(&mut gzip, BOMB_BYTES);
    let gzip = gzip.finish().unwrap();
    let mut zstd = zstd::Encoder::new(Vec::new(), 1).unwrap();
    zeros(&mut zstd, BOMB_BYTES);
    let zstd = zstd.finish().unwrap();
    for (encoding, bomb) in [("gzip", gzip), ("zstd", zstd)] {
        assert!(bomb.len() < BOMB_BYTES / 100, "{encoding}: a bomb of {} bytes", bomb.len());
        let (status, text) = post(&node, encoding, &bomb);
        assert_eq!(status, 413, "{encoding}: {text}");
        assert!(text.contains("the decompressed body exceeds 268435456 bytes"), "{encoding}: {text}");
        assert_healthy(&mut node);
    }
}

#[test]
fn a_zstd_body_with_a_large_window_is_refused() {
    let mut node = TestServer::start(&[]);
    let mut packer = zstd::Encoder::new(Vec::new(), 1).unwrap();
    packer.window_log(27).unwrap();
    zeros(&mut packer, 200 << 20);
    let (status, text) = post(&node, "zstd", &packer.finish().unwrap());
    assert_eq!(status, 400, "{text}");
    assert_eq!(node.count("from=bodies"), 0);
    // The window of the highest ordinary level is accepted.
    let ordinary = zstd::bulk::compress(b"a line\n", 19).unwrap();
    assert_eq!(post(&node, "zstd", &ordinary).0, 200);
    assert_eq!(node.count("from=bodies"), 1);
    assert_healthy(&mut node);
}

#[test]
fn nothing_of_a_truncated_body_is_stored() {
    let mut node = TestServer::start(&[]);
    let text: Vec<u8> = (0..2_000).flat_map(|line| format!("line {line} of a text\n").into_bytes()).collect();
    let snappy_block = snap::raw::Encoder::new().compress_vec(&text).unwrap();
    let bodies = [
        ("gzip", gzip(&text)),
        ("zstd", zstd::bulk::compress(&text, 1).unwrap()),
        ("snappy", snappy_block),
        ("snappy", framed_snappy(&text)),
    ];
    for (encoding, body) in &bodies {
        for length in [body.len() - 1, body.len() / 2, 15] {
            let (status, said) = post(&node, encoding, &body[..length]);
            assert_eq!(status, 400, "{encoding}, {length} of {} bytes: {said}", body.len());
            assert_eq!(node.count("from=bodies"), 0, "{encoding}, {length} of {} bytes", body.len());
        }
    }
    for encoding in ["gzip", "zstd", "snappy"] {
        assert_eq!(post(&node, encoding, b"this is not packed at all\n").0, 400, "{encoding}");
    }
    for (times, (encoding, body)) in (1..).zip(&bodies) {
        assert_eq!(post(&node, encoding, body).0, 200, "{encoding}");
        assert_eq!(node.count("from=bodies"), 2_000 * times, "{encoding}");
    }
    assert_healthy(&mut node);
}

#[test]
fn a_snappy_body_with_a_wrong_length_is_refused() {
    let mut node = TestServer::start(&[]);
    // The length comes first, seven bits per byte.
    let lying = |length: &[u8]| [length, b"\x0cabcd"].concat();
    let cases = [
        (lying(b"\x80\xda\xc4\x09"), 400, "20 million, for which there is memory"),
        (lying(b"\xff\xff\xff\x7f"), 413, "268 million, for which there is none"),
        (lying(b"\xff\xff\xff\xff\x0f"), 413, "4 thousand million"),
        (lying(b"\xff\xff\xff\xff\xff\xff\x7f"), 400, "no length at all"),
        (lying(b"\x02"), 400, "less than comes"),
    ];
    for (body, want, name) in cases {
        let (status, text) = post(&node, "snappy", &body);
        assert_eq!(status, want, "{name}: {text}");
        assert_eq!(node.count("from=bodies"), 0, "{name}");
    }
    assert_healthy(&mut node);
}
