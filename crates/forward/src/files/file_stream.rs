//! The stream of one file: its labels, its format, and the times of its lines.

use std::path::Path;
use std::sync::Arc;

use bucksaw_env::Fs;
use bucksaw_protocols::container::ContainerFormat;
use bucksaw_record::Labels;
use bucksaw_record::time::LineTimeReader;

use super::entry_batches::put_labels;
use super::pod_labels::{LabeledPod, PodLabels};
use crate::Config;
use crate::lines::{ContainerRef, FileLines, LogFormat, PodRef, StreamFilter};

/// The label with the path of a file, by OpenTelemetry's conventions.
const PATH_LABEL: &str = "log.file.path";

/// The stream of one file.
pub(crate) struct FileStream {
    pub(crate) labels: Arc<Labels>,
    pub(crate) encoded_labels: Vec<u8>,
    /// `None` if lines have the time of their batch.
    pub(crate) line_times: Option<LineTimeReader>,
    pub(crate) lines: FileLines,
    /// `None` if every record is kept.
    pub(crate) filter: Option<StreamFilter>,
    /// The container that wrote the file, if one did.
    pub(super) container: Option<ContainerRef>,
    /// What the API server says of its pod.
    pub(super) pod: LabeledPod,
}

impl FileStream {
    pub(crate) fn new(config: &Config, fs: &dyn Fs, path: &Path) -> Self {
        let container = container_of(fs, path);
        let format = match config.lines.format {
            LogFormat::Lines => None,
            LogFormat::Cri => Some(ContainerFormat::Cri),
            LogFormat::Docker => Some(ContainerFormat::Docker),
            LogFormat::Auto => container.is_some().then_some(ContainerFormat::Any),
        };
        let mut stream = Self {
            labels: Arc::default(),
            encoded_labels: Vec::new(),
            line_times: config.line_zone.clone().map(LineTimeReader::new),
            lines: FileLines::new(format),
            filter: None,
            container,
            pod: LabeledPod::default(),
        };
        stream.set_labels(config, path, &PodLabels::default());
        stream
    }

    /// Sets the labels of the batches from now on. Those in the buffer keep theirs.
    pub(super) fn set_labels(&mut self, config: &Config, path: &Path, pod: &PodLabels) {
        let mut labels = labels(&config.labels, path);
        if let Some(container) = &self.container {
            let service = pod.service.as_deref().unwrap_or_default();
            let node = config.lines.node_name.as_deref().unwrap_or_default();
            labels = with_container(with_labels(labels, &[("service.name", service)]), container, node);
        }
        // Beyond the most labels of a stream, the first ones stay.
        let room = Labels::COUNT_MAX.saturating_sub(labels.iter().count());
        let of_pod = pod.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let of_pod: Vec<_> = of_pod.filter(|(name, _)| labels.get(name).is_none()).take(room).collect();
        let labels = with_labels(labels, &of_pod);
        self.encoded_labels.clear();
        put_labels(&labels, &mut self.encoded_labels);
        let filter = Some(&config.lines.filter).filter(|filter| filter.has_conditions());
        self.filter = filter.map(|filter| filter.bind(&labels));
        self.labels = Arc::new(labels);
    }
}

/// The container that a path names, and what the target of a link says besides.
fn container_of(fs: &dyn Fs, path: &Path) -> Option<ContainerRef> {
    let named = ContainerRef::of_path(path);
    // The file may be gone, or the file system know no links.
    let target = fs.resolve(path).ok().filter(|target| target != path);
    match (named, target.and_then(|target| ContainerRef::of_path(&target))) {
        (Some(named), Some(target)) => Some(named.or(target)),
        (named, target) => named.or(target),
    }
}

/// The labels of an agent with the path of a file. A label of that name that the user set stays.
fn labels(base: &Labels, path: &Path) -> Labels {
    let text = path.to_string_lossy();
    // The end of a path tells more than its start.
    let start = text.len().saturating_sub(Labels::VALUE_BYTES_MAX);
    let shown = (start..text.len()).find_map(|at| text.get(at..)).unwrap_or_default();
    with_labels(base.clone(), &[(PATH_LABEL, shown)])
}

/// Adds what is known of a container, by OpenTelemetry's conventions.
fn with_container(labels: Labels, container: &ContainerRef, node: &str) -> Labels {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let (name, id, uid) = (text(&container.container), text(&container.container_id), text(&container.pod_uid));
    // An id is a label, not an attribute of each record: the path of the file contains it, so it makes no further streams.
    let labels = with_labels(labels, &[("container.id", &id), ("service.name", &name)]);
    match &container.pod {
        None => labels,
        Some(PodRef { namespace, pod }) => with_labels(
            labels,
            &[
                ("k8s.namespace.name", namespace),
                ("k8s.pod.name", pod),
                ("k8s.pod.uid", &uid),
                ("k8s.container.name", &name),
                ("k8s.node.name", node),
            ],
        ),
    }
}

/// Adds labels with a value, unless they are set. Too many labels, or one with an invalid value: those that are set have precedence.
fn with_labels(labels: Labels, more: &[(&str, &str)]) -> Labels {
    let new = more.iter().copied().filter(|(name, value)| labels.get(name).is_none() && !value.is_empty());
    Labels::new(labels.iter().chain(new)).unwrap_or(labels)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "a link of a real file system")]

    use super::*;

    #[test]
    fn files_of_containers_have_their_names() {
        let mut config = Config { labels: Labels::parse("app=web").unwrap(), ..Config::default() };
        config.lines.node_name = Some("node-1".to_owned());
        let check = |config: &Config, path: &str, want: &str, is_text: bool| {
            let stream = FileStream::new(config, &bucksaw_env::sim::Fs::new(), Path::new(path));
            assert_eq!(*stream.labels, Labels::parse(&format!("{want},log.file.path={path}")).unwrap());
            assert_eq!(stream.lines.is_text(), is_text, "{path}");
        };
        let pod =
            "app=web,service.name=c,k8s.namespace.name=n,k8s.pod.name=p,k8s.container.name=c,k8s.node.name=node-1";
        check(&config, "/var/log/pods/n_p_u/c/0.log", &format!("{pod},k8s.pod.uid=u"), false);
        check(&config, "/var/log/containers/p_n_c-0a.log", &format!("{pod},container.id=0a"), false);
        check(&config, "/var/lib/docker/containers/0a/0a-json.log", "app=web,container.id=0a", false);
        check(&config, "/var/log/syslog", "app=web", true);
        config.labels = Labels::parse("service.name=mine").unwrap();
        config.lines.format = LogFormat::Lines;
        check(&config, "/var/lib/docker/containers/0a/x", "service.name=mine,container.id=0a", true);
        config.lines.format = LogFormat::Cri;
        check(&config, "/var/log/x", "service.name=mine", false);
    }

    #[test]
    fn a_link_is_what_its_target_is() {
        let dir = tempfile::tempdir().unwrap();
        let id = dir.path().join("var/lib/docker/containers/0a");
        let fs = bucksaw_env::Env::real().fs;
        fs.create_dir_all(&id).unwrap();
        fs.create(&id.join("0a-json.log")).unwrap();
        let link = dir.path().join("web.log");
        std::os::unix::fs::symlink(id.join("0a-json.log"), &link).unwrap();
        assert_eq!(container_of(&*fs, &link).unwrap().container_id.as_deref(), Some("0a"));
        assert_eq!(container_of(&*fs, &dir.path().join("none")), None);
    }

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
