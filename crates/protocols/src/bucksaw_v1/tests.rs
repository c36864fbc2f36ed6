//! Messages are those of `prost`, with types that follow the published `.proto`.

use std::collections::BTreeMap;

use bucksaw_fixtures::service_messages::{
    ServiceAttribute, ServiceBatch, ServiceBatchReply, ServiceFoundRecord, ServiceQueryReply, ServiceRecord,
    ServiceSearch, ServiceStatistics,
};
use bucksaw_record::{Labels, Millis};
use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::{Discard, Event, EventError, EventSink};

/// Events as the messages that they came from.
#[derive(Default)]
struct CollectedEvents(Vec<(Labels, ServiceRecord)>);

impl EventSink for CollectedEvents {
    fn push(&mut self, labels: &Labels, event: &Event<'_>) -> Result<(), EventError> {
        let attributes = event.attributes.iter();
        let attributes =
            attributes.map(|(name, value)| ServiceAttribute { name: name.to_owned(), value: value.to_vec() }).collect();
        let time_unix_nano = event.time.map_or(0, |(Millis(ms), nanos)| ms * 1_000_000 + u64::from(nanos));
        self.0.push((labels.clone(), ServiceRecord { time_unix_nano, line: event.line.to_vec(), attributes }));
        Ok(())
    }
}

prop_compose! {
    fn any_attribute()(name in "[a-z.]{1,8}", value in prop::collection::vec(any::<u8>(), 0..20)) -> ServiceAttribute {
        ServiceAttribute { name, value }
    }
}

prop_compose! {
    fn any_record()(
        time_unix_nano: u64,
        line in prop::collection::vec(any::<u8>(), 0..200),
        attributes in prop::collection::vec(any_attribute(), 0..4),
    ) -> ServiceRecord {
        ServiceRecord { time_unix_nano, line, attributes }
    }
}

prop_compose! {
    fn any_batch()(
        sequence: u64,
        idempotency_key in "\\PC{0,30}",
        durability in 0..4_i32,
        labels in prop::collection::btree_map("[a-z]{1,5}", "\\PC{0,10}", 0..4),
        records in prop::collection::vec(any_record(), 0..6),
    ) -> ServiceBatch {
        ServiceBatch { sequence, idempotency_key, durability, labels, records }
    }
}

