//! Fills the placeholders of a line.
//!
//! Values that may occur more than once in a line (its user, its request, its duration) are chosen once per line, so
//! that a line is consistent.

use crate::append_text::AppendText;
use crate::fleet::{ADDRESS_BITS, ENDPOINT_BITS, Fleet, TRACES, USER_BITS};
use crate::incidents::{IncidentSchedule, LogLevel};
use crate::rng::Rng;
use crate::template::{Placeholder, Template, TemplatePart};
use crate::timestamp_texts::TimestampTexts;
use crate::weighted_choice::WeightedChoice;
use crate::words::SERVICES;

/// The uptime of the hosts at the first line, in milliseconds.
const UPTIME_AT_START_MS: u64 = 86_400_000;

/// The subject of the current line.
#[derive(Clone, Debug, Default)]
struct LineContext {
    level: LogLevel,
    unix_ms: u64,
    service: u32,
    user: usize,
    endpoint: usize,
    trace: u32,
    status: u16,
    /// The order.
    id: u64,
    /// The duration in microseconds.
    micros: u64,
}

/// The state of a generator.
#[derive(Clone, Debug)]
pub(crate) struct TemplateFiller {
    pub(crate) rng: Rng,
    start: u64,
    timestamps: TimestampTexts,
    incidents: IncidentSchedule,
    fleet: Fleet,
    statuses: [WeightedChoice<u16>; 3],
    counter: u64,
    context: LineContext,
    /// Offsets in the output at which the current line may be cut.
    pub(crate) cut_offsets: Vec<usize>,
}

impl TemplateFiller {
    pub(crate) fn new(seed: u64, start: u64) -> Self {
        let mut rng = Rng::new(seed);
        let success_statuses = [(860, 200), (40, 201), (30, 204), (10, 206), (10, 301), (20, 302), (30, 304)];
        let client_error_statuses = [(55, 404), (14, 401), (10, 403), (9, 400), (7, 429), (3, 422), (2, 499)];
        let server_error_statuses = [(40, 500), (25, 502), (25, 503), (10, 504)];
        Self {
            start,
            timestamps: TimestampTexts::default(),
            incidents: IncidentSchedule::new(&mut rng, start),
            fleet: Fleet::new(&mut rng),
            statuses: [
                WeightedChoice::new(success_statuses),
                WeightedChoice::new(client_error_statuses),
                WeightedChoice::new(server_error_statuses),
            ],
            counter: 1_000_000 + u64::from(rng.below(1_000_000)),
            context: LineContext::default(),
            cut_offsets: Vec::new(),
            rng,
        }
    }

    /// Chooses the subject of the next line, and returns its level.
    pub(crate) fn begin_line(&mut self, unix_ms: u64) -> LogLevel {
        let Self { rng, fleet, .. } = self;
        self.timestamps.set(unix_ms);
        self.incidents.advance_to(rng, unix_ms);
        self.cut_offsets.clear();
        let failing_service = self.incidents.failing_service(unix_ms);
        let level = IncidentSchedule::level(rng, failing_service.is_some());
        let service = match (level, failing_service) {
            (LogLevel::Error, Some(failing)) => failing % SERVICES.len() as u32,
            _ => rng.below(SERVICES.len() as u32),
        };
        let [fine, refused, failed] = &self.statuses;
        let status = match level {
            LogLevel::Debug | LogLevel::Info => fine.sample(rng),
            LogLevel::Warn => refused.sample(rng),
            LogLevel::Error => failed.sample(rng),
        };
        // Failing requests are mostly slow.
        let slower = u32::from(level == LogLevel::Error) * 2 + u32::from(failing_service.is_some());
        let user = rng.zipf(USER_BITS);
        let trace = rng.below(TRACES);
        // A session lasts about fifty lines, a trace about four.
        if rng.one_in(50)
            && let Some(place) = fleet.sessions.get_mut(user)
        {
            *place = rng.next_u64();
        }
        if rng.one_in(4)
            && let Some(place) = fleet.traces.get_mut(trace as usize)
        {
            *place = (rng.next_u64(), rng.next_u64());
        }
        self.context = LineContext {
            level,
            unix_ms,
            service,
            endpoint: rng.zipf(ENDPOINT_BITS),
            user,
            trace,
            status: status.copied().unwrap_or(200),
            id: self.counter - rng.zipf(14) as u64,
            micros: rng.long_tailed(3_000, 9) << slower,
        };
        level
    }

    /// Appends a line about the current subject.
    pub(crate) fn fill(&mut self, template: &Template, out: &mut Vec<u8>) {
        for part in template.parts() {
            match *part {
                TemplatePart::Text(text) => _ = out.text(text),
                TemplatePart::Word(words) => {
                    let word = words.get(self.rng.skewed_below(words.len() as u32) as usize);
                    out.text(word.copied().unwrap_or_default());
                }
                TemplatePart::Placeholder(placeholder) => self.fill_placeholder(placeholder, out),
                TemplatePart::Comma => {
                    self.cut_offsets.push(out.len());
                    out.push(b',');
                }
            }
        }
    }

