//! Messages of Kafka: plain and JSON values, with the input as value, key and headers.
#![no_main]
use bucksaw_protocols::Discard;
use bucksaw_protocols::json::JsonNames;
use bucksaw_protocols::kafka::{KafkaDecoder, KafkaFormat, KafkaMapping, KafkaMessage};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let (first, rest) = data.split_at(data.len().min(8));
    let number = first.iter().fold(0, |number, byte| number << 8 | i64::from(*byte));
    let texts: Vec<&str> = rest.utf8_chunks().map(|chunk| chunk.valid()).collect();
    let headers: Vec<(&str, Option<&[u8]>)> = texts.iter().map(|text| (*text, (number & 1 == 0).then_some(first))).collect();
    for message_field in ["", "m,a.b"] {
        let json = KafkaFormat::Json(JsonNames::new("", message_field, "l,c.d"));
        for format in [KafkaFormat::Plain, json] {
            let mapping = KafkaMapping {
                format,
                key_label: (number & 2 == 0).then(|| "k".to_owned()),
                label_headers: vec!["h".to_owned()],
                with_position: number & 4 == 0,
            };
            let message = KafkaMessage {
                partition: number as i32,
                offset: number,
                timestamp: Some(number),
                key: Some(first),
                value: (number & 8 == 0).then_some(rest),
                headers: &headers,
                has_unreadable_headers: number & 16 == 0,
            };
            KafkaDecoder::new(mapping, "t").message(&message, &mut Discard);
        }
    }
});
