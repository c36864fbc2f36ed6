//! What a stream gets of its pod: the service, the workload, and chosen labels.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_kubernetes::PodMetadata;
use bucksaw_record::Labels;

/// The first part of the label of a pod's label, by OpenTelemetry's conventions.
const LABEL_PREFIX: &str = "k8s.pod.label.";

/// Which labels of a pod are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodLabelChoice {
    /// Whole names.
    names: BTreeSet<String>,
    /// Beginnings of names.
    prefixes: Vec<String>,
}

/// What the labels of a stream say of its pod.
#[derive(Debug, Default)]
pub(super) struct LabeledPod {
    /// The generation of the directory that was asked last.
    pub(super) generation: Option<u64>,
    pub(super) metadata: Option<Arc<PodMetadata>>,
    pub(super) left_out: u64,
    /// Until when text waits; `None` if that is not known yet.
    pub(super) deadline: Option<Duration>,
}

/// Labels of a stream from its pod.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PodLabels {
    /// The name of the service, if the pod states one.
    pub(super) service: Option<String>,
    /// The others, those of the workload first.
    pub(super) labels: Vec<(String, String)>,
    /// The number of those that cannot be labels of a stream.
    pub(super) left_out: u64,
}

impl Default for PodLabelChoice {
    fn default() -> Self {
        Self { names: BTreeSet::new(), prefixes: vec![String::new()] }
    }
}

impl PodLabelChoice {
    /// Names of labels, and beginnings of names with `*` behind them. `*` alone is all labels, and nothing is none.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut choice = Self { names: BTreeSet::new(), prefixes: Vec::new() };
        for name in names.into_iter().filter(|name| !name.is_empty()) {
            match name.strip_suffix('*') {
                Some(prefix) => choice.prefixes.push(prefix.to_owned()),
                None => drop(choice.names.insert(name.to_owned())),
            }
        }
        choice
    }

    fn has(&self, name: &str) -> bool {
        self.names.contains(name) || self.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }
}

impl PodLabels {
    /// What is taken of a pod.
    pub(super) fn of(pod: &PodMetadata, choice: &PodLabelChoice) -> Self {
        let mut found = Self { service: pod.service().map(str::to_owned), ..Self::default() };
        found.left_out = pod.labels_left_out as u64;
        if let Some((name, value)) = pod.workload() {
            found.labels.push((name.to_owned(), value.to_owned()));
        }
        let mut names = BTreeSet::new();
        // A label of a stream has a value.
        for (name, value) in pod.labels.iter().filter(|(name, value)| choice.has(name) && !value.is_empty()) {
            let label = label_name(name);
            let fits = label.len() <= Labels::NAME_BYTES_MAX && value.len() <= Labels::VALUE_BYTES_MAX;
            if fits && names.insert(label.clone()) {
                found.labels.push((label, value.clone()));
            } else {
                found.left_out += 1;
            }
        }
        found
    }
}

/// The label of a pod's label. A label of a stream cannot have the slash of `app.kubernetes.io/name`.
fn label_name(name: &str) -> String {
    let is_valid = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '-');
    LABEL_PREFIX.chars().chain(name.chars().map(|letter| if is_valid(letter) { letter } else { '_' })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_beginnings_of_names_are_chosen() {
        let check = |names: &[&str], name: &str, want: bool| {
            assert_eq!(PodLabelChoice::new(names.iter().copied()).has(name), want, "{names:?} {name}");
        };
        check(&["app", "team/*"], "app", true);
        check(&["app", "team/*"], "app2", false);
        check(&["app", "team/*"], "team/x", true);
        check(&["*"], "app", true);
        check(&[""], "app", false);
        check(&[], "app", false);
        assert!(PodLabelChoice::default().has("app"));
    }
}
