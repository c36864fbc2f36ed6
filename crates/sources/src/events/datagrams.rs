//! The datagrams of one socket.
//!
//! A datagram has no credential, so a node that authenticates has such sockets only if its operator accepts that.

use std::sync::Arc;
use std::time::Duration;

use bucksaw_auth::ClientAccess;
use bucksaw_env::{GaugeGuard, log_limited};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::watch;

use super::datagram_socket::DatagramSocket;
use super::decoder::DatagramDecoder;
use super::kernel_drops::KernelDrops;
use super::protocol::event_records;
use crate::append_retry::{REFUSED_PAUSE, retry_append};
use crate::intake::EventRecords;
use crate::listener_setup::ListenerSetup;
use crate::listener_state::{ListenerState, TcpIntake};
use crate::socket_reader::with_chunk;
use crate::stop_watch::StopWatch;

/// Datagrams that are read before others get the thread.
const DATAGRAMS_PER_TURN: usize = 256;

/// How often drops are looked for.
const DROPS_INTERVAL: Duration = Duration::from_secs(1);

struct Datagrams {
    shared: Arc<ListenerState>,
    socket: DatagramSocket,
    decoder: Box<dyn DatagramDecoder>,
    records: EventRecords,
    drops: DropCounts,
}

/// Reads datagrams until `stop` is true or its sender is dropped, and then those that have arrived.
pub async fn serve_datagrams(
    socket: DatagramSocket,
    setup: ListenerSetup,
    tcp: TcpIntake,
    stop: watch::Receiver<bool>,
) {
    let mut stop = StopWatch::new(stop, Arc::clone(&tcp.intake.env.clock));
    let shared = Arc::new(ListenerState::new(setup, tcp));
    let protocol = &shared.setup.protocol;
    let Some((source, decoder)) = protocol.datagram_decoder(&shared.config) else { return };
    socket.enlarge_buffer(shared.config.partial_bytes_max);
    let (drops, records) =
        (DropCounts::new(&shared, &socket), event_records(&shared, &ClientAccess::default(), source));
    let mut datagrams = Datagrams { shared, socket, decoder, records, drops };
    while datagrams.wait(&mut stop).await {
        if datagrams.shared.is_refusing() {
            stop.pause(REFUSED_PAUSE).await;
            if stop.is_stopped() && datagrams.shared.has_given_up() {
                return;
            }
            continue;
        }
        let is_drained = datagrams.read_available();
        if !datagrams.append(&mut stop).await || (is_drained && stop.is_stopped()) {
            return;
        }
        if is_drained {
            datagrams.decoder.release_memory();
            datagrams.records.release_memory();
        }
        tokio::task::yield_now().await;
    }
}

impl Datagrams {
    /// Waits for a datagram, and counts drops meanwhile. False after the stop if there is none.
    async fn wait(&mut self, stop: &mut StopWatch) -> bool {
        loop {
            self.drops.update(&self.shared, self.decoder.dropped());
            if stop.is_stopped() {
                return !stop.is_past_drain_timeout();
            }
            tokio::select! {
                ready = self.socket.readable() => return ready.is_ok(),
                () = stop.pause(DROPS_INTERVAL) => {}
            }
        }
    }

    /// Reads the datagrams that have arrived, up to a maximum number. Whether that was all.
    fn read_available(&mut self) -> bool {
        let now = self.shared.intake.now();
        let Self { socket, decoder, records, .. } = self;
        with_chunk(|buffer| {
            for _ in 0..DATAGRAMS_PER_TURN {
                match socket.try_receive(buffer) {
                    Ok((bytes, sender)) => decoder.push(buffer.get(..bytes).unwrap_or_default(), sender, now, records),
                    // An error of an earlier answer, which UDP reports with the next read, does not concern senders.
                    Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => {}
                    Err(_) => return true,
                }
            }
            false
        })
    }

    /// Appends the records. False if they were dropped, which is counted.
    async fn append(&mut self, stop: &mut StopWatch) -> bool {
        let Self { shared, records, .. } = self;
        if let Some(reason) = records.take_rejection() {
            log_limited!(shared.log_limits, warn, listener = shared.setup.name, %reason, "a record was refused");
        }
        let Err(refusal) = records.flush() else { return true };
        let _blocked: GaugeGuard = shared.count_blocked();
        let Err(reason) = retry_append(stop, shared, refusal.into(), || Ok(records.flush()?)).await else {
            return true;
        };
        shared.count_dropped(records, &reason);
        // A disk that fails may work again.
        *records = event_records(shared, &ClientAccess::default(), records.source());
        !stop.is_stopped()
    }
}

/// Counts the datagrams that were lost before they were read.
struct DropCounts {
    kernel: Option<KernelDrops>,
    kernel_metric: Counter,
    /// Messages in several datagrams that were counted.
    chunked: u64,
    chunked_metric: Counter,
    last: Option<Duration>,
}

impl DropCounts {
    fn new(shared: &ListenerState, socket: &DatagramSocket) -> Self {
        let by = [("listener", shared.setup.name)];
        Self {
            kernel: KernelDrops::of(socket),
            kernel_metric: shared.metrics.dropped_datagrams.get_or_create(&by).clone(),
            chunked: 0,
            chunked_metric: shared.metrics.dropped_chunked.get_or_create(&by).clone(),
            last: None,
        }
    }

    fn update(&mut self, shared: &ListenerState, chunked: u64) {
        let now = shared.intake.env.clock.uptime();
        if self.last.is_some_and(|last| now.saturating_sub(last) < DROPS_INTERVAL) {
            return;
        }
        self.last = Some(now);
        let (kernel, new_chunked) = (self.kernel.as_mut().map_or(0, KernelDrops::new_drops), chunked - self.chunked);
        self.chunked = chunked;
        self.kernel_metric.inc_by(kernel);
        self.chunked_metric.inc_by(new_chunked);
        if kernel + new_chunked > 0 {
            log_limited!(
                shared.log_limits,
                warn,
                listener = shared.setup.name,
                datagrams = kernel,
                messages = new_chunked,
                "datagrams were lost: the kernel's buffer was full, or chunks of messages did not arrive"
            );
        }
    }
}
