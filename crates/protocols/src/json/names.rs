//! Which members of an object have a meaning.

/// Members with the time, if the sender names none. The first one that is present and valid is used.
const TIME_NAMES: [&str; 4] = ["time", "timestamp", "@timestamp", "ts"];

/// The names of members. A name with dots is a member of that name, or else a member of a contained object: `app.name`
/// is `{"app.name":…}` or `{"app":{"name":…}}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonNames {
    /// Members with the time, the preferred one first.
    pub(super) time: Vec<String>,
    /// Members with the message, the preferred one first. Empty: the object is the line.
    pub(super) message: Vec<String>,
    /// Members that are labels.
    pub(super) labels: Vec<String>,
}

impl JsonNames {
    /// Names as the parameters `time_field`, `message_field` and `label_fields` state them: with commas between, the
    /// preferred one first. An empty text means none; without a time, `time`, `timestamp`, `@timestamp` and `ts` are tried.
    pub fn new(time_field: &str, message_field: &str, label_fields: &str) -> Self {
        let mut time = list(time_field);
        if time.is_empty() {
            time = TIME_NAMES.map(str::to_owned).to_vec();
        }
        Self { time, message: list(message_field), labels: list(label_fields) }
    }
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}
