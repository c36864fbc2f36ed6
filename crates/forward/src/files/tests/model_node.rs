//! A node that takes the batches of a send window, acknowledges, refuses, disconnects, and stores records by id.

use std::collections::BTreeMap;
use std::time::Duration;

use bucksaw_record::{Id, Labels};
use bucksaw_wire::{ClientMessage, DecodeProgress};

use crate::send_window::SendWindow;

/// A connection. It counts batches from 0, as the protocol does.
#[derive(Debug)]
struct ModelConnection {
    /// The window's number of the first batch.
    first: u64,
    received: u64,
    acked: u64,
}

#[derive(Debug, Default)]
pub(crate) struct ModelNode {
    connection: Option<ModelConnection>,
    pub(crate) stored: BTreeMap<Id, String>,
    /// The labels of the records.
    pub(crate) labels: BTreeMap<Id, Labels>,
    /// Acknowledges batches that it does not store: an injected bug.
    pub(crate) forgets: bool,
    /// Begins behind the first unacknowledged batch: an injected bug.
    pub(crate) skips_first: bool,
}

impl ModelNode {
    pub(crate) fn connect(&mut self, window: &SendWindow) {
        let first = window.first_batch() + u64::from(self.skips_first);
        self.connection.get_or_insert(ModelConnection { first, received: 0, acked: 0 });
    }

    /// What was sent and not acknowledged is sent again.
    pub(crate) fn disconnect(&mut self) {
        self.connection = None;
    }

    /// Takes the next batches of the window, at most `count`. Returns whether there were any.
    ///
    /// # Errors
    /// A batch that differs from one with the same ids.
    pub(crate) fn receive(&mut self, window: &SendWindow, count: usize) -> Result<bool, String> {
        let mut has_received = false;
        for _ in 0..count {
            let Some(connection) = &mut self.connection else { break };
            let number = connection.first + connection.received;
            if number < window.first_batch() {
                // Dropped batches: the connection's count cannot go on.
                self.connection = None;
                break;
            }
            let Some(batch) = window.batch(number) else { break };
            connection.received += 1;
            has_received = true;
            self.store(&batch.frame, &batch.labels, batch.records)?;
        }
        Ok(has_received)
    }

    fn store(&mut self, frame: &[u8], labels: &Labels, records: u32) -> Result<(), String> {
        let message = ClientMessage::decode(frame, u32::MAX).map_err(|error| format!("a batch is refused: {error}"))?;
        let DecodeProgress::Complete(ClientMessage::Batch(frame), _) = message else {
            return Err("no batch was sent".to_owned());
        };
        let rows = frame.rows().map_err(|error| format!("rows are refused: {error}"))?;
        let lines: Vec<&[u8]> = frame.text().split_inclusive(|byte| *byte == b'\n').collect();
        if rows.count != records || lines.len() != records as usize {
            return Err(format!("{records} records have {} rows and {} lines", rows.count, lines.len()));
        }
        for (row, line) in (0..).zip(lines) {
            let Some(id) = rows.id(row).filter(|_| !self.forgets) else { continue };
            let line = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(line)).into_owned();
            if let Some(before) = self.stored.insert(id, line.clone())
                && before != line
            {
                return Err(format!("one id has the lines {before:?} and {line:?}"));
            }
            if let Some(before) = self.labels.insert(id, labels.clone())
                && before != *labels
            {
                return Err(format!("one id has the labels {before} and {labels}"));
            }
        }
        Ok(())
    }

    /// Acknowledges up to `count` more of the received batches.
    pub(crate) fn acknowledge(&mut self, window: &SendWindow, count: u64, now: Duration) {
        let Some(connection) = &mut self.connection else { return };
        connection.acked = connection.acked.saturating_add(count).min(connection.received);
        window.acked(connection.first + connection.acked, now);
    }
}
