//! What the sender of a request gets back.

use serde::Serialize;

use crate::Decoded;
use crate::protobuf::{write_bytes, write_varint};

/// The type of the detail that has the delay of a retry.
const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";

/// An `ExportLogsServiceResponse`: the answer to a request that was decoded. It states how many records were refused.
#[derive(Clone, Copy, Debug)]
pub struct ExportAnswer<'a>(pub &'a Decoded);

impl ExportAnswer<'_> {
    /// The answer to a protobuf request. Empty if no record was refused.
    pub fn protobuf(&self) -> Vec<u8> {
        let (mut partial, mut out) = (Vec::new(), Vec::new());
        if self.0.rejected > 0 {
            write_varint(&mut partial, 1, self.0.rejected);
            write_bytes(&mut partial, 2, self.message().as_bytes());
        }
        write_bytes(&mut out, 1, &partial);
        out
    }

    /// The answer to a JSON request. An object without members if no record was refused.
    pub fn json(&self) -> Vec<u8> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct PartialSuccess<'a> {
            rejected_log_records: String,
            error_message: &'a str,
        }
        if self.0.rejected == 0 {
            return b"{}".to_vec();
        }
        // An int64 is a string in the JSON of protobuf.
        let partial =
            PartialSuccess { rejected_log_records: self.0.rejected.to_string(), error_message: self.message() };
        let mut out = br#"{"partialSuccess":"#.to_vec();
        // A text and a number always have a JSON form.
        let _ = serde_json::to_writer(&mut out, &partial);
        out.push(b'}');
        out
    }

    fn message(&self) -> &str {
        self.0.first_error.as_deref().unwrap_or_default()
    }
}

/// A `google.rpc.Status`: the answer to a request that is refused as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpStatus {
    /// The status code of gRPC.
    pub code: i32,
    /// What was wrong and what to do.
    pub message: String,
    /// Seconds after which the sender may try again, as the detail `google.rpc.RetryInfo`.
    pub retry_after_s: Option<u32>,
}

impl OtlpStatus {
    /// The encoded status: the body of an answer to a protobuf request, or the details of a status of gRPC.
    pub fn protobuf(&self) -> Vec<u8> {
        let mut out = Vec::new();
        // Negative numbers take ten bytes, as protobuf extends the sign.
        write_varint(&mut out, 1, i64::from(self.code) as u64);
        write_bytes(&mut out, 2, self.message.as_bytes());
        if let Some(seconds) = self.retry_after_s {
            let (mut delay, mut info, mut any) = (Vec::new(), Vec::new(), Vec::new());
            write_varint(&mut delay, 1, u64::from(seconds));
            write_bytes(&mut info, 1, &delay);
            write_bytes(&mut any, 1, RETRY_INFO.as_bytes());
            write_bytes(&mut any, 2, &info);
            write_bytes(&mut out, 3, &any);
        }
        out
    }

    /// The body of an answer to a JSON request.
    pub fn json(&self) -> Vec<u8> {
        let mut out = format!(r#"{{"code":{},"message":"#, self.code).into_bytes();
        // A text always has a JSON form.
        let _ = serde_json::to_writer(&mut out, &self.message);
        if let Some(seconds) = self.retry_after_s {
            let details = format!(r#","details":[{{"@type":"{RETRY_INFO}","retryDelay":"{seconds}s"}}]"#);
            out.extend_from_slice(details.as_bytes());
        }
        out.push(b'}');
        out
    }
}
