//! A record in the JSON of a node.

use std::borrow::Cow;
use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bucksaw_record::{Id, Labels};

/// A record in the JSON of a node.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct NodeRecord<'a> {
    #[serde(borrow, default)]
    pub(crate) id: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) time: Cow<'a, str>,
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(borrow)]
    line: Option<Cow<'a, str>>,
    line_base64: Option<String>,
    #[serde(default)]
    pub(crate) attributes: BTreeMap<String, String>,
    #[serde(default)]
    attributes_base64: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) cut: bool,
    #[serde(default)]
    pub(crate) unterminated: bool,
}

impl<'a> NodeRecord<'a> {
    pub(crate) fn parse(object: &'a [u8]) -> anyhow::Result<Self> {
        serde_json::from_slice(object).context("the node sent a record that cannot be read")
    }

    pub(crate) fn id(&self) -> anyhow::Result<Id> {
        self.id.parse().context("the node sent a record without a valid id")
    }

    /// The bytes as received.
    pub(crate) fn line(&self) -> anyhow::Result<Cow<'_, [u8]>> {
        Ok(match (&self.line, &self.line_base64) {
            (Some(line), _) => Cow::Borrowed(line.as_bytes()),
            (None, Some(line)) => {
                Cow::Owned(BASE64_STANDARD.decode(line).context("the node sent a line in invalid Base64")?)
            }
            (None, None) => bail!("the node sent a record without a line"),
        })
    }

    /// The attributes whose values are not UTF-8.
    pub(crate) fn attributes_bytes(&self) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
        let decode = |(name, value): (&String, &String)| {
            let value = BASE64_STANDARD.decode(value).context("the node sent an attribute in invalid Base64")?;
            Ok((name.clone(), value))
        };
        self.attributes_base64.iter().map(decode).collect()
    }

    /// Bytes of its text, approximately.
    pub(crate) fn text_bytes(&self) -> usize {
        let of =
            |map: &BTreeMap<String, String>| map.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        let line = self.line.as_deref().or(self.line_base64.as_deref()).map_or(0, str::len);
        line + of(&self.labels) + of(&self.attributes) + of(&self.attributes_base64)
    }

    /// The labels as on the command line; labels that are invalid there as received.
    pub(crate) fn stream(&self) -> String {
        let pairs = self.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        match Labels::new(pairs) {
            Ok(labels) => labels.to_string(),
            Err(_) => self.labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(","),
        }
    }
}
