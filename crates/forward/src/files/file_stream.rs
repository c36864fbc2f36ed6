//! The stream of one file: its labels, and the times of its lines.

use std::path::Path;
use std::sync::Arc;

use bucksaw_record::Labels;
use bucksaw_record::time::LineTimeReader;

use super::entry_batches::put_labels;
use crate::Config;

/// The label with the path of a file, by OpenTelemetry's conventions.
const PATH_LABEL: &str = "log.file.path";

/// The stream of one file.
pub(crate) struct FileStream {
    pub(crate) labels: Arc<Labels>,
    pub(crate) encoded_labels: Vec<u8>,
    /// `None` if lines have the time of their batch.
    pub(crate) line_times: Option<LineTimeReader>,
}

impl FileStream {
    pub(crate) fn new(config: &Config, path: &Path) -> Self {
        let labels = Arc::new(labels(&config.labels, path));
        let mut encoded_labels = Vec::new();
        put_labels(&labels, &mut encoded_labels);
        Self { labels, encoded_labels, line_times: config.line_zone.clone().map(LineTimeReader::new) }
    }
}

/// The labels of an agent with the path of a file. A label of that name that the user set stays.
fn labels(base: &Labels, path: &Path) -> Labels {
    if base.get(PATH_LABEL).is_some() {
        return base.clone();
    }
    let text = path.to_string_lossy();
    // The end of a path tells more than its start.
    let start = text.len().saturating_sub(Labels::VALUE_BYTES_MAX);
    let shown = (start..text.len()).find_map(|at| text.get(at..)).unwrap_or_default();
    let with_path = base.iter().chain([(PATH_LABEL, shown)]);
    // Too many labels: the user's have precedence.
    Labels::new(with_path).unwrap_or_else(|_| base.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_path_as_label() {
        let check = |base: &str, path: &str, want: &str| {
            assert_eq!(labels(&Labels::parse(base).unwrap(), Path::new(path)), Labels::parse(want).unwrap());
        };
        check("", "/var/log/a.log", "log.file.path=/var/log/a.log");
        check("app=web", "/a", "app=web,log.file.path=/a");
        check("log.file.path=x", "/a", "log.file.path=x");
        let long = format!("/{}/ä{}", "x".repeat(99), "y".repeat(Labels::VALUE_BYTES_MAX - 1));
        assert_eq!(
            labels(&Labels::default(), Path::new(&long)).get(PATH_LABEL).unwrap().len(),
            Labels::VALUE_BYTES_MAX - 1
        );
    }
}
