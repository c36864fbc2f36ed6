//! Shows the running measurement to Prometheus, so that any agent can be watched under load.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::Context as _;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;

use super::load::EdgeLoad;
use crate::process;

/// The running measurement.
pub(super) struct LiveSubject {
    pub(super) agent: String,
    pub(super) load: EdgeLoad,
    pub(super) pid: u32,
    /// Lines that were written.
    pub(super) lines: Arc<AtomicU64>,
}

/// The metrics of the running measurement, served at `/metrics` and any other path.
#[derive(Default)]
pub(super) struct LiveMetrics(Arc<Mutex<Option<LiveSubject>>>);

/// Ends the display of a measurement on drop.
pub(super) struct LiveGuard<'a>(&'a LiveMetrics);

impl LiveMetrics {
    /// Serves metrics at this address; without one, nowhere.
    pub(super) fn start(address: Option<&str>) -> anyhow::Result<Self> {
        let metrics = Self::default();
        let Some(address) = address else { return Ok(metrics) };
        let listener = std::net::TcpListener::bind(address).with_context(|| format!("cannot listen at {address}"))?;
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let subject = Arc::clone(&metrics.0);
        thread::Builder::new().name("live".to_owned()).spawn(move || runtime.block_on(serve(listener, subject)))?;
        Ok(metrics)
    }

    /// Shows a measurement until the guard is dropped.
    pub(super) fn show(&self, subject: LiveSubject) -> LiveGuard<'_> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(subject);
        LiveGuard(self)
    }
}

impl Drop for LiveGuard<'_> {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

async fn serve(listener: std::net::TcpListener, subject: Arc<Mutex<Option<LiveSubject>>>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    loop {
        let Ok((socket, _)) = listener.accept().await else { continue };
        let subject = Arc::clone(&subject);
        let answer = hyper::service::service_fn(move |_: Request<Incoming>| {
            let text =
                subject.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map_or_else(String::new, metrics);
            let mut response = Response::new(Full::new(Bytes::from(text)));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4"));
            std::future::ready(Ok::<_, Infallible>(response))
        });
        // One connection at a time: a failed one concerns only the scraper.
        let _ = hyper::server::conn::http1::Builder::new()
            .keep_alive(false)
            .serve_connection(TokioIo::new(socket), answer)
            .await;
    }
}

/// The metrics of a measurement in the text format of Prometheus.
fn metrics(subject: &LiveSubject) -> String {
    let LiveSubject { agent, load, pid, lines } = subject;
    let labels = format!(
        "{{agent=\"{agent}\",delivery=\"{}\",writers=\"{}\",rate=\"{}\",line_bytes=\"{}\"}}",
        load.delivery.name(),
        load.writers,
        load.rate,
        load.line_bytes
    );
    let cpu = process::cpu_nanos(*pid).map_or(f64::NAN, |nanos| nanos as f64 / 1e9);
    let memory = process::resident_mb(*pid).map_or(f64::NAN, |megabytes| megabytes * 1e6);
    let mut text = String::new();
    let figures = [
        (
            "bucksaw_edge_lines_total",
            "counter",
            "Lines that the writers have written.",
            lines.load(Ordering::Relaxed) as f64,
        ),
        ("bucksaw_edge_agent_cpu_seconds_total", "counter", "CPU of the agent in all threads.", cpu),
        ("bucksaw_edge_agent_resident_bytes", "gauge", "Resident memory of the agent.", memory),
    ];
    for (name, kind, help, value) in figures {
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name}{labels} {value}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::super::load::LineDelivery;
    use super::*;

    #[test]
    fn a_running_measurement_can_be_scraped() {
        let port = super::super::agents::free_port().unwrap();
        let address = format!("127.0.0.1:{port}");
        let live = LiveMetrics::start(Some(&address)).unwrap();
        let scrape = || {
            let mut socket = TcpStream::connect(&address).unwrap();
            socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            let mut text = String::new();
            socket.read_to_string(&mut text).unwrap();
            text
        };
        let load = EdgeLoad { delivery: LineDelivery::Tail, writers: 2, rate: 1_000, line_bytes: 100 };
        let lines = Arc::new(AtomicU64::new(7));
        let guard = live.show(LiveSubject { agent: "bucksaw".into(), load, pid: std::process::id(), lines });
        let text = scrape();
        let sample = "bucksaw_edge_lines_total{agent=\"bucksaw\",delivery=\"tail\",writers=\"2\",rate=\"1000\",line_bytes=\"100\"} 7\n";
        assert!(text.contains(sample) && !text.contains("NaN"), "{text}");
        let dashboard = include_str!("../../edge/grafana.json");
        let mut names: Vec<&str> =
            dashboard.split(|letter: char| !(letter.is_ascii_lowercase() || letter == '_')).collect();
        names.retain(|name| name.starts_with("bucksaw_edge_"));
        assert!(names.len() > 3 && names.iter().all(|name| text.contains(&format!("\n{name}{{"))), "{names:?}");
        drop(guard);
        assert!(!scrape().contains("bucksaw_edge"));
    }
}
