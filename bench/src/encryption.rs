//! `encryption`: the CPU cost of encryption at rest, for a queue segment and for a stored segment.
//!
//! Runs on one thread in this process, over files in memory: no listener, and no disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::ensure;
use bucksaw_crypt::{EncryptedFs, KeyList, KeyRing};
use bucksaw_env::{File, Fs, sim};
use bucksaw_record::{Id, Labels, Millis, Producer};
use bucksaw_segment::queue::{HEADER_LEN, checksum_seed, encode_header, frame_cipher, scan_segment};
use bucksaw_segment::stored::{Reader, SegmentOrigin, Writer};
use bucksaw_segment::{BlockBuilder, FileHeader, FrameHeader, FrameKind, Rows};
use bucksaw_store::Config;
use clap::Args;

use crate::context::{BenchContext, Size};
use crate::results::{BenchRun, Figure, figure};
use crate::{machine, process};

/// Bytes of a frame: what a node reads of a busy connection at once.
const FRAME_BYTES: usize = 1 << 20;

const ID: Id = Id::from_bits(7);

/// Measure the cost of encryption at rest
#[derive(Debug, Args)]
pub(crate) struct EncryptionCostArgs {
    /// Files of lines; generated lines if omitted
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Bytes of a file, from its beginning
    #[arg(long, value_name = "SIZE", default_value = "128MB")]
    sample: Size,
}

pub(crate) fn run(args: &EncryptionCostArgs, context: &BenchContext) -> anyhow::Result<()> {
    let mut results = context.results("encryption")?;
    for corpus in context.corpora(&args.files)? {
        let sample = corpus.sample(args.sample.0)?;
        for round in 1..=args.rounds as usize {
            let load = machine::load();
            eprintln!("{}, round {round}", corpus.name());
            for (name, is_encrypted) in [("plain", false), ("encrypted", true)] {
                let figures = measure(&sample, is_encrypted)?;
                results.runs.push(BenchRun { subject: format!("{}, {name}", corpus.name()), round, load, figures });
            }
        }
    }
    context.report_in_rows(&results)
}

fn file(is_encrypted: bool) -> anyhow::Result<Arc<dyn File>> {
    let mut fs: Arc<dyn Fs> = Arc::new(sim::Fs::new());
    if is_encrypted {
        let ring = KeyRing::new(KeyList::parse("01".repeat(32).as_bytes())?, Arc::new(sim::Entropy::seeded(1)));
        fs = Arc::new(EncryptedFs::new(fs, Arc::new(ring)));
    }
    Ok(fs.create(Path::new("file"))?)
}

fn measure(text: &[u8], is_encrypted: bool) -> anyhow::Result<Vec<Figure>> {
    let milliseconds = |seconds: f64| seconds * 1e3 / (text.len() as f64 / 1e9);
    let mut figures = Vec::new();
    let mut add = |what, seconds| figures.push(figure(what, "ms of CPU per GB of text", milliseconds(seconds)));
    let queue = file(is_encrypted)?;
    add("queue_write", timed(|| write_queue(&queue, text))?);
    let frames = pieces(text, FRAME_BYTES).count();
    add(
        "queue_read",
        timed(|| {
            let found = scan_segment(&queue, Path::new("file"), ID)?;
            ensure!(found.positions.len() == frames, "{} of {frames} frames were read", found.positions.len());
            Ok(())
        })?,
    );
    let stored = file(is_encrypted)?;
    add("store_write", timed(|| write_stored(&stored, text))?);
    let reader = Reader::open(stored, Path::new("file"))?;
    let blocks = 0..reader.footer().blocks.len();
    add("open_blocks", timed(|| Ok(blocks.clone().try_for_each(|block| reader.searchable_block(block).map(drop))?))?);
    add("read_text", timed(|| Ok(blocks.clone().try_for_each(|block| reader.block(block).map(drop))?))?);
    add("read_filters", timed(|| Ok(blocks.clone().try_for_each(|block| reader.filter(block).map(drop))?))?);
    Ok(figures)
}

/// CPU seconds of the work.
fn timed(work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let before = process::thread_cpu_seconds()?;
    work()?;
    Ok(process::thread_cpu_seconds()? - before)
}

fn write_queue(file: &Arc<dyn File>, text: &[u8]) -> anyhow::Result<()> {
    let (cipher, seed) = (frame_cipher(&**file, ID), checksum_seed(ID));
    let header = FileHeader { id: ID, version: 1 }.with_encryption(cipher.is_some());
    file.append(&[&encode_header(header)])?;
    let (stream, labels) = FrameHeader::stream(0, &Labels::parse("app=bench")?, Millis(0));
    let write = |header: FrameHeader, body: &[u8]| match &cipher {
        Some(cipher) => file.append(&[&header.encode_encrypted(seed, &[body], &**cipher)?]),
        None => file.append(&[&header.encode(seed, &[body]), body]),
    };
    write(stream, &labels)?;
    let mut number = 0;
    for piece in pieces(text, FRAME_BYTES) {
        let header = FrameHeader {
            body_len: u32::try_from(piece.len())?,
            row_meta_len: 0,
            first_id: Id::new(Millis(HEADER_LEN as u64), Producer::new(1), number),
            count: lines(piece),
            stream: 0,
            accepted: Millis(1),
            kind: FrameKind::Records,
            layout_bits: 0,
        };
        write(header, piece)?;
        number += header.count;
    }
    Ok(())
}

fn write_stored(file: &Arc<dyn File>, text: &[u8]) -> anyhow::Result<()> {
    let config = Config::default();
    let mut writer = Writer::start(Arc::clone(file), FileHeader { id: ID, version: 1 })?;
    let mut number = 0;
    for piece in pieces(text, usize::try_from(config.block_bytes)?) {
        let (count, mut rows) = (lines(piece), Rows::default());
        rows.push_run(Id::new(Millis(1), Producer::new(1), number), count);
        number += count;
        let mut builder = BlockBuilder::default();
        builder.push(&Labels::parse("app=bench")?, &rows, 0..count, piece);
        writer.append(&mut builder, config.codec_final)?;
    }
    writer.seal(SegmentOrigin::default())?;
    Ok(())
}

fn lines(text: &[u8]) -> u32 {
    memchr::memchr_iter(b'\n', text).count() as u32
}

/// Splits the text at line ends into pieces of at least `bytes` bytes; an incomplete line at its end is left out.
fn pieces(text: &[u8], bytes: usize) -> impl Iterator<Item = &[u8]> {
    let mut rest = text.get(..memchr::memrchr(b'\n', text).map_or(0, |end| end + 1)).unwrap_or_default();
    std::iter::from_fn(move || {
        let end = rest.get(bytes..).and_then(|tail| memchr::memchr(b'\n', tail)).map(|at| bytes + at + 1);
        let (piece, after) = rest.split_at_checked(end.unwrap_or(rest.len()))?;
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}
