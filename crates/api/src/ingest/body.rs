//! Unpacking a body as it comes, never further than is allowed.

use std::io::{self, Read as _, Write};

use axum::http::StatusCode;
use flate2::write::MultiGzDecoder;
use zstd::stream::raw::{DParameter, Decoder as Unzstd};
use zstd::stream::zio;

use super::pipeline::Pipeline;
use crate::error::ApiError;

/// A snappy body in the block format cannot be unpacked before it is all there.
const SNAPPY_BYTES_MAX: usize = 16 << 20;

/// The greatest window of a zstd body, as a power of two: 8 MiB, which RFC 9659 sets for HTTP. It is what a client can make
/// each of its connections hold.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// How a framed snappy stream starts; anything else is the block format.
const SNAPPY_STREAM: &[u8] = b"\xff\x06\x00\x00sNaPpY";

/// Unpacks what is pushed into a pipeline.
pub(crate) enum Unpacker {
    Plain(Sink),
    Gzip(Box<MultiGzDecoder<Sink>>),
    Zstd(Box<zio::Writer<Sink, Unzstd<'static>>>),
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
                let message = format!("the body unpacks to more than {} bytes: send it in several", self.max);
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

impl Unpacker {
    pub(crate) fn new(encoding: &str, pipeline: Pipeline, unpacked_bytes_max: u64) -> Result<Self, ApiError> {
        let sink = |max| Sink { pipeline, left: max, max, failed: None };
        Ok(match encoding.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Self::Plain(sink(u64::MAX)),
            "gzip" | "x-gzip" => Self::Gzip(Box::new(MultiGzDecoder::new(sink(unpacked_bytes_max)))),
            "zstd" => {
                let mut decoder = Unzstd::new().map_err(|_| ApiError::internal())?;
                let window = DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX);
                decoder.set_parameter(window).map_err(|_| ApiError::internal())?;
                Self::Zstd(Box::new(zio::Writer::new(sink(unpacked_bytes_max), decoder)))
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
            Self::Zstd(decoder) => decoder.writer_mut(),
        }
    }

    pub(crate) fn accepted(&mut self) -> u64 {
        self.sink().pipeline.accepted()
    }

    /// Takes more of the body.
    pub(crate) fn push(&mut self, packed: &[u8]) -> Result<(), ApiError> {
        let written = match self {
            Self::Plain(sink) => sink.write_all(packed),
            Self::Gzip(decoder) => decoder.write_all(packed),
            Self::Zstd(decoder) => decoder.write_all(packed),
            Self::Snappy { packed: held, .. } => {
                if held.len() + packed.len() > SNAPPY_BYTES_MAX {
                    let message = format!("a snappy body may have {SNAPPY_BYTES_MAX} bytes");
                    return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message));
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
            // Not a flush, to which half a frame is fine.
            Self::Zstd(decoder) => decoder.finish(),
            Self::Snappy { packed, sink } => unpack_snappy(packed, sink),
        };
        self.checked(finished)?;
        self.sink().pipeline.finish()
    }

    fn checked(&mut self, done: io::Result<()>) -> Result<(), ApiError> {
        match (self.sink().failed.take(), done) {
            (Some(error), _) => Err(error),
            (None, Err(error)) => Err(ApiError::bad(format!("the body does not unpack: {error}"))),
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
            Self::Zstd(decoder) => decoder.into_inner().0.pipeline,
        }
    }
}

fn unpack_snappy(packed: &[u8], sink: &mut Sink) -> io::Result<()> {
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
        let message = format!("the body unpacks to more than {} bytes: send it in several", sink.max);
        sink.failed = Some(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message));
        return Err(io::ErrorKind::Other.into());
    }
    let text = snap::raw::Decoder::new().decompress_vec(packed).map_err(io::Error::other)?;
    sink.write_all(&text)
}
