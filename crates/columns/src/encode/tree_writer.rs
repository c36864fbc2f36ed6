//! Serialises the tree of columns and packs its frames.

use bucksaw_binary::put_varint;

use crate::encode::encoded_column::{EncodedColumn, LayoutTables};
use crate::encode::number_planes::NumberPlanes;
use crate::fixed_width::PatternByte;
use crate::format::{CONSTANT, COPY, DICTIONARY, FIXED_WIDTH, INTEGERS, MAPPED, RAW, TABLES};

/// The size of a frame, in bytes, from which a new one is started. Frames are the unit of unpacking.
const FRAME_BYTES: usize = 128 << 10;

/// Levels of zstd by which numbers are packed higher than text. They become 4 % smaller over all logs for 3 % of the time of encoding;
/// text gains a tenth of that.
const NUMBERS_LEVELS: i32 = 2;

/// The lowest level that is raised. Lower ones are chosen for text of which less time is to be taken.
const RAISED_LEVEL_MIN: i32 = 3;

/// The stream of frames that the bytes of a column go to.
#[derive(Clone, Copy)]
enum PayloadKind {
    Text,
    Numbers,
}

#[derive(Default)]
struct FrameBuffer {
    pending: Vec<u8>,
    /// The number of the open frame.
    frame: u32,
}

pub(crate) struct TreeWriter {
    compressor: zstd::bulk::Compressor<'static>,
    level: i32,
    streams: [FrameBuffer; 2],
    frames: Vec<Vec<u8>>,
    raw_lens: Vec<usize>,
    meta: Vec<u8>,
}

impl TreeWriter {
    pub(crate) fn new(level: i32) -> std::io::Result<Self> {
        let mut writer = Self {
            compressor: zstd::bulk::Compressor::new(level)?,
            level,
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

    fn write_payload(&mut self, kind: PayloadKind, bytes: &[u8]) -> std::io::Result<()> {
        let stream = &mut self.streams[kind as usize];
        put_varint(&mut self.meta, u64::from(stream.frame));
        put_varint(&mut self.meta, stream.pending.len() as u64);
        put_varint(&mut self.meta, bytes.len() as u64);
        stream.pending.extend_from_slice(bytes);
        if stream.pending.len() >= FRAME_BYTES {
            self.flush_frame(kind)?;
        }
        Ok(())
    }

    fn flush_frame(&mut self, kind: PayloadKind) -> std::io::Result<()> {
        let stream = &mut self.streams[kind as usize];
        let frame = stream.frame as usize;
        let higher = match kind {
            PayloadKind::Numbers if self.level >= RAISED_LEVEL_MIN => NUMBERS_LEVELS,
            PayloadKind::Numbers | PayloadKind::Text => 0,
        };
        self.compressor.set_compression_level(self.level + higher)?;
        self.frames[frame] = self.compressor.compress(&stream.pending)?;
        self.raw_lens[frame] = stream.pending.len();
        stream.pending.clear();
        stream.frame = self.frames.len() as u32;
        self.frames.push(Vec::new());
        self.raw_lens.push(0);
        Ok(())
    }

    fn write_numbers(&mut self, numbers: &NumberPlanes) -> std::io::Result<()> {
        self.meta.push(numbers.width as u8 | u8::from(numbers.is_delta) << 7);
        put_varint(&mut self.meta, numbers.base);
        self.write_payload(PayloadKind::Numbers, &numbers.planes)
    }

    fn write_codes(&mut self, ids: &[u32], distinct: usize) -> std::io::Result<()> {
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
        self.write_payload(PayloadKind::Numbers, &planes)
    }

    fn write_column(&mut self, node: &EncodedColumn) -> std::io::Result<()> {
        match node {
            EncodedColumn::Constant(value) => {
                self.meta.push(CONSTANT);
                put_varint(&mut self.meta, value.len() as u64);
                self.meta.extend_from_slice(value);
            }
            EncodedColumn::Raw(bytes) => {
                self.meta.push(RAW);
                self.write_payload(PayloadKind::Text, bytes)?;
            }
            EncodedColumn::Integers(numbers) => {
                self.meta.push(INTEGERS);
                self.write_numbers(numbers)?;
            }
            EncodedColumn::Fixed { pattern, numbers, nibbles } => {
                self.meta.push(FIXED_WIDTH);
                put_varint(&mut self.meta, pattern.len() as u64);
                for place in pattern {
                    match place {
                        PatternByte::Literal(byte) => self.meta.extend_from_slice(&[0, *byte]),
                        PatternByte::Digit => self.meta.push(1),
                        PatternByte::LowerHex => self.meta.push(2),
                        PatternByte::UpperHex => self.meta.push(3),
                    }
                }
                for numbers in numbers {
                    self.write_numbers(numbers)?;
                }
                self.write_payload(PayloadKind::Numbers, nibbles)?;
            }
            EncodedColumn::Dictionary { codes, distinct, values } => {
                self.meta.push(DICTIONARY);
                put_varint(&mut self.meta, *distinct as u64);
                self.write_codes(codes, *distinct)?;
                self.write_column(values)?;
            }
            EncodedColumn::Mapped { determinant, map, values } => {
                self.meta.push(MAPPED);
                put_varint(&mut self.meta, *determinant as u64);
                let distinct = map.iter().max().map_or(0, |most| *most as usize + 1);
                put_varint(&mut self.meta, distinct as u64);
                let same = map.iter().enumerate().all(|(at, to)| at == *to as usize);
                self.meta.push(u8::from(same));
                if !same {
                    self.write_codes(map, distinct)?;
                }
                self.write_column(values)?;
            }
            EncodedColumn::Copy { column } => {
                self.meta.push(COPY);
                put_varint(&mut self.meta, *column as u64);
            }
            EncodedColumn::Tables(split) => {
                self.meta.push(TABLES);
                self.write_tables(split)?;
            }
        }
        Ok(())
    }

    /// The serialised block.
    pub(crate) fn write(mut self, split: LayoutTables) -> std::io::Result<Vec<u8>> {
        self.write_tables(&split)?;
        drop(split);
        self.finish()
    }

    fn write_tables(&mut self, split: &LayoutTables) -> std::io::Result<()> {
        put_varint(&mut self.meta, split.tables.len() as u64);
        let one = split.outliers.is_empty() && split.tables.len() == 1;
        self.meta.push(u8::from(one));
        if !one {
            self.write_codes(&split.table_ids, split.tables.len() + 1)?;
            self.write_payload(PayloadKind::Text, &split.outliers)?;
        }
        for table in &split.tables {
            put_varint(&mut self.meta, table.rows as u64);
            put_varint(&mut self.meta, table.layout.len() as u64);
            self.meta.extend_from_slice(&table.layout);
            for column in &table.columns {
                self.write_column(column)?;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> std::io::Result<Vec<u8>> {
        self.flush_frame(PayloadKind::Text)?;
        self.flush_frame(PayloadKind::Numbers)?;
        self.compressor.set_compression_level(self.level)?;
        let meta = self.compressor.compress(&self.meta)?;
        let mut out = Vec::new();
        put_varint(&mut out, self.meta.len() as u64);
        put_varint(&mut out, meta.len() as u64);
        put_varint(&mut out, self.frames.len() as u64);
        for (frame, raw) in self.frames.iter().zip(&self.raw_lens) {
            put_varint(&mut out, frame.len() as u64);
            put_varint(&mut out, *raw as u64);
        }
        out.extend_from_slice(&meta);
        for frame in &self.frames {
            out.extend_from_slice(frame);
        }
        Ok(out)
    }
}
