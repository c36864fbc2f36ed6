//! A node that says what the test wants it to say.
#![allow(clippy::disallowed_methods, reason = "tests of real sockets or threads wait in real time")]

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

/// What the answer does next.
#[derive(Clone, Debug)]
pub(crate) enum ResponseStep {
    /// These bytes are sent.
    Send(Vec<u8>),
    /// The connection breaks.
    Break,
    /// Nothing more comes, and the connection stays.
    Wait,
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct MockResponse {
    status: u16,
    media_type: &'static str,
    steps: Vec<ResponseStep>,
}

impl MockResponse {
    /// An answer as to the command line's own questions.
    pub(crate) fn stream(steps: impl IntoIterator<Item = ResponseStep>) -> Self {
        Self { status: 200, media_type: "application/x-bucksaw-stream", steps: steps.into_iter().collect() }
    }

    /// Any other answer.
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

/// The node; it lives as long as the test.
pub(crate) struct MockNode {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<ReceivedRequest>>>,
}

/// A question that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReceivedRequest {
    pub(crate) path: String,
    pub(crate) accept: String,
    /// Decoded, as they came.
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
    /// A node that answers every question with this.
    pub(crate) fn new(answer: MockResponse) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&seen);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(serve(listener, answer, told));
        });
        Self { url, seen }
    }

    /// What was asked, oldest first.
    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.seen.lock().unwrap().clone()
    }
}

async fn serve(listener: std::net::TcpListener, answer: MockResponse, told: Arc<Mutex<Vec<ReceivedRequest>>>) {
    let listener = TcpListener::from_std(listener).unwrap();
    loop {
        let (connection, _) = listener.accept().await.unwrap();
        let (answer, told) = (answer.clone(), Arc::clone(&told));
        let service = service_fn(move |request| {
            told.lock().unwrap().push(ReceivedRequest::of(&request));
            let response = Response::builder().status(answer.status).header("content-type", answer.media_type);
            let script = ScriptedBody { steps: answer.steps.clone().into(), flushing: false };
            async move { Ok::<_, Infallible>(response.body(script).unwrap()) }
        });
        tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(connection), service));
    }
}

struct ScriptedBody {
    steps: VecDeque<ResponseStep>,
    /// Whether the last step's bytes are given time to leave, each as a piece of its own.
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
                // Whoever asks again, as when the other side hangs up, waits again.
                self.steps.push_front(ResponseStep::Wait);
                self.flushing = false;
                Poll::Pending
            }
            None => Poll::Ready(None),
        }
    }
}
