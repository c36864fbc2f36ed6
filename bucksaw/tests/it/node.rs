//! A mock node with scripted responses.
#![allow(clippy::disallowed_methods, reason = "listens on a real socket")]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use percent_encoding::percent_decode_str;
use tokio::net::TcpListener;

/// A step of a response.
#[derive(Clone, Debug)]
pub(crate) enum ResponseStep {
    /// Sends bytes.
    Send(Vec<u8>),
    /// Breaks the connection.
    Break,
    /// Sends nothing more and keeps the connection open.
    Wait,
}

/// A scripted response.
#[derive(Clone, Debug)]
pub(crate) struct MockResponse {
    status: u16,
    media_type: &'static str,
    steps: Vec<ResponseStep>,
}

impl MockResponse {
    /// A stream of messages, as the command line requests it.
    pub(crate) fn stream(steps: impl IntoIterator<Item = ResponseStep>) -> Self {
        Self { status: 200, media_type: "application/x-bucksaw-stream", steps: steps.into_iter().collect() }
    }

    /// A response with a JSON body.
    pub(crate) fn plain(status: u16, text: &str) -> Self {
        Self { status, media_type: "application/json", steps: vec![ResponseStep::Send(text.into())] }
    }
}

/// A message of a stream.
pub(crate) fn message(kind: u8, bytes: impl AsRef<[u8]>) -> ResponseStep {
    let bytes = bytes.as_ref();
    let length = u32::try_from(bytes.len()).unwrap().to_le_bytes();
    ResponseStep::Send([&[kind][..], &length, bytes].concat())
}

/// A node that runs until the test process ends.
pub(crate) struct MockNode {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<ReceivedRequest>>>,
}

/// A received request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReceivedRequest {
    pub(crate) path: String,
    pub(crate) accept: String,
    /// Decoded, in order.
    pub(crate) parameters: Vec<(String, String)>,
}

impl ReceivedRequest {
    fn of(request: &Request<Incoming>) -> Self {
        let parameters = request.uri().query().unwrap_or_default().split('&').filter_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            Some((name.to_owned(), percent_decode_str(value).decode_utf8().unwrap().into_owned()))
        });
        Self {
            path: request.uri().path().to_owned(),
            accept: request.headers()["accept"].to_str().unwrap().to_owned(),
            parameters: parameters.collect(),
        }
    }

    /// The value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str())
    }
}

impl MockNode {
    /// A node with the same response to every request.
    pub(crate) fn new(response: MockResponse) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let requests = Arc::clone(&seen);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(serve(listener, response, requests));
        });
        Self { url, seen }
    }

    /// The received requests, oldest first.
    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.seen.lock().unwrap().clone()
    }
}

async fn serve(listener: std::net::TcpListener, mock: MockResponse, requests: Arc<Mutex<Vec<ReceivedRequest>>>) {
    let listener = TcpListener::from_std(listener).unwrap();
    loop {
        let (connection, _) = listener.accept().await.unwrap();
        let (mock, requests) = (mock.clone(), Arc::clone(&requests));
        let service = service_fn(move |request| {
            requests.lock().unwrap().push(ReceivedRequest::of(&request));
            let response = Response::builder().status(mock.status).header("content-type", mock.media_type);
            let script = ScriptedBody { steps: mock.steps.clone().into(), flushing: false };
            async move { Ok::<_, Infallible>(response.body(script).unwrap()) }
        });
        tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(connection), service));
    }
}

struct ScriptedBody {
    steps: VecDeque<ResponseStep>,
    /// Between two steps, one poll is pending, so that the bytes of each step are flushed separately.
    flushing: bool,
}

impl Body for ScriptedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.flushing = !self.flushing;
        if !self.flushing {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        match self.steps.pop_front() {
            Some(ResponseStep::Send(bytes)) => Poll::Ready(Some(Ok(Frame::data(bytes.into())))),
            Some(ResponseStep::Break) => Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into()))),
            Some(ResponseStep::Wait) => {
                // A further poll, for example after a disconnect, waits again.
                self.steps.push_front(ResponseStep::Wait);
                self.flushing = false;
                Poll::Pending
            }
            None => Poll::Ready(None),
        }
    }
}
