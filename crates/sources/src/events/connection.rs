//! A TCP connection with a protocol of another log system.

use std::net::SocketAddr;
use std::sync::Arc;

use bucksaw_auth::ClientAccess;
use bucksaw_env::{GaugeGuard, log_limited};
use bucksaw_ingest::IngestError;

use super::decoder::StreamDecoder;
use super::protocol::event_records;
use crate::append_retry::retry_append;
use crate::intake::EventRecords;
use crate::listener_state::{CarriedBytesGuard, ListenerState};
use crate::one_way::{ChunkConsumer, consume};
use crate::socket_reader::SocketReader;

struct EventConnection {
    shared: Arc<ListenerState>,
    peer: SocketAddr,
    decoder: Box<dyn StreamDecoder>,
    records: EventRecords,
    carried_bytes: CarriedBytesGuard,
}

/// Why records were not appended. Created with the refusal, so that other connections stop reading at once.
struct RefusedRecords(IngestError, GaugeGuard);

/// Reads events until the stream ends or the node stops. `first` has already arrived.
pub(crate) async fn run(
    feed: &mut SocketReader<'_>,
    shared: &Arc<ListenerState>,
    client: &ClientAccess,
    peer: SocketAddr,
    first: Vec<u8>,
) {
    let protocol = &shared.setup.protocol;
    let Some((source, decoder)) = protocol.stream_decoder(peer, &shared.config) else { return };
    let mut connection = EventConnection {
        shared: Arc::clone(shared),
        peer,
        decoder,
        records: event_records(shared, client, source),
        carried_bytes: CarriedBytesGuard::new(shared),
    };
    consume(feed, (shared, client), &mut connection, first).await;
}

impl ChunkConsumer for EventConnection {
    type Refused = RefusedRecords;

    fn push(&mut self, chunk: &[u8]) -> Result<(), RefusedRecords> {
        self.decoder.push(chunk, self.shared.intake.now(), &mut self.records);
        if self.shared.exceeds_memory_share(self.decoder.carry_bytes()) {
            return self.finish();
        }
        self.append()
    }

    fn finish(&mut self) -> Result<(), RefusedRecords> {
        self.decoder.finish(self.shared.intake.now(), &mut self.records);
        self.append()
    }

    async fn retry_until_appended(&mut self, feed: &mut SocketReader<'_>, refused: RefusedRecords) -> bool {
        let RefusedRecords(refusal, _blocked) = refused;
        let retried = retry_append(&mut feed.stop, &self.shared, refusal, || Ok(self.records.flush()?)).await;
        let Err(reason) = retried else { return true };
        self.shared.count_dropped(&self.records, &reason);
        false
    }

    /// Thousands of connections may be idle.
    fn release_memory(&mut self) {
        self.decoder.release_memory();
        self.records.release_memory();
        self.carried_bytes.set(self.decoder.carry_bytes());
    }
}

impl EventConnection {
    fn append(&mut self) -> Result<(), RefusedRecords> {
        self.carried_bytes.set(self.decoder.carry_bytes());
        if let Some(reason) = self.records.take_rejection() {
            log_limited!(self.shared.log_limits, warn, peer = %self.peer, listener = self.shared.setup.name, %reason, "a record was refused");
        }
        let appended = self.records.flush();
        appended.map_err(|refusal| RefusedRecords(refusal.into(), self.shared.count_blocked()))
    }
}
