//! Sends lines as batches of the service `bucksaw.v1` over gRPC.
//!
//! One call of `Ingest` takes batches and gives a reply for each, in order. Each batch has an idempotency key and states the
//! times of its records, so that it makes the same records when it is sent again over another connection.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail, ensure};
use bucksaw_env::{Clock, Env};
use bucksaw_ingest::Durability;
use bucksaw_protocols::bucksaw_v1::{BatchHead, BatchReply, BatchWriter};
use bucksaw_record::Labels;
use bytes::Bytes;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2;
use hyper::{HeaderMap, Request};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::load_totals::LoadCounters;
use super::producer::LineBatch;
use crate::failure::print_error;
use crate::values::HostPort;

const METHOD: &str = "/bucksaw.v1.Bucksaw/Ingest";

/// Batches that wait for their reply. The node takes one after the other.
const BATCHES_MAX: usize = 4;

/// How long a batch is sent again before the command fails.
const GIVE_UP_AFTER: Duration = Duration::from_secs(120);

/// Time limits of a connection, and of a reply.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// The delay before another connection, and the longest that a node may request.
const RETRY_DELAY: Duration = Duration::from_secs(1);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(30);

/// Bytes before a message: whether it is compressed, and its length.
const FRAME_HEAD_LEN: usize = 5;

/// The longest reply in bytes.
const REPLY_BYTES_MAX: usize = 64 << 10;

/// Sends to one node.
pub(super) struct IngestCall {
    address: HostPort,
    labels: Labels,
    durability: u64,
    /// Differs between runs.
    run: u64,
    clock: std::sync::Arc<dyn Clock>,
    /// Batches that are to be sent, then those that wait for their reply.
    unsent: VecDeque<EncodedBatch>,
    sent: VecDeque<EncodedBatch>,
    next_number: u64,
    has_ended: bool,
    /// Whether a batch was ever accepted, which shows that the address is right.
    has_succeeded: bool,
    /// Since when no batch was accepted.
    failing_since: Option<Instant>,
}

struct EncodedBatch {
    number: u64,
    /// The message behind its head.
    frame: Bytes,
    text_bytes: u64,
}

/// Why a call ends before all is acknowledged.
enum CallFailure {
    /// Another connection may help.
    Lost(anyhow::Error),
    /// The batches would be refused again.
    Refused(anyhow::Error),
}

impl IngestCall {
    pub(super) fn new(address: &HostPort, labels: Labels, durability: Durability) -> Self {
        let env = Env::real();
        Self {
            address: address.clone(),
            labels,
            durability: match durability {
                Durability::Fast => 0,
                Durability::Durable => 1,
                Durability::Bulk => 2,
            },
            run: env.entropy.next_u64(),
            clock: env.clock,
            unsent: VecDeque::new(),
            sent: VecDeque::new(),
            next_number: 1,
            has_ended: false,
            has_succeeded: false,
            failing_since: None,
        }
    }

    /// Sends all batches and waits for their acknowledgement.
    pub(super) async fn send(
        mut self,
        mut batches: mpsc::Receiver<LineBatch>,
        counters: LoadCounters,
    ) -> anyhow::Result<()> {
        loop {
            let error = match self.call(&mut batches, &counters).await {
                Ok(()) => return Ok(()),
                Err(CallFailure::Refused(error)) => return Err(error),
                Err(CallFailure::Lost(error)) => error,
            };
            let since = *self.failing_since.get_or_insert_with(|| {
                if self.has_succeeded {
                    print_error(&format!("{error:#}: trying again for {} s", GIVE_UP_AFTER.as_secs()));
                }
                Instant::now()
            });
            if !self.has_succeeded || since.elapsed() > GIVE_UP_AFTER {
                return Err(error);
            }
            while let Some(batch) = self.sent.pop_back() {
                self.unsent.push_front(batch);
            }
            sleep(RETRY_DELAY).await;
        }
    }

