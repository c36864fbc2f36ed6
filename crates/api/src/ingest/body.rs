//! Unpacking a body as it comes, never further than is allowed.

use std::io::{self, Read as _, Write};

use axum::http::StatusCode;
use flate2::write::MultiGzDecoder;
use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use super::pipeline::Pipeline;
use crate::error::ApiError;

/// A snappy body in the block format cannot be unpacked before it is all there.
const SNAPPY_BYTES_MAX: usize = 16 << 20;

/// The greatest window of a zstd body, as a power of two: 8 MiB, which RFC 9659 sets for HTTP. It is what a client can make
/// each of its connections hold.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// What a zstd decoder may take: a window, its tables, and a block in and out.
const ZSTD_BYTES: usize = (1 << ZSTD_WINDOW_LOG_MAX) + (1 << 20);

/// What the other decoders take.
const GZIP_BYTES: usize = 64 << 10;
const SNAPPY_STREAM_BYTES: usize = 256 << 10;

/// Text that a zstd decoder gives at a time.
const ZSTD_TEXT_BYTES: usize = 128 << 10;

/// How a framed snappy stream starts; anything else is the block format.
const SNAPPY_STREAM: &[u8] = b"\xff\x06\x00\x00sNaPpY";

/// Unpacks what is pushed into a pipeline.
pub(crate) enum Decompressor {
    Plain(Sink),
    Gzip(Box<MultiGzDecoder<Sink>>),
    Zstd(ZstdDecoder),
    Snappy { packed: Vec<u8>, sink: Sink },
}

/// Where unpacked bytes go.
pub(crate) struct Sink {
    pipeline: Pipeline,
    left: u64,
    max: u64,
    /// What went wrong behind the unpacking library's back.
    failed: Option<ApiError>,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = match self.left.checked_sub(bytes.len() as u64) {
            Some(left) => {
                self.left = left;
                self.pipeline.push(bytes)
            }
            None => {
                let message =
                    format!("the decompressed body exceeds {} bytes: split it into several requests", self.max);
                Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message))
            }
        };
        match taken {
            Ok(()) => Ok(bytes.len()),
            Err(error) => {
                self.failed = Some(error);
                Err(io::ErrorKind::Other.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Decompressor {
    pub(crate) fn new(encoding: &str, pipeline: Pipeline, unpacked_bytes_max: u64) -> Result<Self, ApiError> {
        let sink = |max| Sink { pipeline, left: max, max, failed: None };
        Ok(match encoding.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Self::Plain(sink(u64::MAX)),
            "gzip" | "x-gzip" => Self::Gzip(Box::new(MultiGzDecoder::new(sink(unpacked_bytes_max)))),
            "zstd" => {
                let mut decoder = DCtx::try_create().ok_or_else(ApiError::internal)?;
                let window = DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX);
                decoder.set_parameter(window).map_err(|_| ApiError::internal())?;
                Self::Zstd(ZstdDecoder { decoder, ended: false, sink: sink(unpacked_bytes_max) })
            }
            "snappy" | "x-snappy-framed" => Self::Snappy { packed: Vec::new(), sink: sink(unpacked_bytes_max) },
            other => {
                let message = format!("Content-Encoding {other} is not known: gzip, zstd and snappy are");
                return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
            }
        })
    }

    fn sink(&mut self) -> &mut Sink {
        match self {
            Self::Plain(sink) | Self::Snappy { sink, .. } => sink,
            Self::Gzip(decoder) => decoder.get_mut(),
            Self::Zstd(decoder) => &mut decoder.sink,
        }
    }

    /// Where what is unpacked goes.
    pub(crate) fn pipeline(&self) -> &Pipeline {
        match self {
            Self::Plain(sink) | Self::Snappy { sink, .. } => &sink.pipeline,
            Self::Gzip(decoder) => &decoder.get_ref().pipeline,
            Self::Zstd(decoder) => &decoder.sink.pipeline,
        }
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.pipeline().accepted()
    }

    /// Bytes that are held between two calls.
    pub(crate) fn buffered_bytes(&self) -> usize {
        let own = match self {
            Self::Plain(_) => 0,
            Self::Gzip(_) => GZIP_BYTES,
            Self::Zstd(decoder) => decoder.decoder.sizeof(),
            Self::Snappy { packed, .. } => packed.capacity(),
        };
        own + self.pipeline().buffered_bytes()
    }

    /// Bytes that may be held at any time while this part of a body is taken and, where it `ends` there, finished; the
    /// part itself not counted.
    pub(crate) fn peak_bytes(&self, part: &[u8], ends: bool) -> usize {
        let pipeline = self.pipeline();
        match self {
            Self::Plain(_) => pipeline.peak_bytes(part.len()),
            Self::Gzip(_) => GZIP_BYTES + pipeline.peak_bytes(usize::MAX),
            Self::Zstd(_) => ZSTD_BYTES + pipeline.peak_bytes(usize::MAX),
            Self::Snappy { packed, sink } => {
                let held = packed.capacity().max(snappy_capacity(packed.len() + part.len()));
                let head: Vec<u8> = packed.iter().chain(part).take(SNAPPY_STREAM.len()).copied().collect();
                match snap::raw::decompress_len(&head) {
                    _ if !ends => held,
                    _ if head.starts_with(SNAPPY_STREAM) => {
                        held + SNAPPY_STREAM_BYTES + pipeline.peak_bytes(usize::MAX)
                    }
                    // What is longer is refused before it is unpacked.
                    Ok(text) if text as u64 <= sink.left => held + text + pipeline.peak_bytes(text),
                    _ => held,
                }
            }
        }
    }

    /// Bytes that one body may need at a time. A snappy body may need more: it is worked on as a whole.
    pub(crate) fn peak_bytes_max(record_bytes_max: usize) -> usize {
        ZSTD_BYTES + Pipeline::peak_bytes_max(record_bytes_max)
    }

    /// Gives what was gathered to the queue.
    pub(crate) fn flush(&mut self) -> Result<(), ApiError> {
        self.sink().pipeline.flush()
    }

    /// Holds no more than is needed until there is more of the body.
    pub(crate) fn release_buffers(&mut self) {
        self.sink().pipeline.release_buffer();
    }

    /// Takes more of the body.
    pub(crate) fn push(&mut self, packed: &[u8]) -> Result<(), ApiError> {
        let written = match self {
            Self::Plain(sink) => sink.write_all(packed),
            Self::Gzip(decoder) => decoder.write_all(packed),
            Self::Zstd(decoder) => decoder.push(packed),
            Self::Snappy { packed: held, .. } => {
                if held.len() + packed.len() > SNAPPY_BYTES_MAX {
                    let message = format!("a snappy body may have {SNAPPY_BYTES_MAX} bytes");
                    return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message));
                }
                let bytes = held.len() + packed.len();
                if bytes > held.capacity() {
                    held.reserve_exact(snappy_capacity(bytes) - held.len());
                }
                held.extend_from_slice(packed);
                Ok(())
            }
        };
        self.checked(written)
    }

    /// The body is at its end.
    pub(crate) fn finish(&mut self) -> Result<(), ApiError> {
        let finished = match self {
            Self::Plain(_) => Ok(()),
            Self::Gzip(decoder) => decoder.try_finish(),
            Self::Zstd(decoder) => decoder.finish(),
            Self::Snappy { packed, sink } => decompress_snappy(packed, sink),
        };
        self.checked(finished)?;
        self.sink().pipeline.finish()
    }

    fn checked(&mut self, done: io::Result<()>) -> Result<(), ApiError> {
        match (self.sink().failed.take(), done) {
            (Some(error), _) => Err(error),
            (None, Err(error)) => Err(ApiError::bad_request(format!("the body cannot be decompressed: {error}"))),
            (None, Ok(())) => Ok(()),
        }
    }

    pub(crate) fn into_pipeline(self) -> Pipeline {
        match self {
            Self::Plain(sink) | Self::Snappy { sink, .. } => sink.pipeline,
            // Both were finished; there is nothing left in them.
            Self::Gzip(decoder) => match decoder.finish() {
                Ok(sink) => sink.pipeline,
                Err(_) => unreachable!("a decoder that was finished finishes"),
            },
            Self::Zstd(decoder) => decoder.sink.pipeline,
        }
    }
}

