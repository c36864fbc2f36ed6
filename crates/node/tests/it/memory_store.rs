//! A store that keeps records in a list. It shows that a node takes in, stores, finds, counts and removes records through
//! [`Store`] alone.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_env::Env;
use bucksaw_ingest::{FetchThreshold, Queue};
use bucksaw_query::{Order, Request};
use bucksaw_record::{Expr, Id, Labels, Millis, Producer};
use bucksaw_segment::queue::HEADER_LEN;
use bucksaw_segment::stored::SearchableBlock;
use bucksaw_segment::{Block, ReadError, RecordSummary, Rows, StreamSlice};
use bucksaw_store::{
    BlockRef, BlockSelector, BlockSource, Foreground, Selection, Store, StoreBatch, StoreError, StoreStatus,
    StoredBatch,
};

use crate::test_cluster::WholeCluster;

const RETENTION_AGE: Duration = Duration::from_secs(600);

const BATCH_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct MemoryStore {
    env: Env,
    foreground: Arc<Foreground>,
    contents: Mutex<Contents>,
}

#[derive(Debug, Default)]
struct Contents {
    /// By id, each once.
    records: Vec<MemoryRecord>,
    /// The queue segments that were appended.
    sources: HashSet<Id>,
}

#[derive(Debug)]
struct MemoryRecord {
    id: Id,
    labels: Labels,
    accepted: Millis,
    text: Vec<u8>,
}

impl MemoryStore {
    pub(crate) fn new(env: Env) -> Self {
        Self { foreground: Foreground::new(Arc::clone(&env.clock)), env, contents: Mutex::default() }
    }

    fn retained_since(&self) -> Millis {
        Millis(self.env.clock.unix_ms()).saturating_sub(RETENTION_AGE.as_millis() as u64)
    }
}

impl Store for MemoryStore {
    fn fetch_threshold(&self) -> FetchThreshold {
        FetchThreshold { text_bytes_min: BATCH_BYTES, age_min: Duration::from_secs(2) }
    }

    fn batch_bytes_max(&self) -> u64 {
        BATCH_BYTES
    }

    fn append(&self, batch: &StoreBatch<'_>) -> Result<StoredBatch, StoreError> {
        let (mut records, mut text_bytes) = (Vec::new(), 0);
        for view in batch.segments {
            let mut frames = view.frames(HEADER_LEN as u64);
            let failed = |source| StoreError::Input { segment: view.id, source };
            while let Some(chunk) = frames.next_chunk().map_err(failed)? {
                text_bytes += chunk.text.len() as u64;
                let (labels, accepted) = (chunk.labels, chunk.rows.accepted);
                records.extend((0..).zip(chunk.records()).map(|(row, text)| MemoryRecord {
                    id: chunk.rows.id(row).unwrap(),
                    labels: labels.clone(),
                    accepted,
                    text: text.to_vec(),
                }));
            }
        }
        let mut contents = self.contents.lock().unwrap();
        contents.records.append(&mut records);
        contents.records.sort_by_key(|record| record.id);
        contents.records.dedup_by_key(|record| record.id);
        contents.sources.extend(batch.segments.iter().map(|view| view.id));
        Ok(StoredBatch { text_bytes, segment: None })
    }

    fn select(&self, filter: &BlockSelector<'_>, queued: &mut HashSet<Id>) -> Selection {
        let contents = self.contents.lock().unwrap();
        queued.retain(|id| !contents.sources.contains(id));
        let id = Id::new(Millis(self.env.clock.unix_ms()), Producer::random(self.env.entropy.next_u64()), 0);
        let selected = contents.records.iter().filter(|record| (filter.may_match)(&record.labels));
        let block = MemoryBlock::new(id, selected);
        let blocks = match (filter.may_contain)(&block.summary) {
            true => vec![BlockRef { source: Arc::new(block), index: 0 }],
            false => Vec::new(),
        };
        Selection { blocks, ..Selection::default() }
    }

    fn answers_since(&self) -> Option<Millis> {
        Some(self.retained_since())
    }

    fn retain(&self, _: &Queue) {
        let since = self.retained_since();
        self.contents.lock().unwrap().records.retain(|record| record.id.time().max(record.accepted) >= since);
    }

    fn maintain(&self, _: &Queue, _: &dyn Fn() -> bool) -> Result<u64, StoreError> {
        Ok(0)
    }

    fn foreground(&self) -> &Arc<Foreground> {
        &self.foreground
    }

