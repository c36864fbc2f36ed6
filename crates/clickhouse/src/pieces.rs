//! Cuts queue segments into pieces: rows of bounded size, each with a token.
//!
//! The token is the id of the segment, the number of the piece and a hash of its rows. A segment is always cut at the same
//! records, so a repeated insert has equal tokens, whatever other segments are in its batch. ClickHouse remembers the last
//! tokens and drops such a piece. The hash matters when frames become damaged between two attempts: the pieces then have
//! other rows, of which none must be dropped.

use bucksaw_ingest::SegmentView;
use bucksaw_segment::queue::HEADER_LEN;
use bucksaw_store::StoreError;
use twox_hash::XxHash3_64;

use crate::row_encoder::RowEncoder;
use crate::statement::Statement;

/// Rows that ClickHouse takes as one block, so that a piece is stored as a whole or not at all.
const BLOCK_ROWS: u64 = 16 << 20;

/// Rows of a segment for one insert.
#[derive(Debug)]
pub(crate) struct SegmentPiece {
    pub(crate) token: String,
    pub(crate) rows: Vec<u8>,
    pub(crate) records: u64,
}

/// Passes the pieces of a segment to `take`, in order. Each has `bytes_max`, or more with a longer record.
pub(crate) fn cut(
    view: &SegmentView,
    bytes_max: usize,
    take: &mut dyn FnMut(SegmentPiece) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let input = |source| StoreError::Input { segment: view.id, source };
    let (places, _) = view.frame_positions().map_err(input)?;
    let mut frames = view.frames(HEADER_LEN as u64);
    let (mut encoder, mut number) = (RowEncoder::default(), 0_u32);
    let mut finish = |encoder: &mut RowEncoder| {
        number += 1;
        let (records, rows) = (encoder.rows, encoder.take());
        // The number has leading zeros, so that names of files sort.
        let token = format!("{}-{number:06}-{:016x}", view.id, XxHash3_64::oneshot(&rows));
        take(SegmentPiece { token, rows, records })
    };
    for place in places {
        frames.seek(place.offset);
        let Some(chunk) = frames.next_chunk().map_err(input)? else { continue };
        encoder.add(&chunk, bytes_max, &mut finish)?;
    }
    if encoder.rows > 0 { finish(&mut encoder) } else { Ok(()) }
}

/// The settings of an insert with a token.
pub(crate) fn insert(sql: &str, token: &str) -> Statement {
    Statement::new(sql)
        .with_setting("insert_deduplication_token", token)
        .with_setting("insert_deduplicate", 1)
        // An insert that only waits in memory would be lost with the server.
        .with_setting("async_insert", 0)
        .with_setting("wait_end_of_query", 1)
        // A table of the engine Distributed passes the rows on before it acknowledges them.
        .with_setting("distributed_foreground_insert", 1)
        .with_setting("max_insert_block_size", BLOCK_ROWS)
        .with_setting("max_partitions_per_insert_block", 0)
}
