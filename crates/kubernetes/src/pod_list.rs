//! One page of a list of pods.

use serde::Deserialize;

use crate::pod_metadata::{InvalidObject, MetadataBody, ObjectBody, PodMetadata};

/// The longest page of a list, in bytes.
pub const LIST_BYTES_MAX: usize = 16 << 20;

/// One page of a list of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodPage {
    /// The pods.
    pub pods: Vec<PodMetadata>,
    /// The objects that are no pods.
    pub unreadable: u64,
    /// The version of the list, from which changes can be requested.
    pub version: String,
    /// With what the next page is requested; `None` if this is the last one.
    pub next: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ListBody {
    metadata: Option<MetadataBody>,
    items: Option<Vec<ObjectBody>>,
}

impl PodPage {
    /// Decodes a page.
    ///
    /// # Errors
    /// [`InvalidObject`].
    pub fn decode(body: &[u8]) -> Result<Self, InvalidObject> {
        let ListBody { metadata, items } = serde_json::from_slice(body)?;
        let metadata = metadata.unwrap_or_default();
        let version = metadata.version().ok_or(InvalidObject::Version)?;
        let mut page =
            Self { version, next: metadata.continue_token.filter(|token| !token.is_empty()), ..Self::default() };
        for item in items.unwrap_or_default() {
            match item.metadata.unwrap_or_default().into_pod() {
                Ok(pod) => page.pods.push(pod),
                Err(_) => page.unreadable += 1,
            }
        }
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_decoded() {
        let page = PodPage::decode(
            br#"{"kind":"PodList","metadata":{"resourceVersion":"9","continue":"c"},"items":[
            {"metadata":{"name":"p","namespace":"n","uid":"u"}},{"metadata":{}},{}]}"#,
        )
        .unwrap();
        assert_eq!((page.pods.len(), page.unreadable, page.version.as_str()), (1, 2, "9"));
        assert_eq!(page.next.as_deref(), Some("c"));
        let last = PodPage::decode(br#"{"items":null,"metadata":{"resourceVersion":"9","continue":""}}"#).unwrap();
        assert_eq!((last.pods.len(), last.next), (0, None));
        assert_eq!(PodPage::decode(br#"{"items":[]}"#), Err(InvalidObject::Version));
        assert!(matches!(PodPage::decode(b"<html>"), Err(InvalidObject::Json(_))));
    }
}
