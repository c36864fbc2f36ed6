//! What the query of a URL states of all logs of a request.

use crate::query_pairs::query_pairs;

/// The values for logs that do not state them. Empty if the query does not either.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatadogDefaults {
    /// The integration, such as `nginx`.
    pub source: String,
    /// The tags, such as `env:prod,team:shop`. They are added to the tags of a log.
    pub tags: String,
    /// The host.
    pub hostname: String,
    /// The service.
    pub service: String,
}

impl DatadogDefaults {
    /// Reads the query of a URL, without the `?`. Other parameters are ignored.
    pub fn from_query(query: &str) -> Self {
        let mut defaults = Self::default();
        for (name, value) in query_pairs(query) {
            match &*name {
                "ddsource" => defaults.source = value.into_owned(),
                "ddtags" => defaults.tags = value.into_owned(),
                "hostname" | "host" => defaults.hostname = value.into_owned(),
                "service" => defaults.service = value.into_owned(),
                _ => {}
            }
        }
        defaults
    }
}
