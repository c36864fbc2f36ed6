//! Messages with records, `QueryReply` and `TailReply`, and their statistics.

use std::ops::ControlFlow;

use bucksaw_protocols::bucksaw_v1::{RecordParts, write_record, write_statistics};
use bucksaw_query::{RecordRef, RecordSink, SinkClosed};
use bucksaw_record::Flags;
use bytes::Bytes;
use serde_json::Value;

use crate::grpc::{begin_message, end_message};
use crate::permits::QueryPermit;
use crate::stream::StreamSender;

/// Size at which a message is sent. With a record of a MiB it is far below the limit of clients, mostly 4 MiB.
const MESSAGE_BYTES: usize = 64 << 10;

/// The number of the field with records.
const RECORDS: u32 = 1;

/// Collects records in one message.
#[derive(Debug, Default)]
pub(super) struct RecordMessage(Vec<u8>);

impl RecordMessage {
    /// Adds a record; returns whether the message should be sent.
    pub(super) fn push(&mut self, record: RecordRef<'_>) -> bool {
        if self.0.is_empty() {
            self.0.reserve(MESSAGE_BYTES + MESSAGE_BYTES / 8);
            begin_message(&mut self.0);
        }
        let labels: Vec<(&str, &str)> = record.labels.iter().collect();
        let attributes: Vec<(&str, &[u8])> = record.view.attributes().into_iter().collect();
        let ms = record.id.time().0;
        let parts = RecordParts {
            id: &record.id.to_string(),
            time_unix_nano: ms.saturating_mul(1_000_000).saturating_add(u64::from(record.nanos)),
            labels: &labels,
            line: record.view.line(),
            attributes: &attributes,
            is_cut: record.flags & Flags::CUT != 0,
            is_unterminated: record.flags & Flags::UNTERMINATED != 0,
        };
        write_record(&mut self.0, RECORDS, &parts);
        self.0.len() >= MESSAGE_BYTES
    }

    /// The message with its prefix, if it has records.
    pub(super) fn take(&mut self) -> Option<Bytes> {
        let message = std::mem::take(&mut self.0);
        (!message.is_empty()).then(|| end_message(message))
    }
}

/// Writes the records of an answer to a client.
pub(super) struct RecordMessageSink {
    sender: StreamSender,
    permit: QueryPermit,
    message: RecordMessage,
}

impl RecordMessageSink {
    pub(super) fn new(sender: StreamSender, permit: QueryPermit) -> Self {
        Self { sender, permit, message: RecordMessage::default() }
    }
}

impl RecordSink for RecordMessageSink {
    fn push(&mut self, record: RecordRef<'_>) -> ControlFlow<()> {
        if self.message.push(record) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    async fn flush(&mut self) -> Result<(), SinkClosed> {
        match self.message.take() {
            Some(message) => self.permit.send_async(&self.sender, self.sender.record_frames(message)).await,
            None => Ok(()),
        }
    }

    fn flush_blocking(&mut self, release_memory: &mut dyn FnMut()) -> Result<(), SinkClosed> {
        match self.message.take() {
            Some(message) => self.permit.send(&self.sender, self.sender.record_frames(message), release_memory),
            None => Ok(()),
        }
    }

    fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        self.sender.closed()
    }
}

/// Appends rendered statistics as a field with this number.
pub(super) fn push_statistics(out: &mut Vec<u8>, number: u32, stats: &Value) {
    let texts = |name: &str| -> Vec<String> {
        let texts = stats.get(name).and_then(Value::as_array).into_iter().flatten();
        texts.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let matched = stats.get("matched").and_then(Value::as_u64).unwrap_or_default();
    let is_partial = stats.get("partial").and_then(Value::as_bool).unwrap_or(true);
    let reasons = is_partial.then(|| texts("partial_reasons"));
    write_statistics(out, number, matched, reasons.as_deref(), &texts("hints"), &stats.to_string());
}