    /// One call, until all batches are acknowledged.
    async fn call(
        &mut self,
        batches: &mut mpsc::Receiver<LineBatch>,
        counters: &LoadCounters,
    ) -> Result<(), CallFailure> {
        let (frames, mut replies) = self.open().await.map_err(CallFailure::Lost)?;
        let mut buffer = Vec::new();
        while !(self.has_ended && self.unsent.is_empty() && self.sent.is_empty()) {
            let on_way = self.unsent.len() + self.sent.len();
            tokio::select! {
                permit = frames.reserve(), if !self.unsent.is_empty() => {
                    let permit = permit.map_err(|_| CallFailure::Lost(anyhow!("the node ended the call")))?;
                    if let Some(batch) = self.unsent.pop_front() {
                        permit.send(batch.frame.clone());
                        self.sent.push_back(batch);
                    }
                }
                batch = batches.recv(), if !self.has_ended && on_way < BATCHES_MAX => match batch {
                    Some(batch) => {
                        let encoded = self.encode(&batch);
                        counters.add_written(batch.lines, encoded.text_bytes);
                        self.unsent.push_back(encoded);
                    }
                    None => self.has_ended = true,
                },
                read = timeout(REPLY_TIMEOUT, read_some(&mut replies, &mut buffer)), if !self.sent.is_empty() => {
                    let reason = || format!("the node at {} does not reply", self.address);
                    read.map_err(anyhow::Error::from).flatten().with_context(reason).map_err(CallFailure::Lost)?;
                    while let Some(reply) = take_reply(&mut buffer).map_err(CallFailure::Lost)? {
                        self.reply(&reply, counters).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Connects and begins the call. Dropping the sender ends it.
    async fn open(&self) -> anyhow::Result<(mpsc::Sender<Bytes>, Incoming)> {
        let begin = async {
            let stream = TcpStream::connect((self.address.host.as_str(), self.address.port)).await?;
            stream.set_nodelay(true)?;
            let (mut client, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
            // It ends with the call.
            tokio::spawn(connection);
            let (frames, mut taken) = mpsc::channel::<Bytes>(1);
            let body = futures_util::stream::poll_fn(move |context| {
                taken.poll_recv(context).map(|frame| frame.map(|frame| Ok::<_, hyper::Error>(Frame::data(frame))))
            });
            let request = Request::post(format!("http://{}{METHOD}", self.address))
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .body(StreamBody::new(body))?;
            let answer = client.send_request(request).await?;
            // A call that is refused has its status here.
            check_status(answer.headers())?;
            anyhow::Ok((frames, answer.into_body()))
        };
        let begun = timeout(CONNECT_TIMEOUT, begin).await.map_err(anyhow::Error::from).flatten();
        begun.with_context(|| format!("cannot call the node at {}", self.address))
    }

    fn encode(&mut self, batch: &LineBatch) -> EncodedBatch {
        let number = self.next_number;
        self.next_number += 1;
        let head = BatchHead {
            sequence: number,
            key: format!("generate {:016x} {number}", self.run).into_bytes(),
            durability: self.durability,
            labels: self.labels.clone(),
            records: batch.lines,
        };
        let nanos = self.clock.unix_ms().saturating_mul(1_000_000);
        // Each record has a few bytes more than its line.
        let mut writer =
            BatchWriter::new(&head, batch.text.len() + 20 * usize::try_from(batch.lines).unwrap_or_default());
        for line in batch.text.split_inclusive(|byte| *byte == b'\n') {
            writer.push(nanos, line.strip_suffix(b"\n").unwrap_or(line));
        }
        let message = writer.finish();
        let length = u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes();
        let frame = [&[0][..], &length, &message].concat().into();
        EncodedBatch { number, frame, text_bytes: batch.text.len() as u64 }
    }

    async fn reply(&mut self, reply: &BatchReply, counters: &LoadCounters) -> Result<(), CallFailure> {
        let Some(batch) = self.sent.pop_front().filter(|batch| reply.sequence == batch.number || reply.sequence == 0)
        else {
            return Err(CallFailure::Refused(anyhow!("the node replied to a batch that was not sent")));
        };
        if reply.code == 0 {
            if reply.rejected > 0 {
                let error = anyhow!("the node refused {} records: {}", reply.rejected, reply.first_error);
                return Err(CallFailure::Refused(error));
            }
            counters.add_acked(reply.accepted, batch.text_bytes);
            (self.has_succeeded, self.failing_since) = (true, None);
            return Ok(());
        }
        let error = anyhow!("the node refused a batch: {}", reply.message);
        let Some(seconds) = reply.retry_after_s else { return Err(CallFailure::Refused(error)) };
        self.unsent.push_back(batch);
        let since = *self.failing_since.get_or_insert_with(|| {
            print_error(&format!("{error:#}: trying again for {} s", GIVE_UP_AFTER.as_secs()));
            Instant::now()
        });
        if since.elapsed() > GIVE_UP_AFTER {
            return Err(CallFailure::Refused(error));
        }
        sleep(Duration::from_secs(seconds.into()).clamp(RETRY_DELAY, RETRY_DELAY_MAX)).await;
        Ok(())
    }
}

/// Adds some bytes of an answer to a buffer. The end of the answer is an error.
async fn read_some(answer: &mut Incoming, buffer: &mut Vec<u8>) -> anyhow::Result<()> {
    let Some(frame) = answer.frame().await else { bail!("the answer ended early") };
    match frame?.into_data() {
        Ok(data) => buffer.extend_from_slice(&data),
        Err(frame) => {
            check_status(frame.trailers_ref().unwrap_or(&HeaderMap::new()))?;
            bail!("the call has ended");
        }
    }
    Ok(())
}

/// Takes the next message of a buffer, if it is whole.
fn take_reply(buffer: &mut Vec<u8>) -> anyhow::Result<Option<BatchReply>> {
    let Some((head, rest)) = buffer.split_first_chunk::<FRAME_HEAD_LEN>() else { return Ok(None) };
    let [is_compressed, length @ ..] = *head;
    let length = u32::from_be_bytes(length) as usize;
    ensure!(is_compressed == 0 && length <= REPLY_BYTES_MAX, "the answer is not that of the service: is it a node?");
    let Some(message) = rest.get(..length) else { return Ok(None) };
    let reply = BatchReply::read(message).context("the answer is damaged")?;
    buffer.drain(..FRAME_HEAD_LEN + length);
    Ok(Some(reply))
}

/// The error that headers or trailers state.
fn check_status(headers: &HeaderMap) -> anyhow::Result<()> {
    let text = |name: &str| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    match text("grpc-status") {
        Some(code) if code != "0" => bail!("{} (status {code} of gRPC)", text("grpc-message").unwrap_or_default()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(message: &[u8]) -> Vec<u8> {
        [&[0][..], &(message.len() as u32).to_be_bytes(), message].concat()
    }

    #[test]
    fn replies_are_taken_once_they_are_whole() {
        let reply = |sequence| BatchReply { sequence, accepted: 5, message: "x".to_owned(), ..BatchReply::default() };
        let bytes = [framed(&reply(1).protobuf()), framed(&reply(2).protobuf())].concat();
        for cut in 0..bytes.len() {
            let (mut buffer, mut found) = (bytes[..cut].to_vec(), Vec::new());
            while let Some(reply) = take_reply(&mut buffer).unwrap() {
                found.push(reply);
            }
            buffer.extend_from_slice(&bytes[cut..]);
            while let Some(reply) = take_reply(&mut buffer).unwrap() {
                found.push(reply);
            }
            assert_eq!((found, buffer.len()), (vec![reply(1), reply(2)], 0));
        }
        assert!(take_reply(&mut b"HTTP/1.1 400 Bad Request".to_vec()).is_err());
        assert!(take_reply(&mut framed(b"\x08")).is_err(), "damaged");
    }
}
