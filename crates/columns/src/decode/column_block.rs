//! A packed block: its tree, and frames that are unpacked on first use.
#![deny(clippy::indexing_slicing)]

use std::cell::RefCell;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bucksaw_binary::ByteReader;
use bucksaw_search::RowSet;

use crate::decode::column_tree::{ColumnNode, ColumnTree, IndexRange, Payload, TableNode};
use crate::decode::decoded_column::DecodedColumn;
use crate::decode::line_lengths::LineLengths;
use crate::search_work;

/// The largest ratio of unpacked bytes (frames and tree) to the text, and the bytes that even the smallest block may take.
/// The ratio also bounds the rows of all columns together: a token has at least one byte of text, and nested columns have
/// fewer rows.
const UNPACKED_RATIO_MAX: usize = 8;
const UNPACKED_BYTES_MIN: usize = 64 << 10;

/// Tables of lines whose layouts cost less to read than their text columns to search, at most: some microseconds for each.
const FEW_TABLES_MAX: usize = 64;

/// Bytes behind unpacked data, so that a copy of this size may start anywhere in the data.
pub(crate) const PADDING_BYTES: usize = 32;

/// A packed block of lines, searched through [`bucksaw_search::SearchBlock`]. Unpacked frames and decoded columns are kept.
#[derive(Debug)]
pub struct ColumnBlock {
    packed: Vec<u8>,
    frames: Vec<PackedFrame>,
    /// The encoded tree with its literals, and [`PADDING_BYTES`].
    meta: Vec<u8>,
    pub(crate) tree: ColumnTree,
    pub(crate) decoded: Vec<OnceLock<Option<Box<DecodedColumn>>>>,
    pub(crate) line_lengths: LineLengths,
    /// For each table of lines, the rows whose values fit their roles: see [`bucksaw_search::LayoutReader`].
    fitting: OnceLock<Box<[OnceLock<Option<RowSet>>]>>,
    /// The rows of the tables of which `fitting` is known.
    rows_of_read_layouts: AtomicUsize,
    rows: usize,
    pub(crate) text_len: usize,
    memory: AtomicUsize,
    work: AtomicU64,
}

#[derive(Debug)]
struct PackedFrame {
    range: Range<usize>,
    raw_len: usize,
    raw: OnceLock<Option<Vec<u8>>>,
}

impl ColumnBlock {
    /// Reads the tree of a block of `rows` lines and `text_len` bytes of text; columns are unpacked on first use. `None` if the
    /// block is damaged.
    pub fn open(packed: Vec<u8>, rows: usize, text_len: usize) -> Option<Self> {
        let bytes_max = text_len.checked_mul(UNPACKED_RATIO_MAX)?.checked_add(UNPACKED_BYTES_MIN)?;
        let mut reader = ByteReader(&packed);
        let mut size = || reader.varint_u32().map(|size| size as usize);
        let (meta_raw, meta_len, count) = (size()?, size()?, size()?);
        if count > packed.len() || meta_raw > bytes_max || rows > text_len {
            return None;
        }
        let sizes: Option<Vec<(usize, usize)>> = (0..count).map(|_| Some((size()?, size()?))).collect();
        let sizes = sizes?;
        let meta = decompress_padded(reader.bytes(meta_len)?, meta_raw)?;
        let mut at = packed.len() - reader.len();
        let mut frames = Vec::with_capacity(count);
        let mut unpacked = meta_raw;
        for (len, raw_len) in &sizes {
            let range = at..at.checked_add(*len)?;
            at = range.end;
            unpacked += raw_len;
            if unpacked > bytes_max {
                return None;
            }
            frames.push(PackedFrame { range, raw_len: *raw_len, raw: OnceLock::new() });
        }
        if at != packed.len() {
            return None;
        }
        let raw_lens: Vec<usize> = sizes.into_iter().map(|(_, raw_len)| raw_len).collect();
        let tree = ColumnTree::read(meta.get(..meta_raw)?, rows, &raw_lens, bytes_max)?;
        let mut decoded = Vec::new();
        decoded.resize_with(tree.len(), OnceLock::new);
        let own = packed.len() + meta.len() + tree.memory() + decoded.len() * 16;
        let (line_lengths, fitting, memory) = (LineLengths::new(rows), OnceLock::new(), AtomicUsize::new(own));
        let work = AtomicU64::new(0);
        Some(Self {
            packed,
            frames,
            meta,
            tree,
            decoded,
            line_lengths,
            fitting,
            rows_of_read_layouts: AtomicUsize::new(0),
            rows,
            text_len,
            memory,
            work,
        })
    }

