//! The part of Elasticsearch's HTTP API that log senders use: `_bulk`, and the requests before it.
//!
//! [`route`] recognises a bulk request and answers all others, [`BulkDecoder`] turns a bulk body into events, and
//! [`BulkReply`] states the result of each operation. A document stays the line byte for byte: it is scanned for a few
//! members, and not parsed into a tree. The mapping is in `docs/senders/elasticsearch.md`.
//!
//! ```
//! use bucksaw_protocols::elasticsearch::{BulkDecoder, ElasticRequest, route};
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
//! let ElasticRequest::Bulk { index } = route("POST", "/logs-web/_bulk") else { panic!() };
//! let body = b"{\"create\":{}}\n{\"message\": \"hello\"}\n{\"delete\":{\"_id\":\"1\"}}\n";
//! let mut sink = Lines::default();
//! let reply = BulkDecoder::new(&Labels::default()).decode(body, &index, &mut sink).unwrap();
//! assert_eq!(sink.0, ["index=logs-web: {\"message\": \"hello\"}"]);
//! assert_eq!((reply.accepted(), reply.refused()), (1, 1));
//! assert!(reply.body(3).starts_with(b"{\"took\":3,\"errors\":true,\"items\":[{\"create\":{\"_index\":\"logs-web\","));
//! ```

mod answers;
mod bulk;
mod document;
mod error;
mod operations;
mod reply;

pub use answers::{API_VERSION, ElasticRequest, PRODUCT_HEADER, route};
pub use bulk::BulkDecoder;
pub use error::ElasticError;
pub use reply::BulkReply;

#[cfg(test)]
mod tests;
