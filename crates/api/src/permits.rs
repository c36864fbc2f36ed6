//! Limits of concurrent queries and of open answers.
#![allow(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::sync::Arc;
use std::time::Duration;

use bucksaw_query::SinkClosed;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::app::App;
use crate::error::ApiError;
use crate::stream::{StreamFrame, StreamSender};

/// How long a query waits for its permit before the client gets 429.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) async fn acquire_query_permit(app: &App) -> Result<OwnedSemaphorePermit, ApiError> {
    let permit = tokio::time::timeout(PERMIT_TIMEOUT, Arc::clone(&app.query_permits).acquire_owned()).await;
    permit
        .ok()
        .and_then(Result::ok)
        .ok_or_else(|| ApiError::too_many_requests("too many queries are running: try again"))
}

/// A permit of an answer or a tail, whose reader may be slow.
pub(crate) fn try_permit(permits: &Arc<Semaphore>, message: &str) -> Result<OwnedSemaphorePermit, ApiError> {
    Arc::clone(permits).try_acquire_owned().map_err(|_| ApiError::too_many_requests(message))
}

pub(crate) fn acquire_answer_permit(app: &App) -> Result<OwnedSemaphorePermit, ApiError> {
    try_permit(&app.answer_permits, "too many open answers: try again")
}

/// The query permit of a streamed answer, released while the answer waits for its reader.
pub(crate) struct QueryPermit {
    queries: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
    runtime: Handle,
}

impl QueryPermit {
    pub(crate) async fn acquire(app: &App) -> Result<Self, ApiError> {
        let permit = Some(acquire_query_permit(app).await?);
        Ok(Self { queries: Arc::clone(&app.query_permits), permit, runtime: Handle::current() })
    }

    /// Sends frames of a cluster's answer. While it is not read, the nodes pause.
    pub(crate) async fn send_async(
        &mut self,
        sender: &StreamSender,
        frames: impl Iterator<Item = StreamFrame>,
    ) -> Result<(), SinkClosed> {
        for frame in frames {
            let Some(blocked) = sender.try_send(frame)? else { continue };
            self.permit = None;
            blocked.send_async().await?;
            self.permit = Arc::clone(&self.queries).acquire_owned().await.ok();
        }
        Ok(())
    }

    /// Sends frames on a thread that may block. Calls `release_memory` when the client stalls.
    pub(crate) fn send(
        &mut self,
        sender: &StreamSender,
        mut frames: impl Iterator<Item = StreamFrame>,
        mut release_memory: impl FnMut(),
    ) -> Result<(), SinkClosed> {
        frames.try_for_each(|frame| {
            let Some(blocked) = sender.try_send(frame)? else { return Ok(()) };
            self.permit = None;
            blocked.send(&self.runtime, &mut release_memory)?;
            // The semaphore is never closed.
            self.permit = self.runtime.block_on(Arc::clone(&self.queries).acquire_owned()).ok();
            Ok(())
        })
    }
}
