//! Connections of protocols without acknowledgements: what arrives is appended, and not read while the queue refuses records.

use std::time::Duration;

use bucksaw_auth::ClientAccess;
use bucksaw_ingest::Durability;

use crate::append_retry::wait_to_read;
use crate::listener_state::ListenerState;
use crate::socket_reader::{CHUNK_BYTES, SocketRead, SocketReader};

/// Reads of a busy connection before it yields to others.
const READS_PER_TURN: usize = 16;

/// The longest pause of a connection that has sent more than its credential allows; a changed limit has an effect after it.
const RATE_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Decodes the chunks of one connection, and appends their records.
pub(crate) trait ChunkConsumer {
    /// Records that the queue refused.
    type Refused;

    /// Appends the records of a chunk.
    ///
    /// # Errors
    /// The refused records, with which [`Self::retry_until_appended`] must be called before anything else.
    fn push(&mut self, chunk: &[u8]) -> Result<(), Self::Refused>;

    /// Appends the unfinished record at the end of the stream.
    ///
    /// # Errors
    /// As [`Self::push`].
    fn finish(&mut self) -> Result<(), Self::Refused>;

    /// Retries until the records are appended. False if they are dropped, which is counted.
    async fn retry_until_appended(&mut self, feed: &mut SocketReader<'_>, refused: Self::Refused) -> bool;

    /// Frees what an idle connection does not need: all that had arrived is appended.
    fn release_memory(&mut self) {}
}

/// Reads until the stream ends or the node stops. `first` has already arrived.
pub(crate) async fn consume(
    feed: &mut SocketReader<'_>,
    (shared, client): (&ListenerState, &ClientAccess),
    consumer: &mut impl ChunkConsumer,
    first: Vec<u8>,
) {
    let mut appended = consumer.push(&first);
    drop(first);
    loop {
        if let Err(refused) = appended
            && !consumer.retry_until_appended(feed, refused).await
        {
            return;
        }
        wait_for_rate(feed, client).await;
        if !wait_to_read(feed, shared).await {
            break;
        }
        if !client.is_valid() {
            shared.count_ended_credential(client);
            break;
        }
        appended = push_available(feed, consumer);
        tokio::task::yield_now().await;
    }
    if let Err(refused) = consumer.finish() {
        consumer.retry_until_appended(feed, refused).await;
    }
    if shared.setup.durability == Durability::Bulk {
        shared.intake.queue.flush_bulk();
    }
}

/// Waits until the credential of a client allows more bytes, or until the stop.
pub(crate) async fn wait_for_rate(feed: &mut SocketReader<'_>, client: &ClientAccess) {
    loop {
        let delay = client.bytes_delay();
        if delay.is_zero() || feed.is_stopped() {
            return;
        }
        feed.pause(delay.min(RATE_PAUSE_MAX)).await;
    }
}

/// Reads and appends what has arrived, up to a number of reads.
fn push_available<C: ChunkConsumer>(feed: &mut SocketReader<'_>, consumer: &mut C) -> Result<(), C::Refused> {
    for _ in 0..READS_PER_TURN {
        match feed.read(CHUNK_BYTES, |chunk| consumer.push(chunk)) {
            SocketRead::Data(appended) => appended?,
            SocketRead::WouldBlock | SocketRead::Ended => break,
        }
    }
    consumer.release_memory();
    Ok(())
}
