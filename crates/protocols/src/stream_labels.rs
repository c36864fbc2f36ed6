//! The labels of the stream that an event belongs to.
//!
//! `Labels` are allocated once for each stream and not for each event: those of earlier events are kept and found by their
//! names and values.
//!
//! What cannot be a label is kept as an attribute, so that no statement of a sender is lost and no event is refused for it:
//! a value that is too long, a label beyond the maximum number, a name that is given twice or that the listener sets itself.

use std::borrow::Cow;
use std::collections::HashMap;

use bucksaw_record::Labels;

use crate::AttributeList;

/// The label of the machine, whatever a protocol calls it: the name of OpenTelemetry's semantic conventions.
pub(crate) const HOST_NAME: &str = "host.name";

/// The label of the program, named by the same conventions.
pub(crate) const SERVICE_NAME: &str = "service.name";

/// Bytes of names and values for which labels are kept. Beyond that all are dropped, so that a sender with endlessly many
/// streams does not exhaust the memory.
const KNOWN_BYTES_MAX: usize = 1 << 20;

/// Ends a name or a value in the key of [`StreamLabels`]; no UTF-8 text contains it.
const END: u8 = 0xff;

/// Collects the labels of one event after the other.
#[derive(Debug, Default)]
pub(crate) struct StreamLabels {
    /// The labels of the listener, which all events have.
    base: Labels,
    base_count: usize,
    /// Names and values of the event, each followed by [`END`].
    key: Vec<u8>,
    count: usize,
    last: Option<(Vec<u8>, Labels)>,
    known: HashMap<Box<[u8]>, Labels>,
    known_bytes: usize,
}

/// The labels that an event had at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamMark {
    key_bytes: usize,
    count: usize,
}

impl StreamLabels {
    /// Labels of events that all have those of `base`.
    pub(crate) fn new(base: &Labels) -> Self {
        Self { base: base.clone(), base_count: base.iter().count(), ..Self::default() }
    }

    /// Forgets the labels of earlier events, and frees their memory.
    pub(crate) fn forget(&mut self) {
        *self = Self::new(&self.base);
    }

    /// Begins the labels of an event.
    pub(crate) fn clear(&mut self) {
        self.key.clear();
        self.count = 0;
    }

    /// The labels so far, to return to with [`Self::reset`].
    pub(crate) fn mark(&self) -> StreamMark {
        StreamMark { key_bytes: self.key.len(), count: self.count }
    }

    /// Removes the labels that were added since the mark, which was made since the last [`Self::clear`].
    pub(crate) fn reset(&mut self, mark: StreamMark) {
        self.key.truncate(mark.key_bytes);
        self.count = mark.count;
    }

    /// Adds a label. The name is changed by [`label_name`] if need be; the attribute of the original name then has the value
    /// too. Without effect if the name or the value is empty.
    pub(crate) fn push(&mut self, name: &str, value: &str, attributes: &mut AttributeList) {
        if name.is_empty() || value.is_empty() {
            return;
        }
        let label = label_name(name);
        if !self.try_push(&label, value) || *label != *name {
            attributes.push(name, value.as_bytes());
        }
    }

    /// Adds a label with a valid name. Returns false, without effect, if it cannot be one: see the module.
    pub(crate) fn try_push(&mut self, label: &str, value: &str) -> bool {
        let is_full = self.base_count + self.count >= Labels::COUNT_MAX;
        let is_valid = !value.is_empty() && value.len() <= Labels::VALUE_BYTES_MAX;
        let is_known =
            || (self.base_count > 0 && self.base.get(label).is_some()) || (self.count > 0 && self.has(label));
        if is_full || !is_valid || is_known() {
            return false;
        }
        for part in [label, value] {
            self.key.extend_from_slice(part.as_bytes());
            self.key.push(END);
        }
        self.count += 1;
        true
    }

    /// The labels of the event.
    pub(crate) fn get(&mut self) -> Labels {
        // Of most events. To compare two empty lists costs 70 ns with AVX-512: glibc loads zero bytes from where no memory is.
        if self.key.is_empty() {
            return self.base.clone();
        }
        if let Some((key, labels)) = &self.last
            && *key == self.key
        {
            return labels.clone();
        }
        let labels = match self.known.get(&*self.key) {
            Some(labels) => labels.clone(),
            None => self.insert(),
        };
        let (mut key, _) = self.last.take().unwrap_or_default();
        key.clone_from(&self.key);
        self.last = Some((key, labels.clone()));
        labels
    }

