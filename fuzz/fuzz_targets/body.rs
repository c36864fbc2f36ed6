//! Request bodies: any bytes in every encoding and format, and compressed text against the same text uncompressed.
#![no_main]
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bucksaw_env::{Env, sim};
use bucksaw_ingest::{Config, Durability, Metrics, Queue};
use bucksaw_record::Labels;
use bucksaw_record::time::TimeZone;
use bucksaw_sources::Intake;
use bucksaw_sources::http::{
    BodyChunks, BodyError, BodyFormat, BodyIntake, BodyLimits, BodyMetrics, Encoding, IngestReply, IngestRequest,
};
use libfuzzer_sys::fuzz_target;
use prometheus_client::registry::Registry;
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Builder::new_current_thread().enable_time().build().unwrap());

const ENCODINGS: [Encoding; 5] =
    [Encoding::Identity, Encoding::Gzip, Encoding::Deflate, Encoding::Zstd, Encoding::Snappy];

struct FuzzedBody(Vec<u8>, usize);

impl BodyChunks for FuzzedBody {
    async fn next_chunk(&mut self) -> Option<Result<bytes::Bytes, String>> {
        let rest = self.0.split_off(self.0.len().min(self.1));
        let chunk = std::mem::replace(&mut self.0, rest);
        (!chunk.is_empty()).then(|| Ok(chunk.into()))
    }
}

/// The format of a body, and the zone if its lines have times.
type BodyKind = (BodyFormat, Option<TimeZone>);

fn ingest(
    (format, line_zone): BodyKind,
    encoding: Encoding,
    body: Vec<u8>,
    chunk_bytes: usize,
) -> Result<IngestReply, BodyError> {
    let env = Env {
        fs: Arc::new(sim::Fs::new()),
        clock: Arc::new(sim::Clock::at_unix_ms(1_700_000_000_000)),
        entropy: Arc::new(sim::Entropy::seeded(1)),
    };
    let metrics = Metrics::new(&mut Registry::default());
    let queue = Queue::open(env.clone(), Path::new("/queue"), Config::default(), metrics).unwrap().0;
    let limits = BodyLimits {
        idle_timeout: Duration::from_secs(30),
        record_bytes_max: 1 << 10,
        decompressed_bytes_max: 4 << 20,
        memory_bytes_max: 64 << 20,
        memory_wait_max: Duration::from_secs(10),
        workers_max: 1,
    };
    let intake = Intake::new(Arc::new(queue), env);
    let bodies = BodyIntake::new(intake, limits, BodyMetrics::register(&mut Registry::default()));
    let request = IngestRequest {
        batch_time: None,
        line_zone,
        format,
        encoding,
        labels: Labels::default(),
        durability: Durability::Fast,
        key: None,
        bytes_min: body.len() as u64,
    };
    RUNTIME.block_on(bodies.ingest(request, FuzzedBody(body, chunk_bytes)))
}

fn compress(encoding: Encoding, text: &[u8]) -> Vec<u8> {
    match encoding {
        Encoding::Identity => text.to_vec(),
        Encoding::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        }
        Encoding::Deflate => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        }
        Encoding::Zstd => zstd::encode_all(text, 1).unwrap(),
        Encoding::Snappy => snap::raw::Encoder::new().compress_vec(text).unwrap(),
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&[choice, chunk_bytes], body)) = data.split_first_chunk() else { return };
    let format = if choice & 1 == 0 { BodyFormat::Lines } else { BodyFormat::Ndjson };
    let kind = (format, (choice & 2 != 0).then_some(TimeZone::UTC));
    let encoding = ENCODINGS[usize::from(choice >> 2) % ENCODINGS.len()];
    let chunk_bytes = usize::from(chunk_bytes) + 1;
    let _ = ingest(kind.clone(), encoding, body.to_vec(), chunk_bytes);
    let plain = ingest(kind.clone(), Encoding::Identity, body.to_vec(), usize::MAX);
    let compressed = ingest(kind, encoding, compress(encoding, body), chunk_bytes);
    assert_eq!(compressed, plain, "{encoding:?} {format:?}");
});
