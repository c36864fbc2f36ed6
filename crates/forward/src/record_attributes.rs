//! The attributes of records, as they are stored: names once, and the values as the end of each record's text.

use std::sync::Arc;

use bucksaw_protocols::AttributeList;
use bucksaw_protocols::container::OutputStream;
use bucksaw_record::{AttributeNames, AttributeShape};
use memchr::memchr_iter;

/// The attribute with the stream to which a line was written, by OpenTelemetry's conventions.
const STREAM_ATTRIBUTE: &str = "log.iostream";

/// Sets of attributes that are remembered. Lines of one file have two as a rule.
const SETS_MAX: usize = 16;

/// The attributes of a record.
#[derive(Debug)]
pub(crate) struct RecordAttributes {
    stream: Option<OutputStream>,
    stated: Arc<AttributeList>,
    pub(crate) names: AttributeNames,
    /// The values, an LF behind each.
    pub(crate) values: Vec<u8>,
    /// The number of lines of each value.
    pub(crate) value_lines: Vec<u32>,
    /// The number of lines of all values.
    pub(crate) lines: u32,
}

impl RecordAttributes {
    /// Where the values are in the text of a record.
    pub(crate) fn shape(&self) -> AttributeShape<'_> {
        let is_each_one_line = self.value_lines.iter().all(|lines| *lines == 1);
        AttributeShape { names: &self.names, value_lines: if is_each_one_line { &[] } else { &self.value_lines } }
    }
}

/// Builds the attributes of records: what the source states, then the stream, then what the user has set for all records. Of two
/// with one name the last counts.
#[derive(Debug)]
pub(crate) struct AttributeSets {
    base: Vec<(String, String)>,
    sets: Vec<RecordAttributes>,
}

impl AttributeSets {
    /// `base` are those of every record.
    pub(crate) fn new(base: Vec<(String, String)>) -> Self {
        Self { base, sets: Vec::new() }
    }

    /// Bytes of the values that every record gets, approximately.
    pub(crate) fn base_bytes(&self) -> usize {
        self.base.iter().map(|(_, value)| value.len() + 1).sum::<usize>() + STREAM_ATTRIBUTE.len()
    }

    /// The attributes of a record; `None` if it has none.
    pub(crate) fn get(
        &mut self,
        stream: Option<OutputStream>,
        stated: &Arc<AttributeList>,
    ) -> Option<&RecordAttributes> {
        if self.base.is_empty() && stream.is_none() && stated.is_empty() {
            return None;
        }
        let is_wanted = |set: &RecordAttributes| {
            set.stream == stream && (Arc::ptr_eq(&set.stated, stated) || set.stated.is_empty() && stated.is_empty())
        };
        let known = self.sets.iter().position(is_wanted);
        let at = match known {
            Some(at) => at,
            None => {
                let set = self.build(stream, stated)?;
                if self.sets.len() == SETS_MAX {
                    self.sets.clear();
                }
                self.sets.push(set);
                self.sets.len() - 1
            }
        };
        self.sets.get(at)
    }

    fn build(&self, stream: Option<OutputStream>, stated: &Arc<AttributeList>) -> Option<RecordAttributes> {
        let mut pairs: Vec<(&str, &[u8])> = stated.iter().collect();
        pairs.extend(stream.map(|stream| (STREAM_ATTRIBUTE, stream.name().as_bytes())));
        pairs.extend(self.base.iter().map(|(name, value)| (name.as_str(), value.as_bytes())));
        // Each source limits its attributes so that all fit.
        let names = AttributeNames::new(pairs.iter().map(|(name, _)| name)).ok()?;
        let mut values = Vec::new();
        for (_, value) in &pairs {
            values.extend_from_slice(value);
            values.push(b'\n');
        }
        let value_lines: Vec<u32> =
            pairs.iter().map(|(_, value)| memchr_iter(b'\n', value).count() as u32 + 1).collect();
        let lines = value_lines.iter().sum();
        Some(RecordAttributes { stream, stated: Arc::clone(stated), names, values, value_lines, lines })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_built_once() {
        let mut sets = AttributeSets::new(vec![("team".to_owned(), "shop".to_owned())]);
        let none = Arc::new(AttributeList::default());
        let mut list = AttributeList::default();
        list.push("tag", b"a\nb");
        let stated = Arc::new(list);
        let plain = sets.get(None, &none).unwrap();
        assert_eq!((plain.values.as_slice(), plain.lines), (&b"shop\n"[..], 1));
        let all = sets.get(Some(OutputStream::Stderr), &stated).unwrap();
        assert_eq!(all.names.iter().collect::<Vec<_>>(), ["tag", "log.iostream", "team"]);
        assert_eq!((all.values.as_slice(), all.lines), (&b"a\nb\nstderr\nshop\n"[..], 4));
        assert_eq!(all.shape().value_lines, [2, 1, 1]);
        sets.get(Some(OutputStream::Stderr), &stated);
        sets.get(None, &Arc::default());
        assert_eq!(sets.sets.len(), 2);
        for _ in 0..40 {
            let mut list = AttributeList::default();
            list.push("tag", b"c");
            sets.get(None, &Arc::new(list));
        }
        assert!(sets.sets.len() <= SETS_MAX);
        assert!(AttributeSets::new(Vec::new()).get(None, &none).is_none());
    }
}
