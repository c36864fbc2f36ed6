//! Scans ranges of a database. The database may return records that do not match, so the plan checks each.

use std::ops::ControlFlow;

use bucksaw_scan::Plan;
use bucksaw_store::{RangeColumns, RangeError, RangeRead, RecordRange};

use crate::request::{Cancel, Order, Request};
use crate::text_scan::{ScanContent, Visit, scan_text};

/// Passes the chunks of a range to `visit`, in the order of the answer, until `visit` breaks. Returns the bytes of text
/// scanned.
pub(crate) fn scan(
    range: &dyn RecordRange,
    request: &Request,
    plan: &Plan,
    cancel: &Cancel,
    (limit, content): (usize, ScanContent),
    visit: Visit<'_>,
) -> Result<u64, RangeError> {
    let read = RangeRead {
        ids: (request.from, request.to),
        newest_first: request.order == Order::Descending,
        columns: match content {
            ScanContent::Records => RangeColumns::Records,
            ScanContent::IdsAndStreams => RangeColumns::IdsAndStreams,
            ScanContent::Ids => RangeColumns::Ids,
        },
        records_max: u64::try_from(limit).ok().filter(|_| limit != usize::MAX),
        is_stopped: &|| cancel.should_stop(),
    };
    let mut result = Ok(());
    let scanned = scan_text(request, plan, cancel, visit, &mut |visit| {
        result = range.read(&read, &mut |chunks| {
            // The ids of the chunks of a group overlap, so all are visited. The ids of the next group come after all of
            // these, so nothing of it is wanted once one chunk is past the end.
            let is_past_end = chunks.iter().fold(false, |past, chunk| visit(chunk).is_break() | past);
            if is_past_end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    });
    result.map(|()| scanned)
}