/// Unpacks zstd frames, one after the other. Not the library's own writer, which does not tell what it holds.
pub(crate) struct ZstdDecoder {
    decoder: DCtx<'static>,
    /// Whether the last frame is at its end.
    ended: bool,
    sink: Sink,
}

impl ZstdDecoder {
    fn push(&mut self, packed: &[u8]) -> io::Result<()> {
        let mut input = InBuffer::around(packed);
        let mut text = vec![0; ZSTD_TEXT_BYTES];
        let mut is_full = false;
        while input.pos < packed.len() || is_full {
            let mut output = OutBuffer::around(text.as_mut_slice());
            let hint = self.decoder.decompress_stream(&mut output, &mut input);
            let hint = hint.map_err(|code| io::Error::other(zstd::zstd_safe::get_error_name(code)))?;
            self.ended = hint == 0;
            // There may be more of it within, until it does not fill this.
            is_full = output.as_slice().len() == ZSTD_TEXT_BYTES && !self.ended;
            self.sink.write_all(output.as_slice())?;
        }
        Ok(())
    }

    fn finish(&self) -> io::Result<()> {
        if self.ended { Ok(()) } else { Err(io::Error::new(io::ErrorKind::UnexpectedEof, "incomplete frame")) }
    }
}

/// Room for so much of a snappy body: twice as much each time, up to what it may have.
fn snappy_capacity(bytes: usize) -> usize {
    bytes.max(bytes.saturating_mul(2).min(SNAPPY_BYTES_MAX))
}

fn decompress_snappy(packed: &[u8], sink: &mut Sink) -> io::Result<()> {
    if packed.starts_with(SNAPPY_STREAM) {
        let mut decoder = snap::read::FrameDecoder::new(packed);
        let mut window = vec![0; 64 << 10];
        loop {
            match decoder.read(&mut window)? {
                0 => return Ok(()),
                read => sink.write_all(window.get(..read).unwrap_or_default())?,
            }
        }
    }
    // The length stands in front, and is believed only as far as is allowed.
    let length = snap::raw::decompress_len(packed).map_err(io::Error::other)?;
    if length as u64 > sink.left {
        let message = format!("the decompressed body exceeds {} bytes: split it into several requests", sink.max);
        sink.failed = Some(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message));
        return Err(io::ErrorKind::Other.into());
    }
    let text = snap::raw::Decoder::new().decompress_vec(packed).map_err(io::Error::other)?;
    sink.write_all(&text)
}
