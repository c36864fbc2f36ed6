//! Reading the tree of columns back. All that is said in it is checked before it is used.
#![deny(clippy::indexing_slicing)]

use std::cell::RefCell;
use std::ops::Range;
use std::sync::OnceLock;

use crate::cut::TOKEN;
use crate::decode::Decoded;
use crate::fixed::{self, Place};
use crate::meta::Meta;
use crate::write::{COPY, DICTIONARY, FIXED, INTEGERS, MAPPED, RAW, SAME, SPLIT};

/// Trees are this deep at most.
const DEPTH_MAX: usize = 12;

/// What a block unpacks to, its columns and what is said of them, against its text, at most; and what is allowed to the
/// smallest. Also the sum of the rows of all columns: a token has a byte of text, and columns within columns have fewer.
const UNPACKED_MAX: usize = 8;
const UNPACKED_MIN: usize = 64 << 10;

/// A packed block of lines that can be searched.
#[derive(Debug)]
pub struct Block {
    packed: Vec<u8>,
    frames: Vec<Frame>,
    meta: Vec<u8>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) decoded: Vec<OnceLock<Option<Decoded>>>,
    rows: usize,
    text_len: usize,
    /// Rows that further columns may have together.
    budget: usize,
}

#[derive(Debug)]
struct Frame {
    range: Range<usize>,
    raw_len: usize,
    raw: OnceLock<Vec<u8>>,
}

/// Where the bytes of a column are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payload {
    frame: u32,
    offset: u32,
    len: u32,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) rows: usize,
    pub(crate) kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Same(Range<usize>),
    Raw(Payload),
    Integers(NumbersAt),
    Fixed { places: Vec<Place>, numbers: Vec<NumbersAt>, nibbles: Payload },
    Dictionary { ids: Ids, values: usize },
    Mapped { leader: usize, map: Option<Ids>, values: usize },
    Copy(usize),
    Split { order: Option<Ids>, rest: Option<usize>, tables: Vec<Table> },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct NumbersAt {
    pub(crate) width: u8,
    pub(crate) steps: bool,
    pub(crate) base: u64,
    pub(crate) planes: Payload,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Ids {
    pub(crate) width: u8,
    /// All are below this.
    pub(crate) below: u32,
    pub(crate) planes: Payload,
}

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) rows: usize,
    pub(crate) parts: Vec<Part>,
}

#[derive(Clone, Debug)]
pub(crate) enum Part {
    Literal(Range<usize>),
    Column(usize),
}

impl Block {
    /// Reads what stands in the block; the columns are unpacked when they are asked for. `None` when it is damaged.
    #[must_use]
    pub fn open(packed: Vec<u8>, rows: usize, text_len: usize) -> Option<Self> {
        let most = text_len.checked_mul(UNPACKED_MAX)?.checked_add(UNPACKED_MIN)?;
        let mut head = Meta { bytes: &packed, at: 0 };
        let (meta_raw, meta_len, count) = (head.size()?, head.size()?, head.size()?);
        if count > packed.len() || meta_raw > most || rows > text_len {
            return None;
        }
        let sizes: Option<Vec<(usize, usize)>> = (0..count).map(|_| Some((head.size()?, head.size()?))).collect();
        let mut at = head.at.checked_add(meta_len)?;
        let meta = unpack(packed.get(head.at..at)?, meta_raw)?;
        let mut frames = Vec::with_capacity(count);
        let mut unpacked = meta_raw;
        for (len, raw_len) in sizes? {
            let range = at..at.checked_add(len)?;
            at = range.end;
            unpacked += raw_len;
            if unpacked > most {
                return None;
            }
            frames.push(Frame { range, raw_len, raw: OnceLock::new() });
        }
        if at != packed.len() {
            return None;
        }
        let mut block = Self {
            packed,
            frames,
            meta: Vec::new(),
            nodes: Vec::new(),
            decoded: Vec::new(),
            rows,
            text_len,
            budget: most,
        };
        let mut reader = Meta { bytes: &meta, at: 0 };
        let root = block.read_split(&mut reader, rows, 0)?;
        block.nodes.push(Node { rows, kind: root });
        if reader.at != meta.len() {
            return None;
        }
        block.decoded.resize_with(block.nodes.len(), OnceLock::new);
        block.meta = meta;
        Some(block)
    }

