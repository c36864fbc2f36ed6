//! The rules for events that are not lines of files: those of local listeners, and entries of the journal.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bucksaw_env::lock;
use bucksaw_protocols::{AttributeList, Event, EventError};
use bucksaw_record::{AttributeNames, AttributeShape, Labels, RecordView};
use bucksaw_sources::intake::{EventFilter, EventPlace, FilterCounts};
use memchr::memchr_iter;

use super::config::LineConfig;
use super::filter::{ShippingRules, StreamFilter, Verdict};
use super::totals::LineTotals;
use crate::agent_labels::with_agent_labels;

/// Streams whose rules are remembered.
const STREAMS_MAX: usize = 256;

/// The rules, and the counts of what they did.
#[derive(Debug)]
pub struct EventRules {
    rules: ShippingRules,
    /// What every event gets.
    attributes: Vec<(String, String)>,
    /// The labels of the agent.
    labels: Labels,
    /// The most bytes of a line that a redaction lengthens.
    line_bytes_max: usize,
    /// Memory for threads that filter. Not held while an event is passed on, because that may write to the disk.
    scratch: Mutex<Vec<RulesScratch>>,
    totals: Mutex<LineTotals>,
}

/// What one thread needs for an event.
#[derive(Debug, Default)]
struct RulesScratch {
    filters: HashMap<Labels, StreamFilter>,
    attributes: AttributeList,
    /// The names of the last event with attributes.
    names: Option<AttributeNames>,
    record: Vec<u8>,
    value_lines: Vec<u32>,
    redacted: Vec<u8>,
    spare: Vec<u8>,
}

impl EventRules {
    /// The rules of the settings; `None` if every event is shipped as it is.
    pub fn new(config: &LineConfig, labels: &Labels, line_bytes_max: usize) -> Option<Arc<Self>> {
        if config.filter.is_empty() && config.attributes.is_empty() {
            return None;
        }
        Some(Arc::new(Self {
            rules: config.filter.clone(),
            attributes: config.attributes.clone(),
            labels: labels.clone(),
            line_bytes_max,
            scratch: Mutex::default(),
            totals: Mutex::default(),
        }))
    }

    /// What the rules did since the start.
    pub fn totals(&self) -> LineTotals {
        *lock(&self.totals)
    }