    fn status(&self) -> StoreStatus {
        let contents = self.contents.lock().unwrap();
        let times = || contents.records.iter().map(|record| record.id.time());
        let (oldest, newest) = (times().min(), times().max());
        StoreStatus { records: contents.records.len() as u64, oldest, newest, ..StoreStatus::default() }
    }
}

/// Records of any streams.
#[derive(Debug)]
struct MemoryBlock {
    id: Id,
    summary: RecordSummary,
    text: Vec<u8>,
    slices: Vec<StreamSlice>,
}

impl MemoryBlock {
    fn new<'a>(id: Id, records: impl Iterator<Item = &'a MemoryRecord>) -> Self {
        let mut streams: BTreeMap<&Labels, (Rows, Vec<u8>)> = BTreeMap::new();
        for MemoryRecord { id, labels, accepted, text } in records {
            let (rows, lines) = streams.entry(labels).or_default();
            rows.push_run(*id, 1);
            rows.accepted = rows.accepted.max(*accepted);
            lines.extend_from_slice(text);
            lines.push(b'\n');
        }
        let mut block = Self { id, summary: RecordSummary::default(), text: Vec::new(), slices: Vec::new() };
        for (labels, (rows, lines)) in streams {
            block.summary.add(&rows, lines.len());
            let range = block.text.len()..block.text.len() + lines.len();
            block.text.extend(lines);
            block.slices.push(StreamSlice { labels: labels.clone(), rows: Arc::new(rows), range });
        }
        block
    }
}

impl BlockSource for MemoryBlock {
    fn id(&self) -> Id {
        self.id
    }

    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn summary(&self, _: usize) -> Option<&RecordSummary> {
        Some(&self.summary)
    }

    fn streams(&self, _: usize) -> Vec<&Labels> {
        self.slices.iter().map(|slice| &slice.labels).collect()
    }

    fn slices(&self, _: usize) -> Result<Vec<StreamSlice>, ReadError> {
        Ok(self.slices.clone())
    }

    fn may_have_attributes(&self, _: usize) -> bool {
        self.slices.iter().any(|slice| !slice.rows.attributes.is_empty())
    }

    fn scan_bytes(&self, _: usize) -> u64 {
        self.text.len() as u64
    }

    fn filter(&self, _: usize) -> Result<Vec<u8>, ReadError> {
        Ok(Vec::new())
    }

    fn open(&self, index: usize) -> Result<SearchableBlock, ReadError> {
        self.open_text(index).map(SearchableBlock::Text)
    }

    fn open_text(&self, index: usize) -> Result<Block, ReadError> {
        let block = Block::from_parts(self.text.clone(), self.slices.clone());
        block.ok_or_else(|| self.mark_damaged(index, "the slices do not match the text"))
    }

    fn mark_damaged(&self, _: usize, what: &'static str) -> ReadError {
        ReadError::damaged(Path::new("memory"), 0, what)
    }
}

#[test]
fn a_cluster_stores_finds_counts_and_removes_records_in_another_store() {
    let mut cluster = WholeCluster::with_memory_stores(1, 2);
    cluster.fill();
    let stored = || [1, 2].map(|number| cluster.node(number).store.status().records).iter().sum::<u64>();
    assert_eq!(stored(), cluster.sent() as u64);
    cluster.assert_complete();
    let request = |expr: &str| Request::new(Expr::parse(expr.as_bytes()).unwrap(), Millis(0), Millis::MAX);
    for number in 0..3 {
        let answers = cluster.node(number).answers();
        let count = |expr| cluster.world.block_on(answers.count(request(expr), ())).unwrap().0;
        assert_eq!((count("record"), count("\"record 17 \""), count("absent")), (cluster.sent() as u64, 1, 0));
        let texts = |request| {
            let (records, _) = cluster.world.block_on(answers.search(request).unwrap().write_to(Vec::new())).unwrap();
            records.into_iter().map(|record| record.text).collect::<Vec<_>>()
        };
        let oldest_first = texts(request("record"));
        let newest = texts(Request { order: Order::Descending, limit: Some(2), ..request("record") });
        assert!(newest.iter().eq(oldest_first.iter().rev().take(2)), "{newest:?}");
        assert_eq!(texts(request("\"record 17 \"")).len(), 1);
    }
    cluster.run_for(2 * RETENTION_AGE);
    assert_eq!(stored(), 0);
    assert_eq!(cluster.query_all(0).records, 0);
}
