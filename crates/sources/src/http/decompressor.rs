//! Decompresses a body while it arrives, up to a limit.

use std::io::{self, Read as _, Write};

use flate2::write::{MultiGzDecoder, ZlibDecoder};
use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use super::body_consumer::BodyConsumer;
use super::body_error::{BodyError, BodyErrorReason};
use super::request::Encoding;

/// The largest snappy body. One in the block format can be decompressed only as a whole.
const SNAPPY_BYTES_MAX: usize = 16 << 20;

/// The largest window of a zstd body, as a power of two: 8 MiB, which RFC 9659 sets for HTTP. A client can make each of its
/// connections hold that much memory.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// Memory of a zstd decoder: a window, its tables, an input block and an output block.
const ZSTD_BYTES: usize = (1 << ZSTD_WINDOW_LOG_MAX) + (1 << 20);

/// The most text that a byte of deflate gives.
const DEFLATE_RATIO_MAX: usize = 1_032;

/// Memory of the other decoders.
const GZIP_BYTES: usize = 64 << 10;
const SNAPPY_STREAM_BYTES: usize = 256 << 10;

/// Size of the output buffer of a zstd decoder.
const ZSTD_TEXT_BYTES: usize = 128 << 10;

/// The first bytes of a framed snappy stream; any other body is in the block format.
const SNAPPY_STREAM: &[u8] = b"\xff\x06\x00\x00sNaPpY";

/// Decompresses a body for its consumer.
pub(super) enum Decompressor<C: BodyConsumer> {
    Plain(Sink<C>),
    Gzip(Box<MultiGzDecoder<Sink<C>>>),
    Zlib(Box<ZlibDecoder<Sink<C>>>),
    Zstd(ZstdDecoder<C>),
    Snappy { packed: Vec<u8>, sink: Sink<C> },
}

/// Passes decompressed bytes on and counts them.
pub(super) struct Sink<C> {
    consumer: C,
    /// Bytes that may still be written, of `max`.
    left: u64,
    max: u64,
    /// The error of a write, which the decompression library would replace by its own.
    failed: Option<BodyError>,
}

impl<C: BodyConsumer> Write for Sink<C> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.take(bytes.len(), |consumer| consumer.push(bytes)).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<C: BodyConsumer> Sink<C> {
    /// Passes text of this length on, within the limit.
    fn take(&mut self, length: usize, push: impl FnOnce(&mut C) -> Result<(), BodyError>) -> io::Result<()> {
        let left = self.left.checked_sub(length as u64).ok_or_else(|| too_large(self.max));
        let taken = left.and_then(|left| {
            self.left = left;
            push(&mut self.consumer)
        });
        taken.map_err(|error| {
            self.failed = Some(error);
            io::ErrorKind::Other.into()
        })
    }
}

