//! Settings of an agent that ships files.

use std::path::PathBuf;
use std::time::Duration;

use bucksaw_kubernetes::PodDirectory;
use bucksaw_tailer::TailerConfig;

use super::pod_labels::PodLabelChoice;

/// What happens when the buffer on disk is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Files are not read until a node has taken batches.
    #[default]
    Block,
    /// The oldest batches are dropped and counted.
    DropOldest,
}

/// How files get the labels of their pods.
#[derive(Clone, Debug)]
pub struct PodLabelConfig {
    /// The pods of the node.
    pub pods: PodDirectory,
    /// Which of their labels are taken.
    pub choice: PodLabelChoice,
    /// How long the first text of a pod waits for its labels.
    pub wait: Duration,
}

/// Settings of an agent that ships files.
#[derive(Clone, Debug)]
pub struct FilesConfig {
    /// Which files are followed, and how.
    pub tailer: TailerConfig,
    /// The directory of the buffer and of the positions in the files.
    pub state_dir: PathBuf,
    /// The longest that the buffer may become, in bytes.
    pub buffer_bytes_max: u64,
    /// What happens when the buffer is full.
    pub when_full: WhenFull,
    /// How often files that grow are read. Longer saves CPU, shorter shows records sooner.
    pub read_interval: Duration,
    /// The longest time between two scans for new files. The system reports most of them sooner.
    pub scan_interval: Duration,
    /// How files of pods get the labels that the API server knows; `None` if they get none.
    pub pods: Option<PodLabelConfig>,
}

impl FilesConfig {
    /// The defaults for these files.
    pub fn new(tailer: TailerConfig, state_dir: PathBuf) -> Self {
        Self {
            tailer,
            state_dir,
            buffer_bytes_max: bucksaw_buffer::Config::default().bytes_max,
            when_full: WhenFull::Block,
            read_interval: Duration::from_millis(40),
            scan_interval: Duration::from_secs(10),
            pods: None,
        }
    }
}
