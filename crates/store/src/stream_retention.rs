//! Retention by label: streams that are kept for less or more time than others.

use std::time::Duration;

use bucksaw_env::to_millis;
use bucksaw_record::{LabelScope, Labels, Millis};

/// A rule: how long the streams with some labels are kept, instead of for the retention age.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRetention {
    /// The streams that have all of these labels.
    pub streams: LabelScope,
    /// How long they are kept; `None` for no limit.
    pub age: Option<Duration>,
}

/// The time before which the records of each stream are past their retention. As with the retention age, both the time and the
/// arrival of a record count, and records that are stored together leave together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamRetention {
    /// The first rule that has a stream decides.
    rules: Vec<(LabelScope, Option<Millis>)>,
    /// For streams of no rule.
    since: Option<Millis>,
}

impl StreamRetention {
    /// The same time for all streams; `None` if nothing is past its retention.
    pub fn of_all(since: Option<Millis>) -> Self {
        Self { rules: Vec::new(), since }
    }

    /// At this time, with these rules and this age of streams that have none.
    pub(crate) fn at(now: Millis, rules: &[LabelRetention], age: Option<Duration>) -> Self {
        let since = |age: Option<Duration>| age.map(|age| now.saturating_sub(to_millis(age)));
        let rules = rules.iter().map(|rule| (rule.streams.clone(), since(rule.age)));
        Self { rules: rules.collect(), since: since(age) }
    }

    /// Whether some streams differ.
    pub fn has_rules(&self) -> bool {
        !self.rules.is_empty()
    }

    /// The time before which records of a stream are past their retention; `None` if none are.
    pub fn since(&self, stream: &Labels) -> Option<Millis> {
        let rule = self.rules.iter().find(|(streams, _)| streams.covers(stream));
        rule.map_or(self.since, |(_, since)| *since)
    }

    /// Whether records of a stream are in answers whose latest time or arrival is `newest`.
    pub fn is_retained(&self, stream: &Labels, newest: Millis) -> bool {
        self.since(stream).is_none_or(|since| newest >= since)
    }

    /// Whether records of some stream may be in answers whose latest time or arrival is `newest`.
    pub fn may_be_retained(&self, newest: Millis) -> bool {
        let mut all = self.rules.iter().map(|(_, since)| since).chain([&self.since]);
        all.any(|since| since.is_none_or(|since| newest >= since))
    }

    /// Whether records of some stream may be past their retention whose latest time or arrival is `newest`.
    pub(crate) fn may_be_expired(&self, newest: Millis) -> bool {
        let mut all = self.rules.iter().map(|(_, since)| since).chain([&self.since]);
        all.any(|since| since.is_some_and(|since| newest < since))
    }
}

/// The age by the first rule that has a stream; `None` if none has it.
pub(crate) fn rule_age<'a>(rules: &'a [LabelRetention], stream: &Labels) -> Option<&'a Option<Duration>> {
    rules.iter().find(|rule| rule.streams.covers(stream)).map(|rule| &rule.age)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_has_a_stream_decides() {
        let rule = |labels: &str, age: Option<u64>| LabelRetention {
            streams: LabelScope::new(Labels::parse(labels).unwrap()),
            age: age.map(Duration::from_millis),
        };
        let rules = [rule("env=dev,tenant=a", Some(10)), rule("tenant=a", Some(300)), rule("_bucksaw=audit", None)];
        let retention = StreamRetention::at(Millis(1_000), &rules, Some(Duration::from_millis(100)));
        let since = |labels: &str| retention.since(&Labels::parse(labels).unwrap()).map(|since| since.0);
        assert_eq!(since("env=dev,tenant=a"), Some(990));
        assert_eq!(since("env=prod,tenant=a"), Some(700));
        assert_eq!(since("tenant=b"), Some(900));
        assert_eq!(since("_bucksaw=audit"), None);
        assert!(retention.may_be_retained(Millis(0)), "the audit trail is");
        assert!(retention.may_be_expired(Millis(989)) && !retention.may_be_expired(Millis(990)));
        let shorter = StreamRetention::at(Millis(1_000), &rules[..2], Some(Duration::from_millis(100)));
        assert!(shorter.may_be_retained(Millis(700)) && !shorter.may_be_retained(Millis(699)));
        assert!(!StreamRetention::of_all(None).may_be_expired(Millis(0)));
    }
}
