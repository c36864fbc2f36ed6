//! Which records are shipped, and what is replaced in them.

use bucksaw_record::{Labels, RecordView};
use bucksaw_scan::{BoundPlan, Plan};
use twox_hash::XxHash3_64;

use super::config_error::LineConfigError;
use super::redaction::Redaction;

/// Rules by which records are dropped and changed, for all streams. In this order: `drop`, `keep`, samples, redactions.
#[derive(Clone, Debug, Default)]
pub struct ShippingRules {
    drop: Vec<Plan>,
    keep: Vec<Plan>,
    samples: Vec<SampleRule<Plan>>,
    redactions: Vec<Redaction>,
}

/// A share of the records that match.
#[derive(Clone, Debug)]
struct SampleRule<P> {
    /// `None`: all records.
    plan: Option<P>,
    /// A record whose hash is below is kept; `None`: every one is.
    hash_end: Option<u64>,
}

/// The rules for one stream.
#[derive(Debug)]
pub(crate) struct StreamFilter {
    drop: Vec<BoundPlan>,
    keep: Vec<BoundPlan>,
    samples: Vec<SampleRule<BoundPlan>>,
}

/// What the rules say about a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Kept,
    Dropped,
    SampledOut,
}

impl ShippingRules {
    /// Drops the records that match. One of several such rules suffices.
    ///
    /// # Errors
    /// [`LineConfigError`] if the expression is invalid.
    pub fn add_drop(&mut self, expression: &str) -> Result<(), LineConfigError> {
        self.drop.push(plan(expression)?);
        Ok(())
    }

    /// Drops the records that do not match. With several such rules a record is kept if it matches one of them.
    ///
    /// # Errors
    /// [`LineConfigError`] if the expression is invalid.
    pub fn add_keep(&mut self, expression: &str) -> Result<(), LineConfigError> {
        self.keep.push(plan(expression)?);
        Ok(())
    }

    /// Keeps a share of the records, `0.1` or `10%`; with `SHARE:EXPRESSION` a share of those that match. Of several such rules
    /// the first one that matches decides.
    ///
    /// # Errors
    /// [`LineConfigError`] if the share or the expression is invalid.
    pub fn add_sample(&mut self, rule: &str) -> Result<(), LineConfigError> {
        let (share, expression) = rule.split_once(':').map_or((rule, None), |(share, rest)| (share, Some(rest)));
        let hash_end = hash_end(share.trim()).ok_or_else(|| LineConfigError::Share(share.to_owned()))?;
        self.samples.push(SampleRule { plan: expression.map(plan).transpose()?, hash_end });
        Ok(())
    }

    /// Replaces the matches of a regex in the lines of records: `REGEX`, or `s/REGEX/TEXT/`.
    ///
    /// # Errors
    /// [`LineConfigError`] if the regex is invalid.
    pub fn add_redaction(&mut self, redaction: &str) -> Result<(), LineConfigError> {
        self.redactions.push(Redaction::parse(redaction)?);
        Ok(())
    }

    /// Whether every record is shipped as it is.
    pub fn is_empty(&self) -> bool {
        !self.has_conditions() && self.redactions.is_empty()
    }

    /// Whether a record may be dropped.
    pub(crate) fn has_conditions(&self) -> bool {
        !self.drop.is_empty() || !self.keep.is_empty() || !self.samples.is_empty()
    }

    /// The rules for a stream.
    pub(crate) fn bind(&self, labels: &Labels) -> StreamFilter {
        let bind = |plans: &[Plan]| plans.iter().map(|plan| plan.bind(labels)).collect();
        let samples = self.samples.iter();
        StreamFilter {
            drop: bind(&self.drop),
            keep: bind(&self.keep),
            samples: samples
                .map(|rule| SampleRule {
                    plan: rule.plan.as_ref().map(|plan| plan.bind(labels)),
                    hash_end: rule.hash_end,
                })
                .collect(),
        }
    }

    /// Redacts a line. `out` then has it, if anything was replaced; `spare` is memory for it.
    /// A line that becomes longer than `bytes_max` is cut there or a little behind.
    pub(crate) fn redact(&self, line: &[u8], bytes_max: usize, out: &mut Vec<u8>, spare: &mut Vec<u8>) -> bool {
        let mut is_redacted = false;
        for redaction in &self.redactions {
            spare.clear();
            if redaction.apply(if is_redacted { out } else { line }, bytes_max, spare) {
                std::mem::swap(out, spare);
                is_redacted = true;
            }
        }
        is_redacted
    }
}

