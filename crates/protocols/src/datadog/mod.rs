//! The logs API of Datadog: arrays of JSON objects, as the Datadog Agent, Vector and others send them.
//!
//! [`route`] classifies a request, [`DatadogDecoder`] turns a body into events; [`accepted`] and [`DatadogError::answer`] are
//! the answers.
//! The mapping is in `docs/senders/datadog.md`.
//!
//! ```
//! use bucksaw_protocols::datadog::{DatadogDecoder, DatadogDefaults, accepted};
//! use bucksaw_protocols::{Event, EventError, EventSink};
//! use bucksaw_record::Labels;
//!
//! #[derive(Default)]
//! struct Lines(Vec<String>);
//! impl EventSink for Lines {
//!     fn push(&mut self, labels: &Labels, event: &Event<'_>) -> Result<(), EventError> {
//!         self.0.push(format!("{labels}: {}", String::from_utf8_lossy(event.line)));
//!         Ok(())
//!     }
//! }
//!
//! let mut decoder = DatadogDecoder::new(&Labels::default(), DatadogDefaults::default());
//! let mut sink = Lines::default();
//! let body = br#"[{"message":"hello","service":"shop","hostname":"web1","ddsource":"java","ddtags":"env:prod"}]"#;
//! let answer = match decoder.logs(body, &mut sink) {
//!     Ok(_) => accepted(),
//!     Err(error) => error.answer(),
//! };
//! assert_eq!(sink.0, ["env=prod,host.name=web1,service.name=shop,source=java: hello"]);
//! assert_eq!((answer.status, &*answer.body), (202, "{}"));
//! ```

mod answers;
mod decoder;
mod defaults;
mod error;

pub use answers::{DatadogRequest, accepted, refused, route};
pub use decoder::DatadogDecoder;
pub use defaults::DatadogDefaults;
pub use error::DatadogError;

#[cfg(test)]
mod tests;
