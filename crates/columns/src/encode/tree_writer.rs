//! Serialises the tree of columns and packs its frames.

use std::ops::Range;
use std::{io, iter};

use bucksaw_binary::put_varint;

use crate::encode::encoded_column::{EncodedColumn, LayoutTables};
use crate::encode::frame_packer::FramePacker;
use crate::encode::number_planes::NumberPlanes;
use crate::encode::payload_class::{PayloadClass, PayloadContent};
use crate::fixed_width::PatternByte;
use crate::format::{CONSTANT, COPY, DICTIONARY, FIXED_WIDTH, INTEGERS, MAPPED, RAW, TABLES};

/// The size of a frame, in bytes, from which a new one is started. Frames are the unit of unpacking.
const FRAME_BYTES: usize = 128 << 10;

/// Bytes of a payload's place as a rule.
const PLACE_BYTES: usize = 6;

/// A frame as stored.
struct WrittenFrame {
    packed: Vec<u8>,
    raw_len: usize,
}

/// Where a payload is.
#[derive(Clone, Copy, Default)]
struct PayloadPlace {
    frame: usize,
    offset: usize,
}

/// Bytes of a column, which are packed after the tree is written.
struct PendingPayload {
    class: PayloadClass,
    range: Range<usize>,
    /// Where in the tree its place is written.
    tree_at: usize,
}

pub(crate) struct TreeWriter {
    level: i32,
    payloads: Vec<PendingPayload>,
    /// The bytes of all payloads.
    bytes: Vec<u8>,
    /// The tree without the places of payloads.
    tree: Vec<u8>,
}

impl TreeWriter {
    pub(crate) fn new(level: i32) -> Self {
        Self { level, payloads: Vec::new(), bytes: Vec::new(), tree: Vec::new() }
    }

    fn write_payload(&mut self, class: PayloadClass, payload: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(payload);
        self.end_payload(class, start);
    }

    /// Makes the bytes from `start` on a payload.
    fn end_payload(&mut self, class: PayloadClass, start: usize) {
        self.payloads.push(PendingPayload { class, range: start..self.bytes.len(), tree_at: self.tree.len() });
    }

    fn write_text(&mut self, text: &[u8]) {
        self.write_payload(PayloadClass::of_text(text), text);
    }

    fn write_numbers(&mut self, numbers: &NumberPlanes) {
        self.tree.push(numbers.width as u8 | u8::from(numbers.is_delta) << 7);
        put_varint(&mut self.tree, numbers.base);
        let content = if numbers.is_delta { PayloadContent::Deltas } else { PayloadContent::Offsets };
        self.write_payload(PayloadClass::of_numbers(content, numbers.width, &numbers.planes), &numbers.planes);
    }

    fn write_codes(&mut self, ids: &[u32], distinct: usize) {
        let width = match distinct {
            0..=0x100 => 1,
            0x101..=0x1_0000 => 2,
            0x1_0001..=0x100_0000 => 3,
            _ => 4,
        };
        self.tree.push(width as u8);
        let start = self.bytes.len();
        for plane in 0..width {
            self.bytes.extend(ids.iter().map(|id| (id >> (plane * 8)) as u8));
        }
        let class = PayloadClass::of_numbers(PayloadContent::Codes, width, &self.bytes[start..]);
        self.end_payload(class, start);
    }

    fn write_column(&mut self, node: &EncodedColumn) {
        match node {
            EncodedColumn::Constant(value) => {
                self.tree.push(CONSTANT);
                put_varint(&mut self.tree, value.len() as u64);
                self.tree.extend_from_slice(value);
            }
            EncodedColumn::Raw(bytes) => {
                self.tree.push(RAW);
                self.write_text(bytes);
            }
            EncodedColumn::Integers(numbers) => {
                self.tree.push(INTEGERS);
                self.write_numbers(numbers);
            }
            EncodedColumn::Fixed { pattern, numbers, nibbles } => {
                self.tree.push(FIXED_WIDTH);
                put_varint(&mut self.tree, pattern.len() as u64);
                for place in pattern {
                    match place {
                        PatternByte::Literal(byte) => self.tree.extend_from_slice(&[0, *byte]),
                        PatternByte::Digit => self.tree.push(1),
                        PatternByte::LowerHex => self.tree.push(2),
                        PatternByte::UpperHex => self.tree.push(3),
                    }
                }
                for numbers in numbers {
                    self.write_numbers(numbers);
                }
                self.write_payload(PayloadClass::of_numbers(PayloadContent::Nibbles, 1, nibbles), nibbles);
            }
            EncodedColumn::Dictionary { codes, distinct, values } => {
                self.tree.push(DICTIONARY);
                put_varint(&mut self.tree, *distinct as u64);
                self.write_codes(codes, *distinct);
                self.write_column(values);
            }
            EncodedColumn::Mapped { determinant, map, values } => {
                self.tree.push(MAPPED);
                put_varint(&mut self.tree, *determinant as u64);
                let distinct = map.iter().max().map_or(0, |most| *most as usize + 1);
                put_varint(&mut self.tree, distinct as u64);
                let same = map.iter().enumerate().all(|(at, to)| at == *to as usize);
                self.tree.push(u8::from(same));
                if !same {
                    self.write_codes(map, distinct);
                }
                self.write_column(values);
            }
            EncodedColumn::Copy { column } => {
                self.tree.push(COPY);
                put_varint(&mut self.tree, *column as u64);
            }
            EncodedColumn::Tables(split) => {
                self.tree.push(TABLES);
                self.write_tables(split);
            }
        }
    }

