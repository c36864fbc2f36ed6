//! The groups of a histogram: `by=` and `value=`, and how they are shown.

use std::borrow::Cow;

use bucksaw_query::{Bucket, GroupBy, Grouping, Level, Request};
use bucksaw_record::Labels;
use serde_json::Value;

use crate::app::App;
use crate::error::ApiError;
use crate::params::Params;
use crate::permits::acquire_query_permit;
use crate::render;

/// Bytes of the name of a field.
const NAME_BYTES_MAX: usize = 256;

/// Bytes of all values together, so that they fit in a request to other nodes.
const VALUES_BYTES_MAX: usize = 64 << 10;

/// The grouping that a client requests for a histogram.
#[derive(Debug)]
pub(crate) enum RequestedGrouping {
    None,
    /// The level; only these, or all.
    Levels(Option<Vec<LevelGroup>>),
    /// Groups that the client names.
    Named(Grouping),
    /// Groups that the node chooses.
    Chosen(GroupBy),
}

/// A level, or none.
type LevelGroup = Option<Level>;

impl RequestedGrouping {
    /// Reads `by` and `value`.
    pub(crate) fn of(params: &Params) -> Result<Self, ApiError> {
        let by = params.text("by")?.unwrap_or_default();
        let values = values(params)?;
        Ok(match by {
            "" if values.is_empty() => Self::None,
            "" => return Err(ApiError::bad_request("value needs by: the name of the field that has the value")),
            "@level" if values.is_empty() => Self::Levels(None),
            "@level" => Self::Levels(Some(values.iter().map(|name| level(name)).collect::<Result<_, _>>()?)),
            "@stream" if values.is_empty() => Self::Chosen(GroupBy::Stream),
            "@stream" => Self::Named(Grouping::Streams(streams(&values)?)),
            name if name.len() > NAME_BYTES_MAX => {
                return Err(ApiError::bad_request(format!("by is longer than {NAME_BYTES_MAX} bytes")));
            }
            name if values.is_empty() => Self::Chosen(GroupBy::Field(name.to_owned())),
            name => Self::Named(Grouping::Field { name: name.to_owned(), values }),
        })
    }

    /// Chooses the groups that the client did not name.
    pub(crate) async fn resolve(self, app: &App, request: &Request) -> Result<ShownGroups, ApiError> {
        let grouping = match self {
            Self::None => Grouping::None,
            Self::Named(grouping) => grouping,
            Self::Levels(shown) => {
                return Ok(ShownGroups::of_levels(shown.unwrap_or_else(|| Level::ALL.map(Some).to_vec())));
            }
            Self::Chosen(by) => {
                let permit = acquire_query_permit(app).await?;
                app.answers.choose_groups(request.clone(), by, permit).await?
            }
        };
        Ok(ShownGroups::new(grouping))
    }
}

/// The values, each once, in the given order.
fn values(params: &Params) -> Result<Vec<String>, ApiError> {
    let mut values: Vec<String> = Vec::new();
    for value in params.all("value") {
        let value = str::from_utf8(value).map_err(|_| ApiError::bad_request("parameter `value` is not UTF-8"))?;
        if !values.iter().any(|known| known == value) {
            values.push(value.to_owned());
        }
    }
    if values.len() > Grouping::VALUES_MAX {
        return Err(ApiError::bad_request(format!("value is given more than {} times", Grouping::VALUES_MAX)));
    }
    if values.iter().map(String::len).sum::<usize>() > VALUES_BYTES_MAX {
        return Err(ApiError::bad_request(format!("value: more than {VALUES_BYTES_MAX} bytes of values together")));
    }
    Ok(values)
}

fn level(name: &str) -> Result<LevelGroup, ApiError> {
    let names = || Level::ALL.map(Level::name).join(", ");
    match Level::ALL.into_iter().find(|level| level.name() == name) {
        Some(level) => Ok(Some(level)),
        None if name == "none" => Ok(None),
        None => Err(ApiError::bad_request(format!("value: `{name}` is no level; the levels are {}, none", names()))),
    }
}

fn streams(values: &[String]) -> Result<Vec<Labels>, ApiError> {
    let mut streams: Vec<Labels> = Vec::new();
    for value in values {
        let labels = Labels::parse(value).map_err(|error| ApiError::bad_request(format!("value: {error}")))?;
        if !streams.contains(&labels) {
            streams.push(labels);
        }
    }
    Ok(streams)
}

/// The groups of a histogram, as an answer shows them.
#[derive(Clone, Debug)]
pub(crate) struct ShownGroups {
    pub(crate) grouping: Grouping,
    /// The value of each group that is shown; `None` without groups.
    pub(crate) values: Option<Vec<String>>,
    /// If grouped by level, those that are shown.
    levels: Vec<LevelGroup>,
}

impl ShownGroups {
    fn new(grouping: Grouping) -> Self {
        let values = grouping.values().into_iter().map(Cow::into_owned).collect();
        let values = (grouping != Grouping::None).then_some(values);
        Self { grouping, values, levels: Vec::new() }
    }

    fn of_levels(levels: Vec<LevelGroup>) -> Self {
        let values = levels.iter().map(|level| level.map_or("none", Level::name).to_owned()).collect();
        Self { grouping: Grouping::Level, values: Some(values), levels }
    }

    /// A bucket, with the counts of groups that occur in it.
    pub(crate) fn render(&self, bucket: &Bucket) -> Value {
        let mut object = render::bucket(bucket);
        if let Some(values) = &self.values {
            let groups = values.iter().zip(self.counts(bucket)).filter(|(_, count)| *count > 0);
            object["groups"] = groups.map(|(value, count)| (value.clone(), Value::from(count))).collect();
        }
        object
    }

    fn counts(&self, bucket: &Bucket) -> Vec<u64> {
        if self.grouping != Grouping::Level {
            return bucket.groups.clone();
        }
        let count = |level: &LevelGroup| match level {
            Some(level) => bucket.groups.get(*level as usize).copied().unwrap_or_default(),
            None => bucket.count.saturating_sub(bucket.groups.iter().sum()),
        };
        self.levels.iter().map(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_is_given_twice_is_one_group() {
        let params = Params::parse(b"by=@stream&value=app=a,host=b&value=host=b,app=a&value=app=a&value=app=a,host=b");
        let RequestedGrouping::Named(Grouping::Streams(streams)) = RequestedGrouping::of(&params).unwrap() else {
            panic!("these are streams");
        };
        assert_eq!(streams, [Labels::parse("app=a,host=b").unwrap(), Labels::parse("app=a").unwrap()]);
    }

    #[test]
    fn a_value_that_is_given_twice_is_one_group() {
        let params = Params::parse(b"by=status&value=200&value=404&value=200");
        let RequestedGrouping::Named(grouping) = RequestedGrouping::of(&params).unwrap() else { panic!() };
        assert_eq!(grouping.values(), ["200", "404"]);
    }
}