    fn fill_placeholder(&mut self, placeholder: Placeholder, out: &mut Vec<u8>) {
        let Self { rng, fleet, timestamps: stamp, context: subject, .. } = self;
        let user = fleet.users.get(subject.user);
        let endpoint = fleet.endpoints.get(subject.endpoint);
        match placeholder {
            Placeholder::Time => out.extend_from_slice(&stamp.rfc3339),
            Placeholder::CommaTime => out.extend_from_slice(&stamp.comma_millis),
            Placeholder::SpacedTime => out.extend_from_slice(&stamp.point_millis),
            Placeholder::AccessTime => out.extend_from_slice(&stamp.access_log),
            Placeholder::SyslogTime => out.extend_from_slice(&stamp.syslog),
            Placeholder::Uptime => {
                let up_ms = subject.unix_ms.saturating_sub(self.start).saturating_add(UPTIME_AT_START_MS);
                let micros = up_ms % 1_000 * 1_000 + u64::from(rng.below(1_000));
                _ = out.number(up_ms / 1_000).text(".").padded(micros, 6);
            }
            Placeholder::Level => _ = out.text(subject.level.name()),
            Placeholder::LevelColumn => _ = out.text(subject.level.padded_name()),
            Placeholder::Service => _ = out.text(SERVICES.get(subject.service as usize).copied().unwrap_or_default()),
            Placeholder::Host => _ = out.text("node-").padded(rng.zipf(5) as u64, 2),
            Placeholder::Address => {
                _ = out.text(fleet.addresses.get(rng.zipf(ADDRESS_BITS)).map_or("-", |it| it.as_str()));
            }
            Placeholder::Port => _ = out.number(u64::from(32_768 + rng.below(28_000))),
            Placeholder::User => _ = out.text(user.map_or("-", |user| user.name.as_str())),
            Placeholder::RemoteUser if rng.below(5) > 0 => out.push(b'-'),
            Placeholder::RemoteUser => _ = out.text(user.map_or("-", |user| user.name.as_str())),
            Placeholder::UserId => _ = out.number(user.map_or(0, |user| user.id)),
            Placeholder::Session => _ = out.hex(fleet.sessions.get(subject.user).copied().unwrap_or_default()),
            Placeholder::Trace => {
                let (upper, lower) = fleet.traces.get(subject.trace as usize).copied().unwrap_or_default();
                _ = out.hex(upper).hex(lower);
            }
            Placeholder::Span => _ = out.hex(rng.next_u64()),
            Placeholder::Method => _ = out.text(endpoint.map_or("GET", |endpoint| endpoint.method)),
            Placeholder::Url => _ = out.text(endpoint.map_or("/", |endpoint| endpoint.url.as_str())),
            Placeholder::Status => _ = out.number(u64::from(subject.status)),
            // Replies with these two statuses have no body.
            Placeholder::Bytes if matches!(subject.status, 204 | 304) => out.push(b'0'),
            Placeholder::Bytes => _ = out.number(rng.long_tailed(180, 12)),
            Placeholder::Ms => _ = out.number(subject.micros / 1_000),
            Placeholder::MsFraction => {
                _ = out.number(subject.micros / 1_000).text(".").padded(subject.micros % 1_000, 3);
            }
            Placeholder::Seconds => {
                let ms = subject.micros / 1_000;
                _ = out.number(ms / 1_000).text(".").padded(ms % 1_000, 3);
            }
            Placeholder::Id => _ = out.number(subject.id),
            Placeholder::Counter => {
                self.counter += 1;
                _ = out.number(self.counter);
            }
            Placeholder::Process => _ = out.number(800 + rng.zipf(7) as u64 * 23),
            Placeholder::SmallNumber => _ = out.number(u64::from(1 + rng.below(9))),
            Placeholder::MediumNumber => _ = out.number(rng.long_tailed(8, 8)),
            Placeholder::LargeNumber => _ = out.number(rng.long_tailed(900, 14)),
            Placeholder::Percent => {
                let tenths = u64::from(rng.below(1_000));
                _ = out.number(tenths / 10).text(".").number(tenths % 10);
            }
            Placeholder::Price => {
                let cents = rng.long_tailed(499, 8);
                _ = out.number(cents / 100).text(".").padded(cents % 100, 2);
            }
            Placeholder::Position => {
                // The position advances with the counter, about 8 kB at a time.
                let at = self.counter << 13 | u64::from(rng.below(1 << 10)) << 3;
                _ = out.number(at >> 32).text("/").hex_half(at as u32);
            }
        }
    }
}
