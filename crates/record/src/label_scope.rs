//! The streams that a client may write and read.

use crate::labels::{InvalidLabels, Labels};

/// Limits a client to the streams that have certain labels.
///
/// Without labels it has all streams but the [reserved](Labels::RESERVED_NAME) ones. Only a scope that names the reserved
/// label has reserved streams.
/// A client without a scope, such as an administrator, has all streams.
///
/// ```
/// use bucksaw_record::{LabelScope, Labels};
/// let labels = |text: &str| Labels::parse(text).unwrap();
/// let scope = LabelScope::new(labels("tenant=a"));
/// assert!(scope.covers(&labels("app=shop,tenant=a")) && !scope.covers(&labels("app=shop,tenant=b")));
/// assert_eq!(scope.impose(&labels("app=shop,tenant=b")).unwrap(), labels("app=shop,tenant=a"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LabelScope(Labels);

impl LabelScope {
    /// The streams that have all of these labels, with these values.
    #[must_use]
    pub fn new(labels: Labels) -> Self {
        Self(labels)
    }

    /// The labels of the scope.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        &self.0
    }

    /// Whether the scope has the stream with these labels.
    #[must_use]
    pub fn covers(&self, stream: &Labels) -> bool {
        let is_reserved = stream.is_reserved() && !self.0.is_reserved();
        !is_reserved && self.0.iter().all(|(name, value)| stream.get(name) == Some(value))
    }

    /// The labels of a stream with those of the scope, which replace others of the same name.
    ///
    /// # Errors
    /// [`InvalidLabels::TooMany`] if both together exceed [`Labels::COUNT_MAX`].
    pub fn impose(&self, stream: &Labels) -> Result<Labels, InvalidLabels> {
        if self.0.iter().all(|(name, value)| stream.get(name) == Some(value)) {
            return Ok(stream.clone());
        }
        let rest = stream.iter().filter(|(name, _)| self.0.get(name).is_none());
        Labels::new(self.0.iter().chain(rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(text: &str) -> Labels {
        Labels::parse(text).unwrap()
    }

    #[test]
    fn a_scope_has_the_streams_with_all_of_its_labels() {
        let check = |scope: &str, stream: &str, want: bool| {
            assert_eq!(LabelScope::new(labels(scope)).covers(&labels(stream)), want, "{scope} and {stream}");
        };
        check("tenant=a", "tenant=a", true);
        check("tenant=a", "app=x,tenant=a,zone=1", true);
        check("tenant=a", "tenant=ab", false);
        check("tenant=a", "tenant=A", false);
        check("tenant=a", "", false);
        check("env=dev,tenant=a", "env=dev,tenant=a", true);
        check("env=dev,tenant=a", "tenant=a", false);
        check("", "", true);
        check("", "tenant=b", true);
    }

    #[test]
    fn only_a_scope_that_names_the_reserved_label_has_reserved_streams() {
        let check = |scope: &str, stream: &str, want: bool| {
            assert_eq!(LabelScope::new(labels(scope)).covers(&labels(stream)), want, "{scope} and {stream}");
        };
        check("", "_bucksaw=audit", false);
        check("tenant=a", "_bucksaw=audit,tenant=a", false);
        check("_bucksaw=audit", "_bucksaw=audit,node=1", true);
        check("_bucksaw=audit", "tenant=a", false);
    }

    #[test]
    fn imposed_labels_win() {
        let impose = |scope: &str, stream: &str| LabelScope::new(labels(scope)).impose(&labels(stream)).unwrap();
        assert_eq!(impose("tenant=a", "app=x"), labels("app=x,tenant=a"));
        assert_eq!(impose("tenant=a", "app=x,tenant=b"), labels("app=x,tenant=a"));
        assert_eq!(impose("", "app=x"), labels("app=x"));
        let full = Labels::new((0..Labels::COUNT_MAX).map(|at| (format!("l{at}"), "x"))).unwrap();
        let scope = LabelScope::new(labels("tenant=a"));
        assert_eq!(scope.impose(&full), Err(InvalidLabels::TooMany));
        assert_eq!(LabelScope::new(labels("l0=y")).impose(&full).unwrap().get("l0"), Some("y"));
    }

    proptest! {
        #[test]
        fn a_scope_has_every_stream_it_was_imposed_on(
            scope in prop::collection::btree_map("[a-d]", "[xyz]", 0..4),
            stream in prop::collection::btree_map("[a-f]", "[xyz]", 0..6),
        ) {
            let (scope, stream) = (LabelScope::new(Labels::new(scope).unwrap()), Labels::new(stream).unwrap());
            let imposed = scope.impose(&stream).unwrap();
            prop_assert!(scope.covers(&imposed));
            prop_assert_eq!(scope.covers(&stream), imposed == stream);
            for (name, value) in stream.iter().filter(|(name, _)| scope.labels().get(name).is_none()) {
                prop_assert_eq!(imposed.get(name), Some(value));
            }
        }
    }
}
