//! The bandwidth of a disk: how much longer a sync takes for more data.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;

use super::median::median;
use super::sample::Sample;

/// Bytes of the two kinds of files. The larger ones are still within what a limit of 40 MB/s and more lets pass at once.
const SMALL_BYTES: usize = 64 << 10;
const LARGE_BYTES: usize = 4 << 20;

/// Files of each kind. Their median is not that of a disk that stalls at times.
const ROUNDS: usize = 21;

/// Bytes per second that the disk writes besides the time of a sync, with files in this directory.
///
/// # Errors
/// A file cannot be written, or large ones take no longer than small ones.
pub(super) async fn bytes_per_second(directory: &Path, sample: &Sample) -> anyhow::Result<f64> {
    let text: Vec<u8> = sample.first_lines(LARGE_BYTES).iter().copied().cycle().take(LARGE_BYTES).collect();
    let (small_text, _) = text.split_at(SMALL_BYTES);
    let (mut small, mut large) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        small.push(write_seconds(directory, small_text)?);
        large.push(write_seconds(directory, &text)?);
        // A disk may be slow, and an interrupt is noticed here.
        tokio::task::yield_now().await;
    }
    let seconds = median(large).zip(median(small)).map(|(large, small)| large - small);
    let seconds = seconds.filter(|seconds| *seconds > 0.0);
    let cannot = "the bandwidth of the disk cannot be measured: 4 MiB take no longer than 64 KiB";
    Ok((LARGE_BYTES - SMALL_BYTES) as f64 / seconds.context(cannot)?)
}

/// The time of a write and a sync, in a file of its own.
fn write_seconds(directory: &Path, text: &[u8]) -> anyhow::Result<f64> {
    let path = directory.join("bandwidth");
    let written = (|| {
        let mut file = File::create(&path)?;
        let started = Instant::now();
        file.write_all(text)?;
        file.sync_data()?;
        let seconds = started.elapsed().as_secs_f64();
        std::fs::remove_file(&path)?;
        std::io::Result::Ok(seconds)
    })();
    written.with_context(|| format!("cannot write {}", path.display()))
}