    /// The serialised block.
    pub(crate) fn write(mut self, split: LayoutTables) -> io::Result<Vec<u8>> {
        self.write_tables(&split);
        drop(split);
        self.finish()
    }

    fn write_tables(&mut self, split: &LayoutTables) {
        put_varint(&mut self.tree, split.tables.len() as u64);
        let one = split.outliers.is_empty() && split.tables.len() == 1;
        self.tree.push(u8::from(one));
        if !one {
            self.write_codes(&split.table_ids, split.tables.len() + 1);
            self.write_text(&split.outliers);
        }
        for table in &split.tables {
            put_varint(&mut self.tree, table.rows as u64);
            put_varint(&mut self.tree, table.layout.len() as u64);
            self.tree.extend_from_slice(&table.layout);
            for column in &table.columns {
                self.write_column(column);
            }
        }
    }

    fn finish(self) -> io::Result<Vec<u8>> {
        let mut packer = FramePacker::new()?;
        let (frames, places) = self.pack_payloads(&mut packer)?;
        let tree = self.whole_tree(&places);
        let packed_tree = packer.pack(PayloadClass::tree_level(self.level), &tree, iter::empty())?;
        let mut out = Vec::new();
        put_varint(&mut out, tree.len() as u64);
        put_varint(&mut out, packed_tree.len() as u64);
        put_varint(&mut out, frames.len() as u64);
        for frame in &frames {
            put_varint(&mut out, frame.packed.len() as u64);
            put_varint(&mut out, frame.raw_len as u64);
        }
        out.extend_from_slice(&packed_tree);
        frames.iter().for_each(|frame| out.extend_from_slice(&frame.packed));
        Ok(out)
    }

    /// Packs the payloads by class. Returns the frames, and the place of each payload.
    fn pack_payloads(&self, packer: &mut FramePacker) -> io::Result<(Vec<WrittenFrame>, Vec<PayloadPlace>)> {
        let mut order: Vec<usize> = (0..self.payloads.len()).collect();
        order.sort_by_key(|number| self.payloads[*number].class);
        let (mut frames, mut places) = (Vec::new(), vec![PayloadPlace::default(); order.len()]);
        let (mut raw, mut cuts) = (Vec::new(), Vec::new());
        // Frames have one level, and none has texts and numbers: searches of texts look at whole frames.
        let frame_kind = |class: PayloadClass| (class.is_number(), class.level(self.level));
        let mut order = order.into_iter().peekable();
        while let Some(number) = order.next() {
            let payload = &self.payloads[number];
            places[number] = PayloadPlace { frame: frames.len(), offset: raw.len() };
            raw.extend_from_slice(&self.bytes[payload.range.clone()]);
            let next = order.peek().map(|next| self.payloads[*next].class);
            let kind = frame_kind(payload.class);
            if raw.len() >= FRAME_BYTES || next.is_none_or(|next| frame_kind(next) != kind) {
                let packed = packer.pack(payload.class.level(self.level), &raw, cuts.drain(..))?;
                frames.push(WrittenFrame { packed, raw_len: raw.len() });
                raw.clear();
            } else if next != Some(payload.class) {
                cuts.push(raw.len());
            }
        }
        Ok((frames, places))
    }

    /// The tree with the places of all payloads.
    fn whole_tree(&self, places: &[PayloadPlace]) -> Vec<u8> {
        let mut whole = Vec::with_capacity(self.tree.len() + self.payloads.len() * PLACE_BYTES);
        let mut start = 0;
        for (payload, place) in self.payloads.iter().zip(places) {
            whole.extend_from_slice(&self.tree[start..payload.tree_at]);
            put_varint(&mut whole, place.frame as u64);
            put_varint(&mut whole, place.offset as u64);
            put_varint(&mut whole, payload.range.len() as u64);
            start = payload.tree_at;
        }
        whole.extend_from_slice(&self.tree[start..]);
        whole
    }
}
