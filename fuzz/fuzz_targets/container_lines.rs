//! Lines of container logs: decoded or refused. What Docker's fast reader accepts is what a JSON reader reads.
#![no_main]
use bucksaw_protocols::container::{ContainerDecoder, ContainerFormat};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut decoder = ContainerDecoder::default();
    for line in data.split(|byte| *byte == b'\n') {
        for format in [ContainerFormat::Any, ContainerFormat::Cri, ContainerFormat::Docker] {
            let Some(decoded) = decoder.decode(format, line) else { continue };
            assert!(decoded.text.len() <= line.len());
            assert!(decoded.attributes.len() <= 128);
            if !line.starts_with(b"{") {
                continue;
            }
            let json: serde_json::Value = serde_json::from_slice(line).unwrap();
            let log = json["log"].as_str().unwrap().as_bytes();
            assert_eq!(decoded.text, log.strip_suffix(b"\n").unwrap_or(log));
            assert_eq!((decoded.is_partial, json["stream"].as_str()), (!log.ends_with(b"\n"), Some(decoded.stream.name())));
        }
    }
});
