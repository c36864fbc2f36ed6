//! One event of a watch.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::pod_metadata::{InvalidObject, ObjectBody, PodMetadata};

/// The status of a request for changes whose version is too old.
pub(crate) const GONE: u16 = 410;

/// The longest message of the server that is kept, in characters.
const MESSAGE_CHARS_MAX: usize = 300;

/// One event of a watch. Versions are those from which later changes can be requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// A pod is new or was changed.
    Applied {
        /// The pod.
        pod: PodMetadata,
        /// The version of this change.
        version: Option<String>,
    },
    /// A pod is gone.
    Deleted {
        /// Its last state.
        pod: PodMetadata,
        /// The version of this change.
        version: Option<String>,
    },
    /// All changes up to a version were sent.
    Bookmark {
        /// The version.
        version: String,
    },
    /// The requested version is too old: the pods have to be listed again.
    Expired,
    /// The server ends the watch.
    Refused {
        /// The status, as of HTTP; 0 if there is none.
        code: u16,
        /// What the server says.
        message: String,
    },
}

#[derive(Deserialize)]
struct WatchEventBody<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// The object `Status`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct StatusBody {
    code: Option<u16>,
    reason: Option<String>,
    message: Option<String>,
}

impl WatchEvent {
    /// Decodes a line of a watch.
    ///
    /// # Errors
    /// [`InvalidObject`].
    pub fn decode(line: &[u8]) -> Result<Self, InvalidObject> {
        let WatchEventBody { kind, object } = serde_json::from_slice(line)?;
        if kind == "ERROR" {
            let (code, message) = refusal(object.get().as_bytes());
            return Ok(if code == GONE { Self::Expired } else { Self::Refused { code, message } });
        }
        let body = serde_json::from_str::<ObjectBody>(object.get())?.metadata.unwrap_or_default();
        let version = body.version();
        match &*kind {
            "ADDED" | "MODIFIED" => Ok(Self::Applied { pod: body.into_pod()?, version }),
            "DELETED" => Ok(Self::Deleted { pod: body.into_pod()?, version }),
            "BOOKMARK" => version.map(|version| Self::Bookmark { version }).ok_or(InvalidObject::Version),
            other => Err(InvalidObject::Type(other.chars().take(40).collect())),
        }
    }
}

/// The code and the message of an object `Status`, or 0 and the text if it is none.
pub(crate) fn refusal(body: &[u8]) -> (u16, String) {
    let status: StatusBody = serde_json::from_slice(body).unwrap_or_default();
    // "Expired" is what a list says whose pages are too old.
    let is_expired = matches!(status.reason.as_deref(), Some("Expired" | "Gone"));
    let code = if is_expired { GONE } else { status.code.unwrap_or_default() };
    let message = status.message.or(status.reason).unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    let shown = message.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    (code, shown.take(MESSAGE_CHARS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(line: &str) -> String {
        let of = |pod: PodMetadata, version: Option<String>| format!("{}@{}", pod.uid, version.unwrap_or_default());
        match WatchEvent::decode(line.as_bytes()) {
            Ok(WatchEvent::Applied { pod, version }) => format!("applied {}", of(pod, version)),
            Ok(WatchEvent::Deleted { pod, version }) => format!("deleted {}", of(pod, version)),
            Ok(WatchEvent::Bookmark { version }) => format!("bookmark {version}"),
            Ok(WatchEvent::Expired) => "expired".to_owned(),
            Ok(WatchEvent::Refused { code, message }) => format!("refused {code} {message}"),
            Err(InvalidObject::Json(_)) => "json".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn events_are_decoded() {
        let pod = r#""metadata":{"name":"p","namespace":"n","uid":"u","resourceVersion":"12"}"#;
        let check = |line: &str, want: &str| assert_eq!(show(line), want, "{line}");
        check(&format!(r#"{{"type":"ADDED","object":{{"kind":"Pod",{pod}}}}}"#), "applied u@12");
        check(&format!(r#"{{"object":{{{pod}}},"type":"MODIFIED"}}"#), "applied u@12");
        check(&format!(r#"{{"type":"DELETED","object":{{{pod}}},"more":[]}}"#), "deleted u@12");
        check(r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"13"}}}"#, "bookmark 13");
        check(r#"{"type":"BOOKMARK","object":{"metadata":{}}}"#, "no resourceVersion");
        check(r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}"#, "expired");
        check(r#"{"type":"ERROR","object":{"code":500,"message":"a\nb"}}"#, "refused 500 a b");
        check(r#"{"type":"ERROR","object":7}"#, "refused 0 7");
        check(&format!(r#"{{"type":"OTHER","object":{{{pod}}}}}"#), "an event of the type `OTHER`");
        check(r#"{"type":"ADDED","object":{}}"#, "a pod without name, namespace or id");
        for line in ["", "x", "{}", r#"{"type":"ADDED"}"#, r#"{"type":"ADDED","object":{"#, "[]"] {
            check(line, "json");
        }
    }
}
