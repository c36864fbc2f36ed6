//! Writing the tree of columns.

use crate::encode::{Node, Split};
use crate::fixed::Place;
use crate::numbers::Numbers;

/// Columns are packed together until they have this many bytes: the unit of unpacking.
const FRAME_BYTES: usize = 128 << 10;

pub(crate) const SAME: u8 = 0;
pub(crate) const RAW: u8 = 1;
pub(crate) const INTEGERS: u8 = 2;
pub(crate) const FIXED: u8 = 3;
pub(crate) const DICTIONARY: u8 = 4;
pub(crate) const MAPPED: u8 = 5;
pub(crate) const COPY: u8 = 6;
pub(crate) const SPLIT: u8 = 7;

/// Where the bytes of a column go: text, or numbers.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Numbers,
}

#[derive(Default)]
struct Stream {
    open: Vec<u8>,
    /// Number of the open frame.
    frame: u32,
}

pub(crate) struct Writer {
    packer: zstd::bulk::Compressor<'static>,
    streams: [Stream; 2],
    frames: Vec<Vec<u8>>,
    raw_lens: Vec<usize>,
    meta: Vec<u8>,
}

pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

impl Writer {
    pub(crate) fn new(level: i32) -> std::io::Result<Self> {
        let mut writer = Self {
            packer: zstd::bulk::Compressor::new(level)?,
            streams: Default::default(),
            frames: Vec::new(),
            raw_lens: Vec::new(),
            meta: Vec::new(),
        };
        for stream in &mut writer.streams {
            stream.frame = writer.frames.len() as u32;
            writer.frames.push(Vec::new());
            writer.raw_lens.push(0);
        }
        Ok(writer)
    }

    fn payload(&mut self, kind: Kind, bytes: &[u8]) -> std::io::Result<()> {
        let stream = &mut self.streams[kind as usize];
        put(&mut self.meta, u64::from(stream.frame));
        put(&mut self.meta, stream.open.len() as u64);
        put(&mut self.meta, bytes.len() as u64);
        stream.open.extend_from_slice(bytes);
        if stream.open.len() >= FRAME_BYTES {
            self.close(kind)?;
        }
        Ok(())
    }

    fn close(&mut self, kind: Kind) -> std::io::Result<()> {
        let stream = &mut self.streams[kind as usize];
        let frame = stream.frame as usize;
        self.frames[frame] = self.packer.compress(&stream.open)?;
        self.raw_lens[frame] = stream.open.len();
        stream.open.clear();
        stream.frame = self.frames.len() as u32;
        self.frames.push(Vec::new());
        self.raw_lens.push(0);
        Ok(())
    }

    fn numbers(&mut self, numbers: &Numbers) -> std::io::Result<()> {
        self.meta.push(numbers.width as u8 | u8::from(numbers.steps) << 7);
        put(&mut self.meta, numbers.base);
        self.payload(Kind::Numbers, &numbers.planes)
    }

    fn ids(&mut self, ids: &[u32], distinct: usize) -> std::io::Result<()> {
        let width = match distinct {
            0..=0x100 => 1,
            0x101..=0x1_0000 => 2,
            0x1_0001..=0x100_0000 => 3,
            _ => 4,
        };
        let mut planes = Vec::with_capacity(ids.len() * width);
        for plane in 0..width {
            planes.extend(ids.iter().map(|id| (id >> (plane * 8)) as u8));
        }
        self.meta.push(width as u8);
        self.payload(Kind::Numbers, &planes)
    }

    fn node(&mut self, node: &Node) -> std::io::Result<()> {
        match node {
            Node::Same(value) => {
                self.meta.push(SAME);
                put(&mut self.meta, value.len() as u64);
                self.meta.extend_from_slice(value);
            }
            Node::Raw(bytes) => {
                self.meta.push(RAW);
                self.payload(Kind::Text, bytes)?;
            }
            Node::Integers(numbers) => {
                self.meta.push(INTEGERS);
                self.numbers(numbers)?;
            }
            Node::Fixed { places, numbers, nibbles } => {
                self.meta.push(FIXED);
                put(&mut self.meta, places.len() as u64);
                for place in places {
                    match place {
                        Place::Same(byte) => self.meta.extend_from_slice(&[0, *byte]),
                        Place::Digit => self.meta.push(1),
                        Place::Lower => self.meta.push(2),
                        Place::Upper => self.meta.push(3),
                    }
                }
                for numbers in numbers {
                    self.numbers(numbers)?;
                }
                self.payload(Kind::Numbers, nibbles)?;
            }
            Node::Dictionary { ids, distinct, values } => {
                self.meta.push(DICTIONARY);
                put(&mut self.meta, *distinct as u64);
                self.ids(ids, *distinct)?;
                self.node(values)?;
            }
            Node::Mapped { leader, map, values } => {
                self.meta.push(MAPPED);
                put(&mut self.meta, *leader as u64);
                let distinct = map.iter().max().map_or(0, |most| *most as usize + 1);
                put(&mut self.meta, distinct as u64);
                let same = map.iter().enumerate().all(|(at, to)| at == *to as usize);
                self.meta.push(u8::from(same));
                if !same {
                    self.ids(map, distinct)?;
                }
                self.node(values)?;
            }
            Node::Copy { column } => {
                self.meta.push(COPY);
                put(&mut self.meta, *column as u64);
            }
            Node::Split(split) => {
                self.meta.push(SPLIT);
                self.split(split)?;
            }
        }
        Ok(())
    }

    /// The bytes of a block.
    pub(crate) fn write(mut self, split: Split) -> std::io::Result<Vec<u8>> {
        self.split(&split)?;
        drop(split);
        self.finish()
    }

    fn split(&mut self, split: &Split) -> std::io::Result<()> {
        put(&mut self.meta, split.tables.len() as u64);
        let one = split.rest.is_empty() && split.tables.len() == 1;
        self.meta.push(u8::from(one));
        if !one {
            self.ids(&split.order, split.tables.len() + 1)?;
            self.payload(Kind::Text, &split.rest)?;
        }
        for table in &split.tables {
            put(&mut self.meta, table.rows as u64);
            put(&mut self.meta, table.layout.len() as u64);
            self.meta.extend_from_slice(&table.layout);
            for column in &table.columns {
                self.node(column)?;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> std::io::Result<Vec<u8>> {
        self.close(Kind::Text)?;
        self.close(Kind::Numbers)?;
        let meta = self.packer.compress(&self.meta)?;
        let mut out = Vec::new();
        put(&mut out, self.meta.len() as u64);
        put(&mut out, meta.len() as u64);
        put(&mut out, self.frames.len() as u64);
        for (frame, raw) in self.frames.iter().zip(&self.raw_lens) {
            put(&mut out, frame.len() as u64);
            put(&mut out, *raw as u64);
        }
        out.extend_from_slice(&meta);
        for frame in &self.frames {
            out.extend_from_slice(frame);
        }
        Ok(out)
    }
}
