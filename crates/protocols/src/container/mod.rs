//! Log files that container runtimes write: a line of a container with its time and its output stream.
//!
//! ```text
//!   CRI      2026-11-24T22:40:04.123456789Z stderr F the line
//!   Docker   {"log":"the line\n","stream":"stderr","time":"2026-11-24T22:40:04.123456789Z"}
//! ```
//! - CRI is the format of containerd and CRI-O: time, stream, tags, text. The first tag is `F` if the line ends here, and `P` if
//!   the next text of the stream continues it.
//! - Docker's driver `json-file` writes an object for each line. A `log` without a line end at its end is continued by the next
//!   one of the stream. The driver's options `tag`, `labels` and `env` add `attrs`.
//!
//! Runtimes cut lines at 16 KiB. [`ContainerDecoder`] decodes one line of a file; who calls it joins the parts. Docker's canonical
//! form is read in place. All other objects take a JSON reader, which accepts members in any order.
//!
//! ```
//! use bucksaw_protocols::container::{ContainerDecoder, ContainerFormat, OutputStream};
//!
//! let mut decoder = ContainerDecoder::default();
//! let line = br#"{"log":"say \"hi\"\n","stream":"stderr","time":"2023-11-14T22:13:20.5Z"}"#;
//! let decoded = decoder.decode(ContainerFormat::Any, line).unwrap();
//! assert_eq!((decoded.text, decoded.is_partial), (&b"say \"hi\""[..], false));
//! assert_eq!((decoded.time.0.0, decoded.stream), (1_700_000_000_500, OutputStream::Stderr));
//! assert!(decoder.decode(ContainerFormat::Any, b"no log of a container").is_none());
//! ```

mod cri;
mod decoder;
mod docker;
mod json_string;
mod line;
mod runtime_times;
#[cfg(test)]
mod tests;

pub use decoder::{ContainerDecoder, ContainerFormat};
pub use line::{ContainerLine, OutputStream};
