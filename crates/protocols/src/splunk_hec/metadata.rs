//! What the query of a URL states of all events of a request.

use bucksaw_record::Millis;
use bucksaw_record::time::event_time_number;

use crate::query_pairs::query_pairs;

/// The values for events that do not state them. Empty if the query does not either.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HecMetadata {
    /// The host.
    pub host: String,
    /// The file or the input.
    pub source: String,
    /// The kind of text.
    pub sourcetype: String,
    /// The index.
    pub index: String,
    /// The time: milliseconds, and nanoseconds below.
    pub time: Option<(Millis, u32)>,
}

impl HecMetadata {
    /// Reads the query of a URL, without the `?`. Other parameters, such as `channel`, are ignored, and so is a time that
    /// is not a number of seconds since 1970.
    pub fn from_query(query: &str) -> Self {
        let mut metadata = Self::default();
        for (name, value) in query_pairs(query) {
            match &*name {
                "host" => metadata.host = value.into_owned(),
                "source" => metadata.source = value.into_owned(),
                "sourcetype" => metadata.sourcetype = value.into_owned(),
                "index" => metadata.index = value.into_owned(),
                "time" => metadata.time = event_time_number(&value),
                _ => {}
            }
        }
        metadata
    }
}
