//! What one node does per second, as a function of the load.

use crate::calibration::Calibration;
use crate::input::CapacityInput;
use crate::resource::Resource;
use crate::tier::Tier;

/// The share of the time that gathers and merges keep while questions are answered without a pause.
pub(crate) const BACKGROUND_SHARE: f64 = 0.2;

/// Bytes of text of a stored segment of full size, and of one of its blocks.
pub(crate) const SEGMENT_TEXT_BYTES: f64 = 128e6;
pub(crate) const BLOCK_TEXT_BYTES: f64 = 16e6;

/// Memory of the index per stored segment, per block of it, and per stream of it, in bytes.
const INDEX_SEGMENT_BYTES: f64 = 2_000.0;
const INDEX_BLOCK_BYTES: f64 = 200.0;
const INDEX_STREAM_BYTES: f64 = 500.0;

/// The share of the memory limit that the index of stored segments may use.
pub(crate) const INDEX_SHARE: f64 = 1.0 / 32.0;

/// Bytes of text that a segment takes before compaction, as a share of the text, and the time of a peak for which
/// there is room.
pub(crate) const BURST_STORED_SHARE: f64 = 0.15;
pub(crate) const BURST_SECONDS: f64 = 3_600.0;

/// Bytes of a page of the disk. A group commit writes the last page of the queue again, which its data begins in.
const PAGE_BYTES: f64 = 4_096.0;

/// The share of the disk that the plan leaves free.
pub(crate) const DISK_FREE_SHARE: f64 = 0.1;

/// One node of a cluster under a load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedNode<'a> {
    pub(crate) input: &'a CapacityInput,
    pub(crate) calibration: &'a Calibration,
    /// What this node does.
    pub(crate) tier: Tier,
    /// The number of live nodes that accept records.
    pub(crate) ingest_nodes: f64,
    /// The number of live nodes that store and search them.
    pub(crate) store_nodes: f64,
    /// The rate of bytes relative to that of the input; what is stored and searched grows with it.
    pub(crate) factor: f64,
    /// The rate of questions relative to that of the input.
    pub(crate) question_factor: f64,
}

impl<'a> PlannedNode<'a> {
    /// A node that has both roles.
    pub(crate) fn of_both_roles(input: &'a CapacityInput, calibration: &'a Calibration, nodes: u32) -> Self {
        let alive = f64::from(nodes.saturating_sub(input.failed_nodes).max(1));
        Self {
            input,
            calibration,
            tier: Tier::Both,
            ingest_nodes: alive,
            store_nodes: alive,
            factor: 1.0,
            question_factor: 1.0,
        }
    }

    /// A node of one tier of a cluster whose nodes have one role each.
    pub(crate) fn of_one_role(
        input: &'a CapacityInput,
        calibration: &'a Calibration,
        tier: Tier,
        (ingest, store): (u32, u32),
    ) -> Self {
        let alive = |nodes: u32| f64::from(nodes.saturating_sub(input.failed_nodes).max(1));
        Self {
            tier,
            ingest_nodes: alive(ingest),
            store_nodes: alive(store),
            ..Self::of_both_roles(input, calibration, store)
        }
    }

    /// The same node under another rate of bytes.
    pub(crate) const fn at(self, factor: f64) -> Self {
        Self { factor, ..self }
    }

    /// The same node under another rate of questions.
    pub(crate) const fn at_questions(self, question_factor: f64) -> Self {
        Self { question_factor, ..self }
    }

    /// Bytes of text per second at the peak that this node accepts.
    pub(crate) fn accepted(&self) -> f64 {
        if self.tier.has_ingest() { self.accepted_by_one() } else { 0.0 }
    }

    /// Bytes of text per second at the peak that each node with this role accepts.
    pub(crate) fn accepted_by_one(&self) -> f64 {
        self.input.peak_bytes_per_second() * self.factor / self.ingest_nodes
    }

    /// Requests per second at the peak.
    pub(crate) fn requests(&self) -> f64 {
        self.accepted() / self.input.request_bytes
    }

    /// CPU seconds to accept one byte of text.
    pub(crate) fn accept_cost(&self) -> f64 {
        let cost = &self.calibration.accept;
        let request = cost.seconds_per_request + cost.seconds_per_commit * self.commits_per_request();
        self.text_cost() + request / self.input.request_bytes * self.calibration.scaling.factor(self.ingest_nodes)
    }

    /// CPU seconds to accept one byte of text, without the costs of its request.
    pub(crate) fn text_cost(&self) -> f64 {
        let cost = &self.calibration.accept;
        let single = cost.seconds_per_byte + cost.seconds_per_record / self.input.line_bytes;
        single * self.calibration.scaling.factor(self.ingest_nodes)
    }

    /// CPU seconds to gather, encode and merge one byte of text.
    pub(crate) fn store_cost(&self) -> f64 {
        let cost = &self.calibration.store;
        let single = cost.seconds_per_byte + self.merges() * cost.merge_seconds_per_byte;
        single * self.calibration.scaling.factor(self.store_nodes)
    }

    /// CPU seconds to gather and encode one byte of text.
    pub(crate) fn gather_cost(&self) -> f64 {
        self.calibration.store.seconds_per_byte * self.calibration.scaling.factor(self.store_nodes)
    }