impl StreamFilter {
    /// The verdict on a record, `number` of the source `source`. Equal numbers give equal samples, so a record that is read again
    /// has the same verdict.
    pub(crate) fn verdict(&self, record: RecordView<'_>, source: u64, number: u64) -> Verdict {
        if self.drop.iter().any(|plan| plan.matches(record)) {
            return Verdict::Dropped;
        }
        if !self.keep.is_empty() && !self.keep.iter().any(|plan| plan.matches(record)) {
            return Verdict::Dropped;
        }
        let applies = |rule: &&SampleRule<BoundPlan>| rule.plan.as_ref().is_none_or(|plan| plan.matches(record));
        let end = self.samples.iter().find(applies).and_then(|rule| rule.hash_end);
        match end {
            Some(end) if XxHash3_64::oneshot_with_seed(source, &number.to_le_bytes()) >= end => Verdict::SampledOut,
            _ => Verdict::Kept,
        }
    }
}

fn plan(expression: &str) -> Result<Plan, LineConfigError> {
    if expression.trim().is_empty() {
        return Err(LineConfigError::EmptyExpression);
    }
    let invalid = |error: bucksaw_record::expr::SyntaxError| LineConfigError::Expression {
        text: expression.to_owned(),
        reason: error.to_string(),
    };
    Plan::parse(expression.as_bytes()).map(|(_, plan)| plan).map_err(invalid)
}

/// The end of the hashes of a share. `Some(None)` is the share 1.
fn hash_end(share: &str) -> Option<Option<u64>> {
    let (number, scale) = share.strip_suffix('%').map_or((share, 1.0), |number| (number.trim_end(), 100.0));
    let share = number.parse::<f64>().ok()? / scale;
    match share {
        1.0 => Some(None),
        // Saturates, and a share is not that exact.
        0.0..1.0 => Some(Some((share * 2_f64.powi(64)) as u64)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(drop: &[&str], keep: &[&str], sample: &[&str]) -> StreamFilter {
        let mut filter = ShippingRules::default();
        drop.iter().for_each(|text| filter.add_drop(text).unwrap());
        keep.iter().for_each(|text| filter.add_keep(text).unwrap());
        sample.iter().for_each(|text| filter.add_sample(text).unwrap());
        filter.bind(&Labels::parse("app=web").unwrap())
    }

    #[test]
    fn rules_apply_in_their_order() {
        let check = |filter: &StreamFilter, line: &str, want: Verdict| {
            assert_eq!(filter.verdict(RecordView::line_only(line.as_bytes()), 0, 0), want, "{line}");
        };
        let none = filter(&[], &[], &[]);
        check(&none, "", Verdict::Kept);
        let dropping = filter(&["health app=web", "@level=debug"], &[], &[]);
        check(&dropping, "GET /health", Verdict::Dropped);
        check(&dropping, "DEBUG x", Verdict::Dropped);
        check(&dropping, "GET /", Verdict::Kept);
        let keeping = filter(&["a"], &["b", "app=other"], &[]);
        check(&keeping, "b", Verdict::Kept);
        check(&keeping, "ab", Verdict::Dropped);
        check(&keeping, "c", Verdict::Dropped);
        let sampling = filter(&[], &[], &["0:debug", "1:info", "0%"]);
        check(&sampling, "debug info", Verdict::SampledOut);
        check(&sampling, "info", Verdict::Kept);
        check(&sampling, "other", Verdict::SampledOut);
    }

    #[test]
    fn a_sample_has_its_share_and_stays_the_same() {
        let count = |share: &str, source: u64| {
            let filter = filter(&[], &[], &[share]);
            let record = RecordView::line_only(b"the same line");
            (0..10_000).filter(|number| filter.verdict(record, source, *number) == Verdict::Kept).count()
        };
        assert!((900..1_100).contains(&count("0.1", 1)));
        assert_eq!(count("10%", 1), count("0.1", 1));
        assert_ne!(count("0.1", 2), count("0.1", 1));
        assert_eq!((count("100%", 1), count("0", 1)), (10_000, 0));
    }

    #[test]
    fn mistakes_are_named() {
        let mut filter = ShippingRules::default();
        let check = |result: Result<(), LineConfigError>, want: &str| {
            let error = result.unwrap_err().to_string();
            assert!(error.starts_with(want), "{error}");
        };
        check(filter.add_drop("a AND"), "the expression `a AND`: ");
        check(filter.add_keep("/[/"), "the expression `/[/`: ");
        for share in ["2", "-1", "x", "NaN", "101%", ""] {
            check(filter.add_sample(share), &format!("the share `{share}`: write a number"));
        }
        check(filter.add_sample("0.1:("), "the expression `(`: ");
        assert!(filter.is_empty());
    }

    #[test]
    fn redactions_follow_each_other() {
        let mut filter = ShippingRules::default();
        filter.add_redaction("s/a/b/").unwrap();
        filter.add_redaction("s/bb/c/").unwrap();
        let (mut out, mut spare) = (Vec::new(), Vec::new());
        assert!(filter.redact(b"xab", 9, &mut out, &mut spare));
        assert_eq!(out, b"xc");
        assert!(!filter.redact(b"x", 9, &mut out, &mut spare));
        assert!(!filter.is_empty() && !filter.has_conditions());
    }
}
