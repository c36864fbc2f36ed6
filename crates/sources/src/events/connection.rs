//! A TCP connection with a protocol of another log system.

use std::net::SocketAddr;
use std::sync::Arc;

use bucksaw_env::{CountGuard, log_limited};
use bucksaw_ingest::{Durability, IngestError};

use super::decoder::StreamDecoder;
use super::protocol::event_records;
use crate::append_retry::{retry_append, wait_to_read};
use crate::intake::EventRecords;
use crate::listener_state::{CarriedBytesGuard, ListenerState};
use crate::socket_reader::{CHUNK_BYTES, SocketRead, SocketReader};

/// Reads of a busy connection before it yields to others.
const READS_PER_TURN: usize = 16;

struct EventConnection {
    shared: Arc<ListenerState>,
    peer: SocketAddr,
    decoder: Box<dyn StreamDecoder>,
    records: EventRecords,
    carried_bytes: CarriedBytesGuard,
}

/// Why records were not appended. Created with the refusal, so that other connections stop reading at once.
struct RefusedRecords(IngestError, CountGuard);

/// Reads events until the stream ends or the node stops. `first` has already arrived.
pub(crate) async fn run(feed: &mut SocketReader<'_>, shared: &Arc<ListenerState>, peer: SocketAddr, first: Vec<u8>) {
    let protocol = &shared.setup.protocol;
    let Some((source, decoder)) = protocol.stream_decoder(peer, &shared.config) else { return };
    let mut connection = EventConnection {
        shared: Arc::clone(shared),
        peer,
        decoder,
        records: event_records(shared, source),
        carried_bytes: CarriedBytesGuard::new(shared),
    };
    let mut appended = connection.decode(&first);
    drop(first);
    loop {
        if let Err(refused) = appended
            && !connection.retry_until_appended(feed, refused).await
        {
            return;
        }
        if !wait_to_read(feed, shared).await {
            break;
        }
        appended = connection.read_available(feed);
        tokio::task::yield_now().await;
    }
    if let Err(refused) = connection.finish_message() {
        connection.retry_until_appended(feed, refused).await;
    }
    if shared.setup.durability == Durability::Bulk {
        shared.intake.queue.flush_bulk();
    }
}

impl EventConnection {
    /// Reads and appends the data that has arrived, with a maximum number of reads.
    fn read_available(&mut self, feed: &mut SocketReader<'_>) -> Result<(), RefusedRecords> {
        for _ in 0..READS_PER_TURN {
            match feed.read(CHUNK_BYTES, |chunk| self.decode(chunk)) {
                SocketRead::Data(appended) => appended?,
                SocketRead::WouldBlock | SocketRead::Ended => break,
            }
        }
        // Thousands of connections may be idle.
        self.decoder.release_memory();
        self.records.release_memory();
        self.carried_bytes.set(self.decoder.carry_bytes());
        Ok(())
    }

    fn decode(&mut self, chunk: &[u8]) -> Result<(), RefusedRecords> {
        self.decoder.push(chunk, self.shared.intake.now(), &mut self.records);
        if self.shared.exceeds_memory_share(self.decoder.carry_bytes()) {
            return self.finish_message();
        }
        self.append()
    }

    fn finish_message(&mut self) -> Result<(), RefusedRecords> {
        self.decoder.finish(self.shared.intake.now(), &mut self.records);
        self.append()
    }

    fn append(&mut self) -> Result<(), RefusedRecords> {
        self.carried_bytes.set(self.decoder.carry_bytes());
        if let Some(reason) = self.records.take_rejection() {
            log_limited!(self.shared.log_limits, warn, peer = %self.peer, listener = self.shared.setup.name, %reason, "a record was refused");
        }
        let appended = self.records.flush();
        appended.map_err(|refusal| RefusedRecords(refusal.into(), self.shared.count_blocked()))
    }

    /// Retries until all is appended. False if it is dropped, which is counted.
    async fn retry_until_appended(&mut self, feed: &mut SocketReader<'_>, refused: RefusedRecords) -> bool {
        let RefusedRecords(refusal, _blocked) = refused;
        let retried = retry_append(&mut feed.stop, &self.shared, refusal, || Ok(self.records.flush()?)).await;
        let Err(reason) = retried else { return true };
        self.shared.count_dropped(&self.records, &reason);
        false
    }
}