    /// Bytes of text per second at the peak of which this node stores a copy.
    pub(crate) fn copied(&self) -> f64 {
        if !self.tier.has_store() {
            return 0.0;
        }
        self.input.peak_bytes_per_second() * self.factor * f64::from(self.input.copies) / self.store_nodes
    }

    /// Bytes of text of all copies per second at the mean rate.
    pub(crate) fn copied_mean(&self) -> f64 {
        self.copied() / self.input.peak_factor
    }

    /// Cores that accept records.
    pub(crate) fn accept_cores(&self) -> f64 {
        self.accepted() * self.accept_cost()
    }

    /// Cores that gather, encode and merge.
    pub(crate) fn store_cores(&self) -> f64 {
        self.copied() * self.store_cost()
    }

    /// Bytes of text in a range that this node searches: stores divide the copies of a record among them.
    pub(crate) fn range_bytes(&self, range_seconds: f64) -> f64 {
        self.copied_mean() / f64::from(self.input.copies) * range_seconds.min(self.input.retention_seconds)
    }

    /// The budget of the block cache by default: 1 GB with a memory limit of 8 GB and more, a twelfth of it from 1 GB, a 64th below.
    pub(crate) fn cache_bytes(&self) -> f64 {
        let memory = self.input.node.memory_bytes;
        let gigabyte = f64::from(1_u32 << 30);
        match memory / gigabyte {
            gigabytes if gigabytes < 1.0 => memory / 64.0,
            gigabytes if gigabytes < 8.0 => memory / 12.0,
            _ => gigabyte,
        }
    }

    /// Bytes of segment files on this node once the retention is reached.
    pub(crate) fn stored_bytes(&self) -> f64 {
        self.copied_mean() * self.input.retention_seconds * self.calibration.store.stored_per_byte
    }

    /// Bytes of its disk that a peak of an hour takes before compaction has caught up.
    pub(crate) fn burst_bytes(&self) -> f64 {
        self.copied() * BURST_SECONDS * BURST_STORED_SHARE
    }

    /// Bytes per second that its disk writes at the peak: the queue, and the segments with all merges.
    pub(crate) fn written(&self) -> f64 {
        self.requests() * self.written_per_request() + self.copied() * self.written_per_byte()
    }

    /// Bytes that are written to the queue for a request.
    pub(crate) fn written_per_request(&self) -> f64 {
        self.input.request_bytes + PAGE_BYTES * self.commits_per_request()
    }

    /// Bytes that a store writes per byte of text, with all merges.
    pub(crate) fn written_per_byte(&self) -> f64 {
        let cost = &self.calibration.store;
        cost.written_per_byte + self.merges() * cost.stored_per_byte
    }

    /// The share of the queue's text that a store takes from another node.
    fn pulled_share(&self) -> f64 {
        if self.tier == Tier::Both { 1.0 - 1.0 / self.store_nodes } else { 1.0 }
    }

    /// Bytes per second that it receives at the peak: from senders, from queues of other nodes, and copies.
    pub(crate) fn received(&self) -> f64 {
        let copies = f64::from(self.input.copies);
        let gathered = self.copied() / copies;
        self.accepted() + gathered * self.pulled_share() + gathered * (copies - 1.0) * BURST_STORED_SHARE
    }

    /// Bytes per second that it sends at the peak: of its queue, and copies.
    pub(crate) fn sent(&self) -> f64 {
        let copies = f64::from(self.input.copies);
        self.accepted() * self.pulled_share() + self.copied() / copies * (copies - 1.0) * BURST_STORED_SHARE
    }

    /// Memory of the index of stored segments.
    pub(crate) fn index_bytes(&self) -> f64 {
        let segments = self.copied_mean() * self.input.retention_seconds / SEGMENT_TEXT_BYTES;
        let blocks = SEGMENT_TEXT_BYTES / BLOCK_TEXT_BYTES;
        segments * (INDEX_SEGMENT_BYTES + blocks * (INDEX_BLOCK_BYTES + INDEX_STREAM_BYTES))
    }

    /// Cores for all work of this node, and for that without load.
    pub(crate) fn used_cores(&self) -> f64 {
        self.calibration.base_cores + self.accept_cores() + self.store_cores() + self.search_cores()
    }

    /// The share of each resource that is in use at the peak; above 1 it is not enough.
    pub(crate) fn utilisation(&self, resource: Resource) -> f64 {
        let node = &self.input.node;
        match resource {
            Resource::Cpu => self.used_cores() / node.cpu(),
            Resource::DiskSpace => {
                (self.stored_bytes() + self.burst_bytes()) / (node.disk_bytes * (1.0 - DISK_FREE_SHARE))
            }
            Resource::DiskBandwidth => {
                let limited = self.written() / node.write_bytes_per_second();
                limited.max((self.written() + self.read()) / node.disk_bytes_per_second)
            }
            Resource::Network => self.received().max(self.sent()) / node.network_bytes_per_second,
            Resource::IndexMemory => self.index_bytes() / (node.memory_bytes * INDEX_SHARE),
        }
    }
}
