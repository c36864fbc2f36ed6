//! The state of an agent as OpenMetrics text. All values are read at the scrape.

use std::fmt;

use bucksaw_env::real::process;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::agent_info::AgentInfo;
use super::agent_status::{AgentStatus, FilesStatus, PodLabelStatus};

/// The most files with series of their own: those with the longest wait.
pub(super) const FILE_SERIES_MAX: usize = 10;

/// The media type of the answer.
pub(super) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The metrics as text.
///
/// # Errors
/// None that is known: writing into a string does not fail.
pub(super) fn metrics_text(status: AgentStatus, info: &AgentInfo) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    let build = Info::new([("version", info.version.clone())]);
    registry.register("bucksaw_build", "The program and its version", build);
    registry.register_collector(Box::new(StatusCollector(status)));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct StatusCollector(AgentStatus);

impl Collector for StatusCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = Descriptors(encoder);
        encode_process(&self.0, &mut out)?;
        encode_connection(&self.0, &mut out)?;
        match &self.0.files {
            Some(files) => encode_files(files, &mut out),
            None => Ok(()),
        }
    }
}

/// Writes families of metrics.
struct Descriptors<'a>(DescriptorEncoder<'a>);

impl Descriptors<'_> {
    fn begin<'s>(
        &'s mut self,
        name: &'s str,
        help: &'s str,
        kind: MetricType,
    ) -> Result<MetricEncoder<'s>, fmt::Error> {
        self.0.encode_descriptor(name, help, None, kind)
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        ConstGauge::new(value).encode(self.begin(name, help, MetricType::Gauge)?)
    }

    fn size(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(self.begin(name, help, MetricType::Gauge)?)
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        ConstCounter::new(value).encode(self.begin(name, help, MetricType::Counter)?)
    }

    /// A family with one label.
    fn family<'a, M: EncodeMetric>(
        &mut self,
        (name, help, label): (&str, &str, &'static str),
        kind: MetricType,
        values: impl IntoIterator<Item = (&'a str, M)>,
    ) -> fmt::Result {
        let mut encoder = self.begin(name, help, kind)?;
        for (value, metric) in values {
            metric.encode(encoder.encode_family(&[(label, value)])?)?;
        }
        Ok(())
    }
}

fn encode_process(status: &AgentStatus, out: &mut Descriptors<'_>) -> fmt::Result {
    let cpu = ConstCounter::new(process::cpu_seconds());
    cpu.encode(out.begin("process_cpu_seconds", "Processor time of the process", MetricType::Counter)?)?;
    if let Some(bytes) = process::resident_bytes() {
        out.size("process_resident_memory_bytes", "Memory of the process", bytes)?;
    }
    let started = status.unix_ms as f64 / 1e3 - status.running.as_secs_f64();
    out.gauge("process_start_time_seconds", "When the agent started, in seconds since 1970", started)
}

fn encode_connection(status: &AgentStatus, out: &mut Descriptors<'_>) -> fmt::Result {
    let address = status.connection.address.as_deref();
    out.size("bucksaw_forward_connected", "1 while a node accepts batches", u64::from(address.is_some()))?;
    let node = address.map(|address| (address, ConstGauge::new(1_i64)));
    out.family(("bucksaw_forward_node", "The node in use", "address"), MetricType::Gauge, node)?;
    let unaccepted = status.unaccepted().as_secs_f64();
    out.gauge("bucksaw_forward_unaccepted_seconds", "How long no node has accepted a connection", unaccepted)?;
    out.counter("bucksaw_forward_connections", "Connections that a node accepted", status.connection.connections)?;
    out.counter("bucksaw_forward_acked_records", "Records that a node acknowledged", status.acked_records)?;
    out.counter("bucksaw_forward_acked_bytes", "Bytes of their text", status.acked_bytes)?;
    out.size("bucksaw_forward_window_batches", "Batches in the send window", status.window_batches as u64)?;
    out.size("bucksaw_forward_window_bytes", "Bytes of these batches", status.window_bytes as u64)?;
    let help = "Bytes above which the send window takes no batch";
    out.size("bucksaw_forward_window_limit_bytes", help, status.window_bytes_max as u64)?;
    let oldest = status.oldest_batch.as_secs_f64();
    out.gauge("bucksaw_forward_oldest_batch_seconds", "How long the oldest unacknowledged batch has waited", oldest)
}

