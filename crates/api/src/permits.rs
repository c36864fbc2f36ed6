//! Permits of queries: the right to run one of the concurrent queries, and to have one of the open answers.
#![allow(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::app::App;
use crate::error::ApiError;
use crate::stream::{ClientGone, StreamFrame, StreamSender};

/// How long a query waits for its permit before the client gets 429.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) async fn acquire_query_permit(app: &App) -> Result<OwnedSemaphorePermit, ApiError> {
    let permit = tokio::time::timeout(PERMIT_TIMEOUT, Arc::clone(&app.query_permits).acquire_owned()).await;
    permit
        .ok()
        .and_then(Result::ok)
        .ok_or_else(|| ApiError::too_many_requests("too many queries are running: try again"))
}

/// The right to have one of the open answers, whose readers may be slow.
pub(crate) fn acquire_answer_permit(app: &App) -> Result<OwnedSemaphorePermit, ApiError> {
    let permit = Arc::clone(&app.answer_permits).try_acquire_owned();
    permit.map_err(|_| ApiError::too_many_requests("too many open answers: try again"))
}

/// The query permit of a streamed answer. It is released while the answer waits for its reader, so that slow readers do
/// not block other queries.
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

    /// Sends frames of a cluster's answer: the nodes pause by themselves when they are not read.
    pub(crate) async fn send_async(
        &mut self,
        sender: &StreamSender,
        frames: impl Iterator<Item = StreamFrame>,
    ) -> Result<(), ClientGone> {
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
    ) -> Result<(), ClientGone> {
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
