//! What the records of a histogram are grouped by.

use std::borrow::Cow;

use bucksaw_record::{Labels, RecordView};
use bucksaw_scan::{Level, fields};

/// The number of a group in its bucket; 0 for none.
pub(crate) type GroupNumber = usize;

/// What the records of a histogram are grouped by. A record is in at most one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// Nothing.
    #[default]
    None,
    /// The [level](Level): one group per level, in the order of [`Level::ALL`].
    Level,
    /// The values of a field: the label of this name, else the attribute, else the key of the line.
    Field {
        /// Its name.
        name: String,
        /// The value of each group; at most [`Self::VALUES_MAX`], each once.
        values: Vec<String>,
    },
    /// The stream: one group per set of labels; at most [`Self::VALUES_MAX`], each once.
    Streams(Vec<Labels>),
}

impl Grouping {
    /// Maximum number of values. Each is a counter per bucket, and a colour on a screen.
    pub const VALUES_MAX: usize = 20;

    /// Number of groups.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Level => Level::ALL.len(),
            Self::Field { values, .. } => values.len(),
            Self::Streams(streams) => streams.len(),
        }
    }

    /// Whether no record is in a group.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of each group.
    #[must_use]
    pub fn values(&self) -> Vec<Cow<'_, str>> {
        match self {
            Self::None => Vec::new(),
            Self::Level => Level::ALL.iter().map(|level| Cow::Borrowed(level.name())).collect(),
            Self::Field { values, .. } => values.iter().map(|value| Cow::Borrowed(value.as_str())).collect(),
            Self::Streams(streams) => streams.iter().map(|stream| Cow::Owned(stream.to_string())).collect(),
        }
    }

    /// The group of all records of a stream; `None` if it depends on the records.
    pub(crate) fn of_stream(&self, labels: &Labels) -> Option<GroupNumber> {
        match self {
            Self::None => Some(0),
            Self::Level => Level::of_labels(labels).map(level_group),
            Self::Field { name, values } => labels.get(name).map(|value| value_group(values, value.as_bytes())),
            Self::Streams(streams) => Some(streams.iter().position(|stream| stream == labels).map_or(0, |at| at + 1)),
        }
    }

    /// The group of a record whose stream settles none.
    pub(crate) fn of_record(&self, record: RecordView<'_>) -> GroupNumber {
        match self {
            Self::None | Self::Streams(_) => 0,
            Self::Level => Level::of_record(record).map_or(0, level_group),
            Self::Field { name, values } => {
                fields::lookup_record(record, name).map_or(0, |value| value_group(values, &value))
            }
        }
    }
}

fn level_group(level: Level) -> GroupNumber {
    level as usize + 1
}

fn value_group(values: &[String], value: &[u8]) -> GroupNumber {
    values.iter().position(|known| known.as_bytes() == value).map_or(0, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use bucksaw_record::{AttributeNames, AttributeShape};

    use super::*;

    #[test]
    fn a_label_settles_the_group_and_hides_the_field() {
        let field = Grouping::Field { name: "app".to_owned(), values: vec!["shop".to_owned(), "cart".to_owned()] };
        let labels = |text: &str| Labels::parse(text).unwrap();
        assert_eq!(field.of_stream(&labels("app=cart,host=a")), Some(2));
        assert_eq!(field.of_stream(&labels("app=other")), Some(0));
        assert_eq!(field.of_stream(&labels("host=a")), None);
        let of_line = |grouping: &Grouping, line: &str| grouping.of_record(RecordView::line_only(line.as_bytes()));
        assert_eq!((of_line(&field, "app=shop x"), of_line(&field, "app=shopping"), of_line(&field, "x")), (1, 0, 0));
        let names = AttributeNames::new(["app"]).unwrap();
        let shape = AttributeShape { names: &names, value_lines: &[] };
        assert_eq!(field.of_record(RecordView::new(b"app=shop\ncart", Some(shape))), 2, "the attribute hides the key");
        let streams = Grouping::Streams(vec![labels(""), labels("app=cart")]);
        assert_eq!(streams.of_stream(&labels("")), Some(1));
        assert_eq!(streams.of_stream(&labels("app=cart")), Some(2));
        assert_eq!(streams.of_stream(&labels("app=cart,host=a")), Some(0));
        assert_eq!(streams.values(), ["", "app=cart"]);
        assert_eq!(Grouping::Level.of_stream(&labels("level=warn")), Some(4));
        assert_eq!(Grouping::Level.of_stream(&labels("app=x")), None);
        assert_eq!(of_line(&Grouping::Level, "level=trace"), 1);
    }
}
