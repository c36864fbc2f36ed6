//! Numbers the streams of a segment in the order of their first use.

use std::collections::HashMap;

use bucksaw_record::Labels;

/// Streams, each with its number.
#[derive(Debug, Default)]
pub(super) struct StreamTable {
    streams: Vec<Labels>,
    numbers: HashMap<Labels, u32>,
}

impl StreamTable {
    /// The number of a stream, which is the next one if the stream is new.
    pub(super) fn number(&mut self, labels: &Labels) -> u32 {
        if let Some(number) = self.numbers.get(labels) {
            return *number;
        }
        let number = self.streams.len() as u32;
        self.streams.push(labels.clone());
        self.numbers.insert(labels.clone(), number);
        number
    }

    /// The streams by number.
    pub(super) fn into_streams(self) -> Vec<Labels> {
        self.streams
    }
}