fn encode_files(files: &FilesStatus, out: &mut Descriptors<'_>) -> fmt::Result {
    let states = files.states.iter().map(|(state, count)| (state.name(), gauge_of(*count)));
    out.family(("bucksaw_forward_files", "Followed files, by state", "state"), MetricType::Gauge, states)?;
    let unreadable = files.unreadable.len() as u64;
    out.size("bucksaw_forward_unreadable_files", "Paths that cannot be read, as of the newest scan", unreadable)?;
    out.size("bucksaw_forward_lag_bytes", "Bytes of files that are unread or unacknowledged", files.lag_bytes)?;
    out.gauge("bucksaw_forward_lag_seconds", "The longest wait of such a byte", files.lag.as_secs_f64())?;
    let slowest = || files.slowest.iter().take(FILE_SERIES_MAX).filter(|file| file.lag_bytes > 0);
    let paths: Vec<_> = slowest().map(|file| file.path.to_string_lossy()).collect();
    let by_path = |values: Vec<f64>| paths.iter().map(|path| &**path).zip(values.into_iter().map(ConstGauge::new));
    let help = "Unread or unacknowledged bytes of the files with the longest wait";
    let bytes = by_path(slowest().map(|file| file.lag_bytes as f64).collect());
    out.family(("bucksaw_forward_file_lag_bytes", help, "path"), MetricType::Gauge, bytes)?;
    let waits = by_path(slowest().map(|file| file.lag.as_secs_f64()).collect());
    let help = "The wait of such a byte, of the same files";
    out.family(("bucksaw_forward_file_lag_seconds", help, "path"), MetricType::Gauge, waits)?;
    out.counter("bucksaw_forward_read_records", "Records read from files", files.read_records)?;
    out.counter("bucksaw_forward_read_bytes", "Bytes of their text", files.read_bytes)?;
    out.size("bucksaw_forward_buffer_batches", "Unacknowledged batches in the buffer on disk", files.buffer_batches)?;
    out.size("bucksaw_forward_buffer_bytes", "Bytes of the unacknowledged batches there", files.buffer_bytes)?;
    let help = "Bytes of all files of the buffer, acknowledged batches included";
    out.size("bucksaw_forward_buffer_disk_bytes", help, files.buffer_disk_bytes)?;
    out.size("bucksaw_forward_buffer_limit_bytes", "The most bytes of these files", files.buffer_bytes_max)?;
    let help = "Segments of the queue of local listeners without an acknowledgement";
    out.size("bucksaw_forward_queue_segments", help, files.queue_segments)?;
    let help = "Records dropped because the buffer or the queue of local listeners was full";
    out.counter("bucksaw_forward_dropped_records", help, files.dropped_records)?;
    let help = "Batches lost because the buffer was damaged while the agent ran";
    out.counter("bucksaw_forward_damaged_batches", help, files.damaged_batches)?;
    let filtered = [("filter", files.lines.dropped), ("sample", files.lines.sampled_out)];
    let filtered = filtered.map(|(reason, count)| (reason, ConstCounter::new(count)));
    let help = "Records that a filter or a sample excluded";
    out.family(("bucksaw_forward_excluded_records", help, "reason"), MetricType::Counter, filtered)?;
    out.counter("bucksaw_forward_redacted_records", "Records with a redacted text", files.lines.redacted)?;
    let help = "Lines of container logs that are not in the format and were kept as they are";
    out.counter("bucksaw_forward_undecoded_lines", help, files.lines.undecoded)?;
    if let Some(pods) = &files.pods {
        encode_pods(pods, out)?;
    }
    encode_events(files, out)
}

fn encode_pods(pods: &PodLabelStatus, out: &mut Descriptors<'_>) -> fmt::Result {
    let watch = &pods.watch;
    let synced = u64::from(watch.is_synced);
    out.size("bucksaw_forward_kubernetes_synced", "1 while the changes of the node's pods arrive", synced)?;
    out.size("bucksaw_forward_kubernetes_pods", "Pods of the node that are known", watch.pods)?;
    if let Some(age) = watch.last_event_age {
        let help = "How long ago the API server last sent a list, an event or a bookmark";
        out.gauge("bucksaw_forward_kubernetes_last_event_age_seconds", help, age.as_secs_f64())?;
    }
    let help = "How often the agent has connected to the API server again";
    out.counter("bucksaw_forward_kubernetes_reconnects", help, watch.reconnects)?;
    let help = "Events and objects of the API server that are too long or no pods";
    out.counter("bucksaw_forward_kubernetes_unreadable_events", help, watch.unreadable_events)?;
    let help = "How often a pod was left out because there are too many";
    out.counter("bucksaw_forward_kubernetes_refused_pods", help, watch.refused_pods)?;
    let help = "Records of files of pods that were read without the labels of their pod";
    out.counter("bucksaw_forward_kubernetes_unlabelled_records", help, pods.unlabelled_records)?;
    let help = "Files whose first lines wait for the labels of their pod";
    out.size("bucksaw_forward_kubernetes_waiting_files", help, pods.waiting_files)?;
    let help = "Labels of pods that are no labels of records, over the files that are read";
    out.size("bucksaw_forward_kubernetes_left_out_labels", help, pods.left_out_labels)
}

fn encode_events(files: &FilesStatus, out: &mut Descriptors<'_>) -> fmt::Result {
    let counters = &files.counters;
    let gaps = [
        ("damaged", counters.gaps_damaged),
        ("too_long", counters.gaps_too_long),
        ("truncated", counters.gaps_truncated),
        ("vanished", counters.gaps_vanished),
    ];
    let gaps = gaps.map(|(reason, count)| (reason, ConstCounter::new(count)));
    let help = "Places in files where lines may be missing, by reason";
    out.family(("bucksaw_forward_gaps", help, "reason"), MetricType::Counter, gaps)?;
    out.counter("bucksaw_forward_gap_bytes", "Bytes that are known to be missing there", counters.gap_bytes)?;
    out.counter("bucksaw_forward_files_found", "Files that were new", counters.files_found)?;
    let help = "Files that lost their path by a rename or a deletion";
    out.counter("bucksaw_forward_files_detached", help, counters.files_detached)?;
    out.counter("bucksaw_forward_truncations", "Files that were truncated or overwritten", counters.truncations)?;
    let help = "Copies, compressed or not, in which reading went on";
    out.counter("bucksaw_forward_copies_continued", help, counters.copies_continued)?;
    let errors = [("open", counters.open_errors), ("read", counters.read_errors), ("scan", counters.scan_errors)];
    let errors = errors.map(|(operation, count)| (operation, ConstCounter::new(count)));
    let help = "Opens, reads and scans of files that failed";
    out.family(("bucksaw_forward_file_errors", help, "operation"), MetricType::Counter, errors)
}

fn gauge_of(value: u64) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
}
