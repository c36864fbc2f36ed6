use std::io::Read as _;

use bytes::BytesMut;
use futures_util::stream::poll_fn;
use http_body_util::StreamBody;
use hyper::body::Body as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use tokio::sync::mpsc;

use super::*;

/// The sender of the frames of a body, and the body.
fn body(encoding: &str) -> (mpsc::UnboundedSender<Frame<Bytes>>, CompressedBody) {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
    let frames = poll_fn(move |context| receiver.poll_recv(context).map(|frame| frame.map(Ok::<_, axum::Error>)));
    let inner = Body::new(StreamBody::new(frames));
    (sender, CompressedBody::new(inner, AnswerEncoder::new(encoding).unwrap(), permit))
}

/// Decompresses a stream, whether it has ended or not.
fn decoded(encoding: &str, bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut decoder: Box<dyn std::io::Read + '_> = match encoding {
        "gzip" => Box::new(flate2::read::GzDecoder::new(bytes)),
        _ => Box::new(zstd::stream::read::Decoder::new(bytes).unwrap()),
    };
    let mut part = [0; 1_000];
    while let Ok(length @ 1..) = decoder.read(&mut part) {
        text.extend_from_slice(&part[..length]);
    }
    text
}

/// Bytes that compress little.
fn noise(length: usize) -> Bytes {
    let mut seed = 7_u64;
    (0..length)
        .map(|_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 56) as u8
        })
        .collect()
}

async fn next(body: &mut CompressedBody) -> Option<Frame<Bytes>> {
    std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await.map(Result::unwrap)
}

/// What the body gives without waiting.
fn ready(body: &mut CompressedBody) -> Vec<u8> {
    let mut context = Context::from_waker(std::task::Waker::noop());
    let mut sent = Vec::new();
    while let Poll::Ready(Some(frame)) = Pin::new(&mut *body).poll_frame(&mut context) {
        sent.extend_from_slice(&frame.unwrap().into_data().unwrap());
    }
    sent
}

#[test]
fn what_is_sent_before_a_pause_arrives_before_it() {
    for encoding in ENCODINGS {
        let (sender, mut body) = body(encoding);
        assert!(ready(&mut body).is_empty(), "nothing is sent for nothing");
        let (mut sent, mut want) = (Vec::new(), Vec::new());
        for number in 0..50 {
            let line = format!("{{\"line\":\"record {number}\"}}\n");
            want.extend_from_slice(line.as_bytes());
            sender.send(Frame::data(line.into())).unwrap();
            sent.extend(ready(&mut body));
            assert_eq!(decoded(encoding, &sent), want, "{encoding} after {number}");
            assert!(ready(&mut body).is_empty(), "{encoding}: it is flushed once");
        }
    }
}

#[tokio::test]
async fn bodies_of_any_frames_are_compressed_with_their_trailers() {
    for encoding in ENCODINGS {
        let (sender, mut body) = body(encoding);
        let frames = [noise(1), Bytes::new(), noise(300_000), Bytes::from(vec![b'a'; 3 << 20]), noise(5)];
        frames.iter().for_each(|frame| sender.send(Frame::data(frame.clone())).unwrap());
        let trailers = HeaderMap::from_iter([(header::ETAG, HeaderValue::from_static("x"))]);
        sender.send(Frame::trailers(trailers.clone())).unwrap();
        drop(sender);
        let (mut sent, mut got) = (BytesMut::new(), None);
        while let Some(frame) = next(&mut body).await {
            match frame.into_data() {
                Ok(data) => {
                    assert!(got.is_none() && data.len() < OUTPUT_BYTES + SLICE_BYTES + (100 << 10), "{}", data.len());
                    sent.extend_from_slice(&data);
                }
                Err(frame) => got = frame.into_trailers().ok(),
            }
        }
        assert_eq!(got, Some(trailers), "{encoding}");
        assert!(decoded(encoding, &sent) == frames.concat(), "{encoding}");
        assert!(sent.len() < 320_000, "{encoding}: {}", sent.len());
    }
}

#[test]
fn an_encoder_of_zstd_stays_small() {
    use zstd::zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, zstd_sys::ZSTD_EndDirective};
    let mut context = CCtx::create();
    context.set_parameter(CParameter::CompressionLevel(LEVEL as i32)).unwrap();
    context.set_parameter(CParameter::WindowLog(WINDOW_LOG)).unwrap();
    let (text, mut out) = (noise(1 << 20), vec![0; 2 << 20]);
    let (mut input, mut output) = (InBuffer::around(&text), OutBuffer::around(&mut out[..]));
    context.compress_stream2(&mut output, &mut input, ZSTD_EndDirective::ZSTD_e_flush).unwrap();
    assert!(context.sizeof() < 560 << 10, "{}", context.sizeof());
}

#[tokio::test]
async fn a_long_even_text_is_sent_in_parts() {
    for encoding in ENCODINGS {
        let (sender, mut body) = body(encoding);
        (0..40).for_each(|_| sender.send(Frame::data(Bytes::from(vec![b' '; 64 << 10]))).unwrap());
        drop(sender);
        let mut parts = 0;
        while next(&mut body).await.is_some() {
            parts += 1;
        }
        assert!(parts >= 5, "{encoding}: {parts} parts of 2.5 MB");
    }
}

/// A call of a router that compresses at most one answer at a time.
async fn call(path: &'static str) -> impl AsyncFn(&str) -> Response<Body> {
    use axum::routing::get;
    let text =
        |status: StatusCode| move || async move { (status, [(header::CONTENT_LENGTH, "5000")], "x".repeat(5_000)) };
    let permits = Arc::new(Semaphore::new(1));
    let router = axum::Router::new()
        .route("/api/v1/query", get(text(StatusCode::OK)))
        .route("/api/v1/refused", get(text(StatusCode::SERVICE_UNAVAILABLE)))
        .route("/api/v1/partial", get(text(StatusCode::PARTIAL_CONTENT)))
        .layer(axum::middleware::from_fn_with_state(permits, compress));
    let service = TowerToHyperService::new(router);
    async move |accepted: &str| {
        let request = Request::get(path).header(header::ACCEPT_ENCODING, accepted).body(Body::empty()).unwrap();
        service.call(request).await.unwrap()
    }
}

/// The encoding of an answer and its stated length.
fn head(answer: &Response<Body>) -> (Option<&str>, Option<&str>) {
    let header = |name| answer.headers().get(name).map(|value| value.to_str().unwrap());
    (header(header::CONTENT_ENCODING), header(header::CONTENT_LENGTH))
}

#[tokio::test]
async fn answers_beyond_the_permits_are_sent_as_they_are() {
    let call = call("/api/v1/query").await;
    for encoding in ENCODINGS {
        let first = call(encoding).await;
        assert_eq!(head(&first), (Some(encoding), None), "the length of compressed text is not known");
        let second = call(encoding).await;
        assert_eq!(head(&second), (None, Some("5000")), "{encoding}: the first one is not read yet");
        assert_eq!(second.into_body().collect().await.unwrap().to_bytes().len(), 5_000);
        let sent = first.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(decoded(encoding, &sent).len(), 5_000);
        let third = call(encoding).await;
        assert_eq!(head(&third).0, Some(encoding), "the first one is read");
    }
    assert_eq!(head(&call("identity").await), (None, Some("5000")));
}

#[tokio::test]
async fn only_whole_answers_are_compressed() {
    for path in ["/api/v1/refused", "/api/v1/partial"] {
        let answer = call(path).await("gzip, zstd").await;
        assert_eq!(head(&answer), (None, Some("5000")), "{path}");
    }
}