    fn insert(&mut self) -> Labels {
        let own = self.pairs().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let base = self.base.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        // `push` takes only what is valid; the labels of the listener are so in any case.
        let labels = Labels::new(base.chain(own)).unwrap_or_else(|_| self.base.clone());
        if self.known_bytes > KNOWN_BYTES_MAX {
            self.known.clear();
            self.known_bytes = 0;
        }
        self.known_bytes += self.key.len();
        self.known.insert(self.key.as_slice().into(), labels.clone());
        labels
    }

    fn has(&self, label: &str) -> bool {
        self.pairs().any(|(name, _)| name == label)
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut parts = self.key.split(|byte| *byte == END).map(|part| str::from_utf8(part).unwrap_or_default());
        std::iter::from_fn(move || Some((parts.next().filter(|name| !name.is_empty())?, parts.next()?)))
    }
}

/// The name of a label for any name: each character that a label's name cannot have becomes `_`, a name that begins with
/// another character than a letter or `_` gets a `_` in front, and the end of a name that is too long is cut off.
pub(crate) fn label_name(name: &str) -> Cow<'_, str> {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if starts_well && name.len() <= Labels::NAME_BYTES_MAX && name.bytes().all(is_valid) {
        return Cow::Borrowed(name);
    }
    let prefix = if starts_well { "" } else { "_" };
    let valid = name.chars().map(|letter| if letter.is_ascii() && is_valid(letter as u8) { letter } else { '_' });
    Cow::Owned(prefix.chars().chain(valid).take(Labels::NAME_BYTES_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_made_valid() {
        let check = |name: &str, want: &str| assert_eq!(label_name(name), want);
        check("host", "host");
        check("k8s.pod-name", "k8s.pod-name");
        check("1a", "_1a");
        check("-a", "_-a");
        check("a b/ä", "a_b__");
        check(&"x".repeat(200), &"x".repeat(128));
    }

    /// Adds labels, and returns them and the attributes as text.
    fn run(labels: &mut StreamLabels, pairs: &[(&str, &str)]) -> (String, String) {
        let mut attributes = AttributeList::default();
        labels.clear();
        pairs.iter().for_each(|(name, value)| labels.push(name, value, &mut attributes));
        let rest = attributes.iter().map(|(name, value)| format!("{name}:{}", value.len())).collect::<Vec<_>>();
        (labels.get().to_string(), rest.join(","))
    }

    #[test]
    fn what_is_no_label_is_an_attribute() {
        let mut labels = StreamLabels::new(&Labels::parse("site=x").unwrap());
        let mut check = |pairs: &[(&str, &str)], want: &str, rest: &str| {
            assert_eq!(run(&mut labels, pairs), (want.to_owned(), rest.to_owned()), "{pairs:?}");
        };
        check(&[("host", "a"), ("app", "b")], "app=b,host=a,site=x", "");
        check(&[], "site=x", "");
        check(&[("host", ""), ("", "b")], "site=x", "");
        check(&[("site", "y"), ("host", "a"), ("host", "bc")], "host=a,site=x", "site:1,host:2");
        check(&[("a b", "c")], "a_b=c,site=x", "a b:1");
        check(&[("host", &"x".repeat(1_025))], "site=x", "host:1025");
        let names: Vec<String> = (0..70).map(|n| format!("n{n}")).collect();
        let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "v")).collect();
        assert_eq!(run(&mut labels, &many).1, "n63:1,n64:1,n65:1,n66:1,n67:1,n68:1,n69:1");
    }

    #[test]
    fn memory_is_bounded_with_endlessly_many_streams() {
        let mut labels = StreamLabels::default();
        for n in 0..5_000 {
            run(&mut labels, &[("host", &format!("{n}{}", "x".repeat(1_000)))]);
            assert!(labels.known_bytes <= KNOWN_BYTES_MAX + 2_000);
        }
        assert!(labels.known.len() < 1_100);
    }

    proptest! {
        /// Labels found again equal those made anew.
        #[test]
        fn known_labels_are_those_of_the_event(events in prop::collection::vec(prop::collection::vec(("[a-c]{1,2}", "[xy\u{e4}]{0,2}"), 0..4), 0..20)) {
            let mut labels = StreamLabels::default();
            for event in events {
                let pairs: Vec<(&str, &str)> = event.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                prop_assert_eq!(run(&mut labels, &pairs), run(&mut StreamLabels::default(), &pairs));
            }
        }

        #[test]
        fn any_name_becomes_a_valid_one(name in "\\PC{1,200}") {
            prop_assert!(Labels::new([(label_name(&name), "v")]).is_ok());
        }
    }
}