impl<C: BodyConsumer> Decompressor<C> {
    pub(super) fn new(encoding: Encoding, consumer: C, bytes_max: u64) -> Result<Self, BodyError> {
        let sink = |max| Sink { consumer, left: max, max, failed: None };
        Ok(match encoding {
            Encoding::Identity => Self::Plain(sink(u64::MAX)),
            Encoding::Gzip => Self::Gzip(Box::new(MultiGzDecoder::new(sink(bytes_max)))),
            Encoding::Deflate => Self::Zlib(Box::new(ZlibDecoder::new(sink(bytes_max)))),
            Encoding::Zstd => {
                let mut decoder = DCtx::try_create().ok_or(BodyErrorReason::Internal)?;
                let window = DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX);
                decoder.set_parameter(window).map_err(|_| BodyErrorReason::Internal)?;
                Self::Zstd(ZstdDecoder { decoder, ended: false, sink: sink(bytes_max) })
            }
            Encoding::Snappy => Self::Snappy { packed: Vec::new(), sink: sink(bytes_max) },
        })
    }

    fn sink(&mut self) -> &mut Sink<C> {
        match self {
            Self::Plain(sink) | Self::Snappy { sink, .. } => sink,
            Self::Gzip(decoder) => decoder.get_mut(),
            Self::Zlib(decoder) => decoder.get_mut(),
            Self::Zstd(decoder) => &mut decoder.sink,
        }
    }

    /// Who takes the text.
    pub(super) fn consumer(&self) -> &C {
        match self {
            Self::Plain(sink) | Self::Snappy { sink, .. } => &sink.consumer,
            Self::Gzip(decoder) => &decoder.get_ref().consumer,
            Self::Zlib(decoder) => &decoder.get_ref().consumer,
            Self::Zstd(decoder) => &decoder.sink.consumer,
        }
    }

    pub(super) fn accepted(&self) -> u64 {
        self.consumer().accepted()
    }

    /// Bytes of memory that are held between two calls.
    pub(super) fn buffered_bytes(&self) -> usize {
        let own = match self {
            Self::Plain(_) => 0,
            Self::Gzip(_) | Self::Zlib(_) => GZIP_BYTES,
            Self::Zstd(decoder) => decoder.decoder.sizeof(),
            Self::Snappy { packed, .. } => packed.capacity(),
        };
        own + self.consumer().buffered_bytes()
    }

    /// The peak of memory while this part of a body is processed, the part itself not counted. `ends`: the body ends with it.
    pub(super) fn peak_bytes(&self, part: &[u8], ends: bool) -> usize {
        let consumer = self.consumer();
        match self {
            Self::Plain(_) => consumer.peak_bytes(part.len()),
            Self::Gzip(_) | Self::Zlib(_) => {
                // Some text of the part before may be held.
                let text = part.len().saturating_mul(DEFLATE_RATIO_MAX).saturating_add(GZIP_BYTES);
                GZIP_BYTES + consumer.peak_bytes(text)
            }
            Self::Zstd(_) => ZSTD_BYTES + consumer.peak_bytes(usize::MAX),
            Self::Snappy { packed, sink } => {
                let held = packed.capacity().max(snappy_capacity(packed.len() + part.len()));
                let head: Vec<u8> = packed.iter().chain(part).take(SNAPPY_STREAM.len()).copied().collect();
                match snap::raw::decompress_len(&head) {
                    _ if !ends => held,
                    _ if head.starts_with(SNAPPY_STREAM) => {
                        held + SNAPPY_STREAM_BYTES + consumer.peak_bytes(usize::MAX)
                    }
                    // A longer text is refused before it is decompressed.
                    Ok(text) if text as u64 <= sink.left => held + text + consumer.peak_bytes(text),
                    _ => held,
                }
            }
        }
    }

    /// Appends the collected records to the queue.
    pub(super) fn flush(&mut self) -> Result<(), BodyError> {
        self.sink().consumer.flush()
    }

    /// Frees memory that is not needed until more of the body arrives.
    pub(super) fn release_buffers(&mut self) {
        self.sink().consumer.release_buffer();
    }

    /// Processes more of the body.
    pub(super) fn push(&mut self, packed: &[u8]) -> Result<(), BodyError> {
        let written = match self {
            Self::Plain(sink) => sink.write_all(packed),
            Self::Gzip(decoder) => decoder.write_all(packed),
            Self::Zlib(decoder) => decoder.write_all(packed),
            Self::Zstd(decoder) => decoder.push(packed),
            Self::Snappy { packed: held, .. } => {
                if held.len() + packed.len() > SNAPPY_BYTES_MAX {
                    let message = format!("a snappy body may have {SNAPPY_BYTES_MAX} bytes");
                    return Err(BodyErrorReason::TooLarge(message).into());
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

    /// Processes the end of the body.
    pub(super) fn finish(&mut self) -> Result<(), BodyError> {
        let finished = match self {
            Self::Plain(_) => Ok(()),
            Self::Gzip(decoder) => decoder.try_finish(),
            Self::Zlib(decoder) => decoder.try_finish(),
            Self::Zstd(decoder) => decoder.finish(),
            Self::Snappy { packed, sink } => decompress_snappy(packed, sink),
        };
        self.checked(finished)?;
        self.sink().consumer.finish()
    }

    fn checked(&mut self, done: io::Result<()>) -> Result<(), BodyError> {
        match (self.sink().failed.take(), done) {
            (Some(error), _) => Err(error),
            (None, Err(error)) => {
                Err(BodyErrorReason::Invalid(format!("the body cannot be decompressed: {error}")).into())
            }
            (None, Ok(())) => Ok(()),
        }
    }

    pub(super) fn into_consumer(self) -> C {
        let finished = match self {
            Self::Plain(sink) | Self::Snappy { sink, .. } => Ok(sink),
            // The decoder was finished, so it holds nothing.
            Self::Gzip(decoder) => decoder.finish(),
            Self::Zlib(decoder) => decoder.finish(),
            Self::Zstd(decoder) => Ok(decoder.sink),
        };
        match finished {
            Ok(sink) => sink.consumer,
            Err(_) => unreachable!("a decoder that was finished finishes"),
        }
    }
}

/// Decompresses consecutive zstd frames. The library's own writer does not report its memory.
pub(super) struct ZstdDecoder<C> {
    decoder: DCtx<'static>,
    /// Whether the last frame is complete.
    ended: bool,
    sink: Sink<C>,
}

impl<C: BodyConsumer> ZstdDecoder<C> {
    fn push(&mut self, packed: &[u8]) -> io::Result<()> {
        let mut input = InBuffer::around(packed);
        let mut text = vec![0; ZSTD_TEXT_BYTES];
        let mut is_full = false;
        while input.pos < packed.len() || is_full {
            let mut output = OutBuffer::around(text.as_mut_slice());
            let hint = self.decoder.decompress_stream(&mut output, &mut input);
            let hint = hint.map_err(|code| io::Error::other(zstd::zstd_safe::get_error_name(code)))?;
            self.ended = hint == 0;
            // While the output buffer is full the decoder may hold more text.
            is_full = output.as_slice().len() == ZSTD_TEXT_BYTES && !self.ended;
            self.sink.write_all(output.as_slice())?;
        }
        Ok(())
    }

    fn finish(&self) -> io::Result<()> {
        if self.ended { Ok(()) } else { Err(io::Error::new(io::ErrorKind::UnexpectedEof, "incomplete frame")) }
    }
}

/// Memory of the decompressor of an encoding beside its consumer, and beside a snappy body.
pub(super) fn decompressor_bytes(encoding: Encoding) -> usize {
    match encoding {
        Encoding::Identity => 0,
        Encoding::Gzip | Encoding::Deflate => GZIP_BYTES,
        Encoding::Zstd => ZSTD_BYTES,
        Encoding::Snappy => SNAPPY_STREAM_BYTES,
    }
}

/// Memory that a decompressor may need beside its consumer. A snappy body may need more, because it is decompressed as a whole.
pub(super) const PEAK_BYTES_MAX: usize = ZSTD_BYTES;

fn too_large(bytes_max: u64) -> BodyError {
    let message = format!("the decompressed body exceeds {bytes_max} bytes: split it into several requests");
    BodyErrorReason::TooLarge(message).into()
}

/// Memory for `bytes` of a snappy body: twice as much at each growth, up to the limit.
fn snappy_capacity(bytes: usize) -> usize {
    bytes.max(bytes.saturating_mul(2).min(SNAPPY_BYTES_MAX))
}

fn decompress_snappy<C: BodyConsumer>(packed: &[u8], sink: &mut Sink<C>) -> io::Result<()> {
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
    // The length in front of the block is checked against the limit before memory is allocated.
    let length = snap::raw::decompress_len(packed).map_err(io::Error::other)?;
    if length as u64 > sink.left {
        sink.failed = Some(too_large(sink.max));
        return Err(io::ErrorKind::Other.into());
    }
    let text = snap::raw::Decoder::new().decompress_vec(packed).map_err(io::Error::other)?;
    sink.take(text.len(), |consumer| consumer.push_owned(text))
}