    /// How many lines.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn text_len(&self) -> usize {
        self.text_len
    }

    pub(crate) fn root(&self) -> usize {
        self.nodes.len() - 1
    }

    pub(crate) fn node(&self, at: usize) -> Option<&Node> {
        self.nodes.get(at)
    }

    pub(crate) fn literal(&self, range: &Range<usize>) -> &[u8] {
        self.meta.get(range.clone()).unwrap_or_default()
    }

    fn read_payload(&self, meta: &mut Meta<'_>) -> Option<Payload> {
        let payload = Payload { frame: meta.size()? as u32, offset: meta.size()? as u32, len: meta.size()? as u32 };
        let frame = self.frames.get(payload.frame as usize)?;
        (payload.offset as usize + payload.len as usize <= frame.raw_len).then_some(payload)
    }

    fn read_ids(&self, meta: &mut Meta<'_>, rows: usize, below: usize) -> Option<Ids> {
        let width = meta.byte().filter(|width| (1..=4).contains(width))?;
        let planes = self.read_payload(meta)?;
        let below = u32::try_from(below).ok()?;
        (planes.len as usize == rows * width as usize).then_some(Ids { width, below, planes })
    }

    fn read_numbers(&self, meta: &mut Meta<'_>, rows: usize) -> Option<NumbersAt> {
        let head = meta.byte()?;
        let (width, steps) = (head & 0x7f, head >> 7 == 1);
        let base = meta.varint()?;
        let planes = self.read_payload(meta)?;
        (width <= 8 && planes.len as usize == rows * width as usize).then_some(NumbersAt { width, steps, base, planes })
    }

    fn read_node(&mut self, meta: &mut Meta<'_>, rows: usize, depth: usize) -> Option<usize> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.budget = self.budget.checked_sub(rows + 1)?;
        let kind = match meta.byte()? {
            SAME => Kind::Same(meta.range()?),
            RAW => Kind::Raw(self.read_payload(meta)?),
            INTEGERS => Kind::Integers(self.read_numbers(meta, rows)?),
            FIXED => {
                let places: Option<Vec<Place>> = (0..meta.size().filter(|count| *count <= 64)?)
                    .map(|_| match meta.byte()? {
                        0 => Some(Place::Same(meta.byte()?)),
                        1 => Some(Place::Digit),
                        2 => Some(Place::Lower),
                        3 => Some(Place::Upper),
                        _ => None,
                    })
                    .collect();
                let places = places?;
                let numbers: Option<Vec<NumbersAt>> =
                    (0..fixed::number_count(&places)).map(|_| self.read_numbers(meta, rows)).collect();
                let nibbles = self.read_payload(meta)?;
                if nibbles.len as usize != rows * fixed::nibble_bytes(&places) {
                    return None;
                }
                Kind::Fixed { places, numbers: numbers?, nibbles }
            }
            DICTIONARY => {
                let distinct = meta.size().filter(|distinct| *distinct <= rows)?;
                let ids = self.read_ids(meta, rows, distinct)?;
                Kind::Dictionary { ids, values: self.read_node(meta, distinct, depth + 1)? }
            }
            MAPPED => {
                // The place among the columns of the table, until all of them are read.
                let leader = meta.size()?;
                let distinct = meta.size().filter(|distinct| *distinct <= rows)?;
                let map = match meta.byte()? {
                    0 => {
                        let width = meta.byte().filter(|width| (1..=4).contains(width))?;
                        Some(Ids { width, below: distinct as u32, planes: self.read_payload(meta)? })
                    }
                    1 => None,
                    _ => return None,
                };
                Kind::Mapped { leader, map, values: self.read_node(meta, distinct, depth + 1)? }
            }
            COPY => Kind::Copy(meta.size()?),
            SPLIT => self.read_split(meta, rows, depth + 1)?,
            _ => return None,
        };
        self.nodes.push(Node { rows, kind });
        Some(self.nodes.len() - 1)
    }

    fn read_split(&mut self, meta: &mut Meta<'_>, rows: usize, depth: usize) -> Option<Kind> {
        let count = meta.size().filter(|count| *count <= meta.bytes.len())?;
        let one = meta.byte()? == 1;
        if one && count != 1 {
            return None;
        }
        let order = if one { None } else { Some(self.read_ids(meta, rows, count + 1)?) };
        let rest = if one { None } else { Some(self.read_payload(meta)?) };
        let mut tables = Vec::with_capacity(count);
        let mut sum = 0_usize;
        for _ in 0..count {
            let table_rows = meta.size()?;
            self.budget = self.budget.checked_sub(1)?;
            sum += table_rows;
            if sum > rows || (one && table_rows != rows) {
                return None;
            }
            let layout = meta.range()?;
            let mut parts = Vec::new();
            let mut columns = Vec::new();
            let mut from = layout.start;
            let marks: Vec<usize> = layout.clone().filter(|at| meta.bytes.get(*at) == Some(&TOKEN)).collect();
            for mark in marks {
                if from < mark {
                    parts.push(Part::Literal(from..mark));
                }
                from = mark + 1;
                let node = self.read_node(meta, table_rows, depth)?;
                columns.push(node);
                parts.push(Part::Column(node));
            }
            if from < layout.end {
                parts.push(Part::Literal(from..layout.end));
            }
            self.refer(&columns)?;
            tables.push(Table { rows: table_rows, parts });
        }
        let rest = rest.map(|payload| {
            self.nodes.push(Node { rows: rows - sum, kind: Kind::Raw(payload) });
            self.nodes.len() - 1
        });
        if one && sum != rows {
            return None;
        }
        Some(Kind::Split { order, rest, tables })
    }

    /// Turns places among the columns of a table into nodes. What is referred to stands for itself, so there are no
    /// circles.
    fn refer(&mut self, columns: &[usize]) -> Option<()> {
        for column in columns {
            let target = match &self.nodes.get(*column)?.kind {
                Kind::Copy(place) | Kind::Mapped { leader: place, .. } => *columns.get(*place)?,
                _ => continue,
            };
            let below = match &self.nodes.get(target)?.kind {
                Kind::Dictionary { ids, .. } => Some(ids.below),
                Kind::Copy(_) | Kind::Mapped { .. } => return None,
                _ => None,
            };
            let values = match &self.nodes.get(*column)?.kind {
                Kind::Mapped { values, .. } => self.nodes.get(*values)?.rows,
                _ => 0,
            };
            match &mut self.nodes.get_mut(*column)?.kind {
                Kind::Copy(place) => *place = target,
                Kind::Mapped { leader, map, .. } => {
                    let below = below?;
                    let fits = match map {
                        None => below as usize <= values,
                        Some(map) => u64::from(map.planes.len) == u64::from(below) * u64::from(map.width),
                    };
                    if !fits {
                        return None;
                    }
                    *leader = target;
                }
                _ => {}
            }
        }
        Some(())
    }

    pub(crate) fn bytes(&self, payload: Payload) -> Option<&[u8]> {
        let frame = self.frames.get(payload.frame as usize)?;
        let raw = match frame.raw.get() {
            Some(raw) => raw,
            None => {
                let packed = self.packed.get(frame.range.clone())?;
                let raw = unpack(packed, frame.raw_len)?;
                frame.raw.get_or_init(|| raw)
            }
        };
        raw.get(payload.offset as usize..payload.offset as usize + payload.len as usize)
    }
}

fn unpack(packed: &[u8], raw_len: usize) -> Option<Vec<u8>> {
    thread_local! {
        /// Making one takes longer than to unpack a small frame.
        static UNPACKER: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
    }
    UNPACKER.with_borrow_mut(|unpacker| {
        let unpacker = match unpacker {
            Some(unpacker) => unpacker,
            none => none.insert(zstd::bulk::Decompressor::new().ok()?),
        };
        unpacker.decompress(packed, raw_len).ok().filter(|raw| raw.len() == raw_len)
    })
}
