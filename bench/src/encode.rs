//! `encode`: the CPU cost of encoding blocks, with the quick and the final codec of the store, compared with zstd.
//!
//! Runs on one thread in this process, without queue, files or checksums; `search` and `compaction` measure those.

use std::path::PathBuf;

use anyhow::Context as _;
use bucksaw_columns::{Encoder, TextEncoding};
use bucksaw_segment::Codec;
use bucksaw_store::Config;
use clap::Args;

use crate::context::BenchContext;
use crate::hostile::TEXTS;
use crate::results::{BenchRun, Figure, figure};
use crate::{machine, process};

/// zstd compresses pieces of this size at this level, as in `search`.
const ZSTD_BYTES: usize = 4 << 20;
const ZSTD_LEVEL: i32 = 3;

/// Measure the speed of block encoding, compared with zstd
#[derive(Debug, Args)]
pub(crate) struct EncodeArgs {
    /// Files of lines; generated lines if omitted
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Bytes of a file to encode, from its beginning
    #[arg(long, value_name = "SIZE", default_value = "256MB")]
    sample: crate::context::Size,

    /// Level of zstd of the final codec; that of the store if omitted
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(i8).range(1..=19))]
    level: Option<i8>,

    /// Encode generated texts that are hard to compress instead of files
    #[arg(long, conflicts_with = "files")]
    hostile: bool,
}

/// Bytes of a generated text: two blocks.
const HOSTILE_BYTES: usize = 32 << 20;

pub(crate) fn run(args: &EncodeArgs, context: &BenchContext) -> anyhow::Result<()> {
    let mut results = context.results("encode")?;
    let mut measure_rounds = |subject: &str, text: &[u8]| -> anyhow::Result<()> {
        for round in 1..=args.rounds as usize {
            let load = machine::load();
            eprintln!("{subject}, round {round}");
            let figures = measure(text, args.level)?;
            results.runs.push(BenchRun { subject: subject.to_owned(), round, load, figures });
        }
        Ok(())
    };
    if args.hostile {
        for (name, make) in TEXTS {
            measure_rounds(name, &make(HOSTILE_BYTES))?;
        }
    } else {
        for corpus in context.corpora(&args.files)? {
            measure_rounds(&corpus.name(), &corpus.sample(args.sample.0)?)?;
        }
    }
    context.report_in_rows(&results)
}

fn measure(text: &[u8], level: Option<i8>) -> anyhow::Result<Vec<Figure>> {
    let mut config = Config::default();
    if let Some(level) = level {
        config.codec_final = Codec::Columns(level);
    }
    let block_bytes = usize::try_from(config.block_bytes)?;
    let quick = timed(text, block_bytes, columns(config.codec_quick))?;
    let good = timed(text, block_bytes, columns(config.codec_final))?;
    let zstd = timed(text, ZSTD_BYTES, |block| Ok(zstd::bulk::compress(block, ZSTD_LEVEL)?.len()))?;
    let mb = text.len() as f64 / 1e6;
    Ok(vec![
        figure("text", "MB", mb),
        figure("quick", "MB per CPU second", mb / quick.seconds),
        figure("final", "MB per CPU second", mb / good.seconds),
        figure("zstd", "MB per CPU second", mb / zstd.seconds),
        figure("quick_against_zstd", "times", zstd.seconds / quick.seconds),
        figure("final_against_zstd", "times", zstd.seconds / good.seconds),
        figure("quick_packed", "bytes", quick.bytes as f64),
        figure("final_packed", "bytes", good.bytes as f64),
        figure("zstd_packed", "bytes", zstd.bytes as f64),
    ])
}

/// Encodes a block with this codec and its skip filter as the store does, and returns the number of bytes.
fn columns(codec: Codec) -> impl FnMut(&[u8]) -> anyhow::Result<usize> {
    let mut encoder = Encoder::new();
    move |block| {
        let Codec::Columns(level) = codec else { return Ok(codec.pack(block).1.len()) };
        let packed = encoder.encode(block, &[], i32::from(level));
        Ok(packed.filter.len()
            + match packed.text {
                TextEncoding::Columns(bytes) | TextEncoding::Zstd(bytes) => bytes.len(),
                TextEncoding::Plain => block.len(),
            })
    }
}

/// Totals of all blocks.
struct EncodeResult {
    seconds: f64,
    bytes: usize,
}

fn timed(
    text: &[u8],
    block_bytes: usize,
    mut pack: impl FnMut(&[u8]) -> anyhow::Result<usize>,
) -> anyhow::Result<EncodeResult> {
    // A first run without measurement allocates the memory.
    if let Some(block) = blocks(text, block_bytes).next() {
        pack(block)?;
    }
    let before = process::thread_cpu_seconds()?;
    let mut bytes = 0;
    for block in blocks(text, block_bytes) {
        bytes += pack(block).context("a block cannot be encoded")?;
    }
    Ok(EncodeResult { seconds: process::thread_cpu_seconds()? - before, bytes })
}

/// Splits the text at line ends into pieces of at least `size` bytes, as the store closes a block after the line that
/// fills it.
pub(crate) fn blocks(text: &[u8], bytes: usize) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = rest.get(bytes..).and_then(|tail| memchr::memchr(b'\n', tail)).map(|at| bytes + at + 1);
        let (block, after) = rest.split_at_checked(end.unwrap_or(rest.len()))?;
        rest = after;
        (!block.is_empty()).then_some(block)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_contain_complete_lines_and_cover_the_text() {
        let text: Vec<u8> = (0..4_000).flat_map(|n| format!("{}\n", "x".repeat(n % 97)).into_bytes()).collect();
        let cut: Vec<&[u8]> = blocks(&text, 10_000).collect();
        assert_eq!(cut.concat(), text);
        assert!(cut.len() > 10 && cut.iter().all(|block| block.ends_with(b"\n") && block.len() < 10_100));
        assert_eq!(blocks(b"", 10).count(), 0);
    }

    #[test]
    fn the_final_codec_is_smaller_than_zstd() {
        let text: Vec<u8> =
            (0..40_000).flat_map(|n| format!("GET /a/{} 200 {}\n", n % 31, n * 7).into_bytes()).collect();
        let figures = measure(&text, None).unwrap();
        let value = |name| figures.iter().find(|figure| figure.name == name).unwrap().value;
        assert!(value("final_packed") < value("zstd_packed"));
        assert!(value("final_packed") > 0.0 && value("quick_packed") > 0.0);
    }
}