    /// The number of lines.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Memory in bytes, with everything that was unpacked so far.
    pub fn memory(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    /// The work of building the [text](Self::text), in the unit of [`bucksaw_search::SearchBlock::work`].
    pub fn text_work(&self) -> u64 {
        let values: usize = (0..self.tree.len()).filter_map(|at| self.tree.node(at)).map(|node| node.rows).sum();
        values as u64 * search_work::TEXT_VALUE + self.text_len as u64 * search_work::TEXT_BYTE
    }

    /// The work of all searches so far: see [`crate::search_work`].
    pub(crate) fn work(&self) -> u64 {
        self.work.load(Ordering::Relaxed)
    }

    pub(crate) fn add_work(&self, units: u64) {
        self.work.fetch_add(units, Ordering::Relaxed);
    }

    pub(crate) fn add_memory(&self, bytes: usize) {
        self.memory.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The rows of table `number` of lines, of `tables`, whose values fit their roles, found by `find` at first.
    pub(crate) fn fitting_rows(
        &self,
        tables: &[TableNode],
        number: usize,
        find: impl FnOnce() -> Option<RowSet>,
    ) -> Option<&RowSet> {
        let all = self.fitting.get_or_init(|| {
            self.add_memory(tables.len() * size_of::<OnceLock<Option<RowSet>>>());
            tables.iter().map(|_| OnceLock::new()).collect()
        });
        let rows = tables.get(number)?.rows;
        let found = all.get(number)?.get_or_init(|| {
            let found = find()?;
            self.add_memory(found.memory());
            self.rows_of_read_layouts.fetch_add(rows, Ordering::Relaxed);
            Some(found)
        });
        found.as_ref()
    }

    /// Whether the fitting rows of most lines are known, and tables are few.
    pub(crate) fn prefers_layouts(&self) -> bool {
        self.rows_of_read_layouts.load(Ordering::Relaxed) > self.rows / 2 && self.tree.line_tables() <= FEW_TABLES_MAX
    }

    pub(crate) fn root(&self) -> usize {
        self.tree.len() - 1
    }

    pub(crate) fn node(&self, at: usize) -> Option<&ColumnNode> {
        self.tree.node(at)
    }

    pub(crate) fn literal(&self, list: IndexRange) -> &[u8] {
        list.slice(&self.meta)
    }

    /// The bytes that contain all literals.
    pub(crate) fn literals(&self) -> &[u8] {
        self.meta.get(..self.meta.len() - PADDING_BYTES).unwrap_or_default()
    }

    /// These bytes from an offset on, with [`PADDING_BYTES`] behind them.
    pub(crate) fn padded_literals_from(&self, start: usize) -> Option<&[u8]> {
        self.meta.get(start..)
    }

    /// An unpacked frame, with [`PADDING_BYTES`] behind it.
    fn padded_frame(&self, frame: u32) -> Option<&[u8]> {
        let frame = self.frames.get(frame as usize)?;
        let raw = frame.raw.get_or_init(|| {
            self.add_memory(frame.raw_len);
            decompress_padded(self.packed.get(frame.range.clone())?, frame.raw_len)
        });
        raw.as_deref()
    }

    /// The bytes of a column.
    pub(crate) fn bytes(&self, payload: Payload) -> Option<&[u8]> {
        let start = payload.offset as usize;
        self.padded_frame(payload.frame)?.get(start..start + payload.len as usize)
    }

    /// The bytes of a column and everything behind them, at least [`PADDING_BYTES`].
    pub(crate) fn padded_bytes_from(&self, payload: Payload) -> Option<&[u8]> {
        self.padded_frame(payload.frame)?.get(payload.offset as usize..)
    }

    /// All bytes of the frame that contains a column.
    pub(crate) fn frame_bytes(&self, payload: Payload) -> Option<&[u8]> {
        let frame = self.padded_frame(payload.frame)?;
        frame.get(..frame.len() - PADDING_BYTES)
    }

    pub(crate) fn frame_count(&self) -> usize {
        self.frames.len()
    }
}

/// Unpacks a frame and appends [`PADDING_BYTES`].
fn decompress_padded(packed: &[u8], raw_len: usize) -> Option<Vec<u8>> {
    thread_local! {
        /// Creating a decompressor takes longer than unpacking a small frame.
        static UNPACKER: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
    }
    UNPACKER.with_borrow_mut(|unpacker| {
        let unpacker = match unpacker {
            Some(unpacker) => unpacker,
            none => none.insert(zstd::bulk::Decompressor::new().ok()?),
        };
        let mut raw = Vec::with_capacity(raw_len + PADDING_BYTES);
        let len = unpacker.decompress_to_buffer(packed, &mut raw).ok()?;
        raw.resize(raw_len + PADDING_BYTES, 0);
        (len == raw_len).then_some(raw)
    })
}
