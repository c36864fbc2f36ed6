//! The logs API of Datadog: arrays of JSON objects, as the Datadog Agent, Vector and others send them.
//!
//! [`route`] tells what a request is, [`DatadogDecoder`] turns a body into events, and [`DatadogAnswer`] states the outcome.
//! The mapping is in `docs/senders/datadog.md`.
//!
//! ```
//! use bucksaw_protocols::datadog::{DatadogAnswer, DatadogDecoder, DatadogDefaults};
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
//!     Ok(_) => DatadogAnswer::accepted(),
//!     Err(error) => DatadogAnswer::from(&error),
//! };
//! assert_eq!(sink.0, ["app=shop,env=prod,host=web1,source=java: hello"]);
//! assert_eq!((answer.status, &*answer.body), (202, "{}"));
//! ```

mod answers;
mod decoder;
mod defaults;
mod error;

pub use answers::{DatadogAnswer, DatadogRequest, route};
pub use decoder::DatadogDecoder;
pub use defaults::DatadogDefaults;
pub use error::DatadogError;

#[cfg(test)]
mod tests;
