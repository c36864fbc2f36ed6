//! What a connection does while the queue refuses records: it appends them again for as long as that helps, and is not read.

use std::sync::Arc;
use std::time::Duration;

use bucksaw_ingest::IngestError;

use crate::listener_state::ListenerState;
use crate::socket_reader::SocketReader;
use crate::stop_watch::StopWatch;

/// The delay of a retry while the disk is full.
const FULL_PAUSE: Duration = Duration::from_millis(250);

/// How long a connection waits while another has a refused chunk.
pub(crate) const REFUSED_PAUSE: Duration = Duration::from_millis(50);

/// The delay of a retry while the disk syncs.
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// How long write errors are retried before records are dropped.
const WRITE_ERROR_TIMEOUT: Duration = Duration::from_secs(5);

/// The delay before refused records are appended again; `None` if a retry is useless.
pub(crate) fn pause_after(refusal: &IngestError) -> Option<Duration> {
    match refusal {
        IngestError::ShuttingDown => None,
        IngestError::SyncBacklog => Some(BUSY_PAUSE),
        _ => Some(FULL_PAUSE),
    }
}

/// Waits until bytes may be readable and the queue accepts records. False if the stream has ended or will not be read any more.
pub(crate) async fn wait_to_read(feed: &mut SocketReader<'_>, shared: &ListenerState) -> bool {
    loop {
        if !feed.wait().await {
            return false;
        }
        if !shared.is_refusing() {
            return true;
        }
        if feed.is_stopped() && shared.has_given_up() {
            return false;
        }
        // Without reading, the end of the stream must be detected separately, to free the descriptor.
        if feed.is_hung_up_and_read().await {
            return false;
        }
        // If the queue is not halted, other connections wait for one sync.
        feed.pause(if shared.intake.queue.is_halted() { FULL_PAUSE } else { REFUSED_PAUSE }).await;
    }
}

/// Calls `append` with pauses until it succeeds. `refusal` is the error of the first attempt.
///
/// # Errors
/// The last refusal, if the records must be dropped: after the stop, or after seconds of write errors.
pub(crate) async fn retry_append(
    stop: &mut StopWatch,
    shared: &ListenerState,
    mut refusal: IngestError,
    mut append: impl FnMut() -> Result<(), IngestError>,
) -> Result<(), IngestError> {
    let clock = Arc::clone(&shared.intake.env.clock);
    let since = clock.uptime();
    loop {
        let is_persistent_error =
            matches!(refusal, IngestError::Io(_)) && clock.uptime().saturating_sub(since) > WRITE_ERROR_TIMEOUT;
        let pause = pause_after(&refusal).filter(|_| !is_persistent_error);
        // After the stop a full disk gets one more attempt, and a running sync is waited for.
        let is_last_try = stop.is_stopped() && (refusal != IngestError::SyncBacklog || stop.is_past_drain_timeout());
        if let Some(pause) = pause {
            stop.pause(pause).await;
            match append() {
                Ok(()) => return Ok(()),
                Err(again) => refusal = again,
            }
        }
        if pause.is_none() || is_last_try {
            if stop.is_stopped() {
                shared.set_given_up();
            }
            return Err(refusal);
        }
    }
}