proptest! {
    #[test]
    fn batches_are_read_as_prost_writes_them(batch in any_batch()) {
        let bytes = batch.encode_to_vec();
        let head = BatchHead::read(&bytes).unwrap();
        let labels = Labels::new(batch.labels.clone()).unwrap();
        prop_assert_eq!((head.sequence, head.durability), (batch.sequence, batch.durability as u64));
        prop_assert_eq!(BatchHead::sequence_of(&bytes), batch.sequence);
        prop_assert_eq!((&head.key, &head.labels), (&batch.idempotency_key.clone().into_bytes(), &labels));
        let mut sink = CollectedEvents::default();
        let decoded = decode_records(&bytes, &head.labels, &mut sink).unwrap();
        prop_assert_eq!((decoded.accepted, decoded.rejected), (batch.records.len() as u64, 0));
        let want = batch.records.into_iter().map(|mut record| {
            while record.line.last().is_some_and(|last| b"\r\n".contains(last)) {
                record.line.pop();
            }
            (labels.clone(), record)
        });
        prop_assert_eq!(sink.0, want.collect::<Vec<_>>());
    }

    #[test]
    fn written_batches_are_read_by_prost(batch in any_batch()) {
        let (key, labels) = (batch.idempotency_key.clone().into_bytes(), Labels::new(batch.labels.clone()).unwrap());
        let head = BatchHead {
            sequence: batch.sequence, key, durability: batch.durability as u64, labels, records: batch.records.len() as u64
        };
        let (mut writer, mut want) = (BatchWriter::new(&head, 100), batch);
        // A label without a value is none.
        want.labels.retain(|_, value| !value.is_empty());
        for record in &mut want.records {
            record.attributes.clear();
            writer.push(record.time_unix_nano, &record.line);
        }
        prop_assert_eq!(ServiceBatch::decode(writer.finish().as_slice()).unwrap(), want);
    }

    #[test]
    fn damaged_batches_are_refused_before_a_record_is_taken(batch in any_batch(), at: prop::sample::Index, byte: u8) {
        let mut bytes = batch.encode_to_vec();
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let of_prost = ServiceBatch::decode(bytes.as_slice());
        match BatchHead::read(&bytes) {
            Ok(head) => {
                let decoded = decode_records(&bytes, &head.labels, &mut Discard).unwrap();
                prop_assert_eq!(decoded.accepted + decoded.rejected, head.records);
                if let Ok(of_prost) = of_prost {
                    prop_assert_eq!((head.records, head.sequence), (of_prost.records.len() as u64, of_prost.sequence));
                }
            }
            Err(BatchError::Protobuf(error)) => prop_assert!(of_prost.is_err(), "prost reads it: {error}"),
            // Labels and keys have rules of their own.
            Err(_) => {}
        }
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let _ = BatchHead::read(&bytes);
        let _ = decode_records(&bytes, &Labels::default(), &mut Discard);
        let _ = SearchRequest::read(&bytes);
    }

    #[test]
    fn replies_are_read_by_prost(
        (sequence, accepted, rejected, code) in any::<(u64, u64, u64, u32)>(),
        (first_error, message) in ("\\PC{0,20}", "\\PC{0,20}"),
        retry_after_s in prop::option::of(any::<u32>()),
    ) {
        let reply = BatchReply {
            sequence, accepted, rejected, first_error: first_error.clone(), code, message: message.clone(), retry_after_s
        };
        let want = ServiceBatchReply {
            sequence, accepted, rejected, first_error, code, message,
            retry: retry_after_s.is_some(),
            retry_after_seconds: retry_after_s.unwrap_or_default(),
        };
        prop_assert_eq!(ServiceBatchReply::decode(reply.protobuf().as_slice()).unwrap(), want);
        prop_assert_eq!(BatchReply::read(&reply.protobuf()).unwrap(), reply);
    }

    #[test]
    fn requests_are_read_as_prost_writes_them(
        expression in prop::collection::vec(any::<u8>(), 0..30),
        (from, to, time_zone, after) in ("\\PC{0,9}", "\\PC{0,9}", "\\PC{0,9}", "\\PC{0,9}"),
        (limit, order) in (any::<u64>(), 0..3_i32),
    ) {
        let bytes = ServiceSearch {
            expression: expression.clone(), from: from.clone(), to: to.clone(), time_zone: time_zone.clone(), limit, order,
            after: after.clone(),
        };
        let want = SearchRequest {
            expression, from: from.into_bytes(), to: to.into_bytes(), time_zone: time_zone.into_bytes(), limit,
            order: order as u64, after: after.into_bytes(),
        };
        prop_assert_eq!(SearchRequest::read(&bytes.encode_to_vec()).unwrap(), want);
    }

    #[test]
    fn records_and_statistics_are_read_by_prost(
        records in prop::collection::vec((any_record(), "[0-9a-f]{0,32}", any::<bool>(), any::<bool>(), any_batch()), 0..4),
        (matched, partial) in any::<(u64, bool)>(),
        texts in prop::collection::vec("\\PC{1,10}", 0..3),
    ) {
        let (mut bytes, mut want) = (Vec::new(), ServiceQueryReply::default());
        for (ServiceRecord { time_unix_nano, line, attributes }, id, cut, unterminated, batch) in records {
            let labels: Vec<(&str, &str)> = batch.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let values: Vec<(&str, &[u8])> =
                attributes.iter().map(|attribute| (attribute.name.as_str(), attribute.value.as_slice())).collect();
            let parts = RecordParts {
                id: &id, time_unix_nano, labels: &labels, line: &line, attributes: &values, is_cut: cut, is_unterminated: unterminated,
            };
            write_record(&mut bytes, 1, &parts);
            let labels = batch.labels.clone();
            want.records.push(ServiceFoundRecord { id: id.clone(), time_unix_nano, labels, line: line.clone(), attributes: attributes.clone(), cut, unterminated });
        }
        let reasons = partial.then_some(texts.as_slice());
        write_statistics(&mut bytes, 2, matched, reasons, &texts, "{}");
        want.statistics = Some(ServiceStatistics {
            matched, partial, partial_reasons: reasons.unwrap_or_default().to_vec(), hints: texts.clone(), json: "{}".to_owned(),
        });
        prop_assert_eq!(ServiceQueryReply::decode(bytes.as_slice()).unwrap(), want);
    }
}

#[test]
fn records_with_invalid_names_are_refused_alone() {
    let record = |name: &[u8]| {
        let mut attribute = vec![0x0a, name.len() as u8];
        attribute.extend_from_slice(name);
        let mut record = vec![0x12, 1, b'x', 0x1a, attribute.len() as u8];
        record.extend_from_slice(&attribute);
        let mut field = vec![0x2a, record.len() as u8];
        field.extend_from_slice(&record);
        field
    };
    let batch = [record(b"ok"), record(b"\xff"), record(b""), record(b"fine")].concat();
    assert_eq!(BatchHead::read(&batch).unwrap().records, 4);
    let decoded = decode_records(&batch, &Labels::default(), &mut Discard).unwrap();
    assert_eq!((decoded.accepted, decoded.rejected), (2, 2));
    assert!(decoded.first_error.unwrap().contains("UTF-8"));
}

#[test]
fn heads_that_break_a_rule_are_refused() {
    let read = |batch: ServiceBatch| BatchHead::read(&batch.encode_to_vec()).unwrap_err().to_string();
    let key = "k".repeat(257);
    assert!(read(ServiceBatch { idempotency_key: key, ..ServiceBatch::default() }).contains("256"));
    let labels = (0..65).map(|at| (format!("l{at}"), "x".to_owned())).collect();
    assert!(read(ServiceBatch { labels, ..ServiceBatch::default() }).contains("more than 64 labels"));
    let labels = BTreeMap::from([("a b".to_owned(), "x".to_owned())]);
    assert!(read(ServiceBatch { labels, ..ServiceBatch::default() }).contains("labels: "));
}