    fn filter_with(
        &self,
        scratch: &mut RulesScratch,
        (labels, event): (&Labels, &Event<'_>),
        place: EventPlace,
        counts: &mut FilterCounts,
        take: &mut dyn FnMut(&Event<'_>) -> Result<(), EventError>,
    ) -> Result<(), EventError> {
        let mut event = *event;
        let mut attributes = std::mem::take(&mut scratch.attributes);
        // An event with too many attributes would be refused.
        if !self.attributes.is_empty() && event.attributes.len() + self.attributes.len() <= AttributeNames::COUNT_MAX {
            attributes.clear();
            event.attributes.iter().for_each(|(name, value)| attributes.push(name, value));
            self.attributes.iter().for_each(|(name, value)| attributes.push(name, value.as_bytes()));
            event.attributes = &attributes;
        }
        let verdict =
            if self.rules.has_conditions() { self.verdict(scratch, labels, &event, place) } else { Verdict::Kept };
        let passed = match verdict {
            Verdict::Dropped => {
                counts.dropped += 1;
                Ok(())
            }
            Verdict::SampledOut => {
                counts.sampled_out += 1;
                Ok(())
            }
            Verdict::Kept => {
                let bytes_max = event.line.len().max(self.line_bytes_max);
                let RulesScratch { redacted, spare, .. } = scratch;
                if self.rules.redact(event.line, bytes_max, redacted, spare) {
                    counts.redacted += 1;
                    event.line = redacted;
                }
                take(&event)
            }
        };
        scratch.attributes = attributes;
        passed
    }

    fn verdict(&self, scratch: &mut RulesScratch, labels: &Labels, event: &Event<'_>, place: EventPlace) -> Verdict {
        let RulesScratch { filters, names, record, value_lines, .. } = scratch;
        if !filters.contains_key(labels) {
            if filters.len() == STREAMS_MAX {
                filters.clear();
            }
            filters.insert(labels.clone(), self.rules.bind(&with_agent_labels(labels, &self.labels)));
        }
        let Some(filter) = filters.get(labels) else { return Verdict::Kept };
        if !names.as_ref().is_some_and(|names| names.is(event.attributes.names())) {
            // Names that are invalid are refused when the event is passed on.
            *names = AttributeNames::new(event.attributes.iter().map(|(name, _)| name)).ok();
        }
        record.clear();
        record.extend_from_slice(event.line);
        value_lines.clear();
        if names.is_some() {
            for (_, value) in event.attributes.iter() {
                record.push(b'\n');
                record.extend_from_slice(value);
                value_lines.push(memchr_iter(b'\n', value).count() as u32 + 1);
            }
        }
        let is_each_one_line = value_lines.iter().all(|lines| *lines == 1);
        let value_lines: &[u32] = if is_each_one_line { &[] } else { value_lines };
        let shape = names.as_ref().map(|names| AttributeShape { names, value_lines });
        filter.verdict(RecordView::new(record, shape), place.source, place.number)
    }
}

impl EventFilter for EventRules {
    fn filter(
        &self,
        labels: &Labels,
        event: &Event<'_>,
        place: EventPlace,
        counts: &mut FilterCounts,
        take: &mut dyn FnMut(&Event<'_>) -> Result<(), EventError>,
    ) -> Result<(), EventError> {
        let mut scratch = lock(&self.scratch).pop().unwrap_or_default();
        let passed = self.filter_with(&mut scratch, (labels, event), place, counts, take);
        lock(&self.scratch).push(scratch);
        passed
    }

    fn add_counts(&self, counts: FilterCounts) {
        let FilterCounts { dropped, sampled_out, redacted } = counts;
        *lock(&self.totals) += LineTotals { dropped, sampled_out, redacted, undecoded: 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(configure: impl FnOnce(&mut LineConfig)) -> Arc<EventRules> {
        let mut config = LineConfig::default();
        configure(&mut config);
        EventRules::new(&config, &Labels::parse("site=s").unwrap(), 20).unwrap()
    }

    /// What becomes of a line, as text with its attributes.
    fn filtered(rules: &EventRules, line: &str, attributes: &[(&str, &str)], number: u64) -> Option<String> {
        let mut list = AttributeList::default();
        attributes.iter().for_each(|(name, value)| list.push(name, value.as_bytes()));
        let (mut passed, mut counts) = (None, FilterCounts::default());
        let event = Event { time: None, line: line.as_bytes(), attributes: &list };
        let place = EventPlace { source: 7, number };
        let mut take = |event: &Event<'_>| {
            let values =
                event.attributes.iter().map(|(name, value)| format!(" {name}={}", String::from_utf8_lossy(value)));
            passed = Some(String::from_utf8_lossy(event.line).into_owned() + &values.collect::<String>());
            Ok(())
        };
        rules.filter(&Labels::parse("app=web").unwrap(), &event, place, &mut counts, &mut take).unwrap();
        rules.add_counts(counts);
        passed
    }

    #[test]
    fn events_are_dropped_by_labels_attributes_and_lines() {
        let rules = rules(|config| {
            config.filter.add_drop("code=200 app=web site=s").unwrap();
            config.filter.add_drop("noise").unwrap();
            config.add_attribute("team=shop").unwrap();
            config.filter.add_drop("team=shop last").unwrap();
        });
        let check = |line: &str, attributes: &[(&str, &str)], want: Option<&str>| {
            assert_eq!(filtered(&rules, line, attributes, 0).as_deref(), want, "{line}");
        };
        check("GET", &[("code", "200")], None);
        check("GET", &[("code", "a\nb"), ("x", "200")], Some("GET code=a\nb x=200 team=shop"));
        check("some noise", &[], None);
        check("last", &[], None);
        check("GET", &[], Some("GET team=shop"));
        assert_eq!(rules.totals(), LineTotals { dropped: 3, ..LineTotals::default() });
    }

    #[test]
    fn lines_are_redacted_and_samples_stay_the_same() {
        let rules = rules(|config| {
            config.filter.add_redaction("s/card=[0-9]+/card=***/").unwrap();
            config.filter.add_sample("50%").unwrap();
        });
        let kept = || (0..1_000).filter(|number| filtered(&rules, "card=1", &[], *number).is_some()).count();
        let first = kept();
        assert!((400..600).contains(&first), "{first}");
        assert_eq!(kept(), first);
        let number = (0..1_000).find(|number| filtered(&rules, "x", &[], *number).is_some()).unwrap();
        assert_eq!(filtered(&rules, "card=123 ok", &[], number).unwrap(), "card=*** ok");
        let totals = rules.totals();
        assert_eq!(totals.redacted, 2 * first as u64 + 1);
        assert!(totals.sampled_out >= 2 * (1_000 - first as u64));
    }

    #[test]
    fn an_event_with_too_many_attributes_keeps_its_own() {
        let rules = rules(|config| config.add_attribute("team=shop").unwrap());
        let names: Vec<String> = (0..AttributeNames::COUNT_MAX).map(|number| number.to_string()).collect();
        let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "v")).collect();
        assert!(!filtered(&rules, "x", &many, 0).unwrap().contains("team"));
        assert!(filtered(&rules, "x", &many[1..], 0).unwrap().contains("team"));
        assert!(EventRules::new(&LineConfig::default(), &Labels::default(), 1).is_none());
    }
}
