//! `LABELS:AGE`, the retention of some streams.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bucksaw_record::{LabelScope, Labels};
use bucksaw_store::LabelRetention;

use super::OptionalLimit;

/// Streams with these labels are kept for this age.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RetentionRule(pub(crate) LabelRetention);

/// Why a text is no rule.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected labels, a colon and an age, such as tenant=a:3d or env=dev,tenant=a:none: {0}")]
pub(crate) struct InvalidRule(String);

impl FromStr for RetentionRule {
    type Err = InvalidRule;

    fn from_str(text: &str) -> Result<Self, InvalidRule> {
        let invalid = |reason: &dyn fmt::Display| InvalidRule(reason.to_string());
        // Values of labels may have colons, ages have none.
        let (labels, age) = text.rsplit_once(':').ok_or_else(|| invalid(&"there is no colon"))?;
        let labels = Labels::parse(labels).map_err(|error| invalid(&error))?;
        if labels.is_empty() {
            return Err(invalid(&"there is no label; --retention-age is for all streams"));
        }
        let age = OptionalLimit::<Duration>::parse(age).map_err(|error| invalid(&error))?;
        Ok(Self(LabelRetention { streams: LabelScope::new(labels), age: age.0 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_labels_and_an_age() {
        let check = |text: &str, labels: &str, age: Option<u64>| {
            let RetentionRule(rule) = text.parse().unwrap();
            let want = LabelScope::new(Labels::parse(labels).unwrap());
            assert_eq!((rule.streams, rule.age), (want, age.map(Duration::from_secs)));
        };
        check("tenant=a:3d", "tenant=a", Some(3 * 86_400));
        check("app=x,host=\"a:1\":12h", "app=x,host=a:1", Some(12 * 3_600));
        check("_bucksaw=audit:none", "_bucksaw=audit", None);
        for bad in ["", "3d", ":3d", "tenant=a", "tenant=a:", "tenant=a:soon", "tenant:3d"] {
            let error = bad.parse::<RetentionRule>().unwrap_err().to_string();
            assert!(error.starts_with("expected labels, a colon and an age"), "{error}");
        }
    }
}
