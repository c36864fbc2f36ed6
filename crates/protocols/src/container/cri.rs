//! The format of the container runtime interface, as in `pkg/kubelet/kuberuntime/logs` of Kubernetes.
//!
//! ```text
//!   line   = time " " stream " " tags " " text
//!   time   = RFC 3339, up to nanoseconds
//!   stream = "stdout" | "stderr"
//!   tags   = ("P" | "F") {":" tag}
//! ```

use memchr::memchr;

use super::line::{DecodedParts, OutputStream};
use super::runtime_times::RuntimeTimes;

/// Bytes in which a time and a list of tags end.
const FIELD_BYTES_MAX: usize = 64;

/// Reads a line; `None` if it is not in the format.
pub(super) fn read<'a>(line: &'a [u8], times: &mut RuntimeTimes) -> Option<DecodedParts<'a>> {
    let (time, rest) = field(line)?;
    let (stream, rest) = match rest.strip_prefix(b"stdout ") {
        Some(rest) => (OutputStream::Stdout, rest),
        None => (OutputStream::Stderr, rest.strip_prefix(b"stderr ")?),
    };
    let (tags, text) = field(rest)?;
    let is_partial = match tags {
        [b'F'] | [b'F', b':', ..] => false,
        [b'P'] | [b'P', b':', ..] => true,
        _ => return None,
    };
    Some(DecodedParts { time: times.read(time)?, stream, text: Some(text), is_partial })
}

/// The text before the first space, and what is behind it.
fn field(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr(b' ', text.get(..FIELD_BYTES_MAX).unwrap_or(text))?;
    Some((text.get(..end)?, text.get(end + 1..)?))
}
