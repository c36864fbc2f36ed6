//! Packs frames with zstd.

use std::io;

use zstd::stream::raw::{CParameter, Encoder, InBuffer, Operation as _, OutBuffer};
use zstd::zstd_safe::compress_bound;

/// The fewest bytes with Huffman codes of their own, whose description takes up to 128 bytes.
const SECTION_BYTES_MIN: usize = 1_000;

/// Bytes by which a section at most exceeds [`compress_bound`]: its header, and the end of a frame.
const SECTION_OVERHEAD: usize = 16;

/// Packs the frames of a block. Keeps the tables of zstd, which take longer to create than a frame takes to pack.
pub(crate) struct FramePacker(Encoder<'static>);

impl FramePacker {
    pub(crate) fn new() -> io::Result<Self> {
        Encoder::new(0).map(Self)
    }

    /// Packs a frame whose bytes are likely to have other frequencies behind each of these places, which ascend.
    pub(crate) fn pack(&mut self, level: i32, raw: &[u8], cuts: impl Iterator<Item = usize>) -> io::Result<Vec<u8>> {
        let encoder = &mut self.0;
        encoder.reinit()?;
        encoder.set_parameter(CParameter::CompressionLevel(level))?;
        encoder.set_pledged_src_size(Some(raw.len() as u64))?;
        let cuts: Vec<usize> = sections(cuts, raw.len());
        let mut packed = Vec::with_capacity(compress_bound(raw.len()) + (cuts.len() + 1) * SECTION_OVERHEAD);
        let mut out = OutBuffer::around(&mut packed);
        let mut start = 0;
        for end in cuts {
            let section = raw.get(start..end).unwrap_or_default();
            encoder.run(&mut InBuffer::around(section), &mut out)?;
            whole(encoder.flush(&mut out)?)?;
            start = end;
        }
        encoder.run(&mut InBuffer::around(raw.get(start..).unwrap_or_default()), &mut out)?;
        whole(encoder.finish(&mut out, true)?)?;
        Ok(packed)
    }
}

/// The cuts between sections that are long enough.
fn sections(cuts: impl Iterator<Item = usize>, end: usize) -> Vec<usize> {
    let mut start = 0;
    let is_long = |cut: &usize| {
        let is_long = cut - start >= SECTION_BYTES_MIN && end - cut >= SECTION_BYTES_MIN;
        start = if is_long { *cut } else { start };
        is_long
    };
    cuts.filter(is_long).collect()
}

/// An error if zstd has not written everything, for which there is always room.
fn whole(rest: usize) -> io::Result<()> {
    if rest == 0 { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn frames_unpack(parts in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..20), 0..200_usize), 0..20), level in 1..10_i32) {
            let parts: Vec<Vec<u8>> = parts.into_iter().map(|(piece, times)| piece.repeat(times)).collect();
            let raw = parts.concat();
            let mut end = 0;
            let cuts = parts.iter().map(|part| { end += part.len(); end });
            let mut packer = FramePacker::new().unwrap();
            packer.pack(9, b"another frame", std::iter::empty()).unwrap();
            let packed = packer.pack(level, &raw, cuts).unwrap();
            prop_assert_eq!(zstd::bulk::decompress(&packed, raw.len()).unwrap(), raw);
        }
    }

    #[test]
    fn bytes_with_other_frequencies_have_other_codes() {
        // Letters of two alphabets, in an order that never recurs.
        let letters =
            |base: u8, step: u32| (0..60_000_u32).map(move |at| base + (at.wrapping_mul(step) >> 24 & 15) as u8);
        let raw: Vec<u8> = letters(b'A', 2_654_435_761).chain(letters(b'a', 2_246_822_519)).collect();
        let mut packer = FramePacker::new().unwrap();
        let mut bytes = |cut: Option<usize>| packer.pack(1, &raw, cut.into_iter()).unwrap().len();
        assert!(bytes(Some(60_000)) * 10 < bytes(None) * 9, "{} {}", bytes(Some(60_000)), bytes(None));
    }

    #[test]
    fn short_sections_are_joined() {
        assert_eq!(sections([0, 10, 999, 1_000, 1_500, 2_500, 3_000].into_iter(), 3_999), [1_000, 2_500]);
        assert_eq!(sections([4_000].into_iter(), 4_000), [] as [usize; 0]);
    }
}
