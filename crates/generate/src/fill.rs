//! Fills the blanks of a line.
//!
//! What a line may say in more than one place (its user, its request, how long that took) is decided once per line, so
//! that a line does not contradict itself.

use crate::deck::Deck;
use crate::fleet::{ADDRESS_BITS, ENDPOINT_BITS, Fleet, TRACES, USER_BITS};
use crate::mood::{Level, Mood};
use crate::put::Put;
use crate::rng::Rng;
use crate::stamp::Stamp;
use crate::template::{Blank, Part, Template};
use crate::words::SERVICES;

/// How long the machines were up before the first line, in milliseconds.
const UP_BEFORE_MS: u64 = 86_400_000;

/// What the line at hand is about.
#[derive(Clone, Debug)]
struct Subject {
    level: Level,
    unix_ms: u64,
    service: u32,
    user: usize,
    endpoint: usize,
    trace: u32,
    status: u16,
    /// The order that it is about.
    id: u64,
    /// How long it took, in microseconds.
    micros: u64,
}

/// The state that lines are made from.
#[derive(Clone, Debug)]
pub(crate) struct Filler {
    pub(crate) rng: Rng,
    start: u64,
    stamp: Stamp,
    mood: Mood,
    fleet: Fleet,
    statuses: [Deck<u16>; 3],
    growing: u64,
    subject: Subject,
    /// Where the line at hand may be cut, from the start of the output it is in.
    pub(crate) cuts: Vec<usize>,
}

impl Filler {
    pub(crate) fn new(seed: u64, start: u64) -> Self {
        let mut rng = Rng::new(seed);
        let subject = Subject {
            level: Level::Info,
            unix_ms: start,
            service: 0,
            user: 0,
            endpoint: 0,
            trace: 0,
            status: 200,
            id: 0,
            micros: 0,
        };
        let fine = [(860, 200), (40, 201), (30, 204), (10, 206), (10, 301), (20, 302), (30, 304)];
        let refused = [(55, 404), (14, 401), (10, 403), (9, 400), (7, 429), (3, 422), (2, 499)];
        let failed = [(40, 500), (25, 502), (25, 503), (10, 504)];
        Self {
            start,
            stamp: Stamp::default(),
            mood: Mood::new(&mut rng, start),
            fleet: Fleet::new(&mut rng),
            statuses: [Deck::new(fine), Deck::new(refused), Deck::new(failed)],
            growing: 1_000_000 + u64::from(rng.below(1_000_000)),
            subject,
            cuts: Vec::new(),
            rng,
        }
    }

    /// Decides what the next line is about, and gives its level.
    pub(crate) fn begin(&mut self, unix_ms: u64) -> Level {
        let Self { rng, fleet, .. } = self;
        self.stamp.set(unix_ms);
        self.mood.set(rng, unix_ms);
        self.cuts.clear();
        let culprit = self.mood.culprit(unix_ms);
        let level = Mood::level(rng, culprit.is_some());
        let service = match (level, culprit) {
            (Level::Error, Some(culprit)) => culprit % SERVICES.len() as u32,
            _ => rng.below(SERVICES.len() as u32),
        };
        let [fine, refused, failed] = &self.statuses;
        let status = match level {
            Level::Debug | Level::Info => fine.draw(rng),
            Level::Warn => refused.draw(rng),
            Level::Error => failed.draw(rng),
        };
        // Whatever fails mostly fails slowly.
        let slower = u32::from(level == Level::Error) * 2 + u32::from(culprit.is_some());
        let user = rng.zipf(USER_BITS);
        let trace = rng.below(TRACES);
        // A session lives for some fifty lines and a trace for some four.
        if rng.one_in(50)
            && let Some(place) = fleet.sessions.get_mut(user)
        {
            *place = rng.bits();
        }
        if rng.one_in(4)
            && let Some(place) = fleet.traces.get_mut(trace as usize)
        {
            *place = (rng.bits(), rng.bits());
        }
        self.subject = Subject {
            level,
            unix_ms,
            service,
            endpoint: rng.zipf(ENDPOINT_BITS),
            user,
            trace,
            status: status.copied().unwrap_or(200),
            id: self.growing - rng.zipf(14) as u64,
            micros: rng.tailed(3_000, 9) << slower,
        };
        level
    }

    /// Appends a line about what was decided last.
    pub(crate) fn fill(&mut self, template: &Template, out: &mut Vec<u8>) {
        for part in template.parts() {
            match *part {
                Part::Text(text) => _ = out.text(text),
                Part::Word(words) => {
                    let word = words.get(self.rng.early(words.len() as u32) as usize);
                    out.text(word.copied().unwrap_or_default());
                }
                Part::Blank(blank) => self.fill_blank(blank, out),
                Part::Comma => {
                    self.cuts.push(out.len());
                    out.push(b',');
                }
            }
        }
    }

    fn fill_blank(&mut self, blank: Blank, out: &mut Vec<u8>) {
        let Self { rng, fleet, stamp, subject, .. } = self;
        let user = fleet.users.get(subject.user);
        let endpoint = fleet.endpoints.get(subject.endpoint);
        match blank {
            Blank::Time => out.extend_from_slice(stamp.rfc3339()),
            Blank::CommaTime => out.extend_from_slice(stamp.comma()),
            Blank::SpacedTime => out.extend_from_slice(stamp.spaced()),
            Blank::AccessTime => out.extend_from_slice(stamp.access()),
            Blank::SyslogTime => out.extend_from_slice(stamp.syslog()),
            Blank::Uptime => {
                let up_ms = subject.unix_ms.saturating_sub(self.start).saturating_add(UP_BEFORE_MS);
                let micros = up_ms % 1_000 * 1_000 + u64::from(rng.below(1_000));
                _ = out.number(up_ms / 1_000).text(".").padded(micros, 6);
            }
            Blank::Level => _ = out.text(subject.level.name()),
            Blank::LevelColumn => _ = out.text(subject.level.column()),
            Blank::Service => _ = out.text(SERVICES.get(subject.service as usize).copied().unwrap_or_default()),
            Blank::Host => _ = out.text("node-").padded(rng.zipf(5) as u64, 2),
            Blank::Address => _ = out.text(fleet.addresses.get(rng.zipf(ADDRESS_BITS)).map_or("-", |it| it.as_str())),
            Blank::Port => _ = out.number(u64::from(32_768 + rng.below(28_000))),
            Blank::User => _ = out.text(user.map_or("-", |user| user.name.as_str())),
            Blank::Visitor if rng.below(5) > 0 => out.push(b'-'),
            Blank::Visitor => _ = out.text(user.map_or("-", |user| user.name.as_str())),
            Blank::UserId => _ = out.number(user.map_or(0, |user| user.id)),
            Blank::Session => _ = out.hex(fleet.sessions.get(subject.user).copied().unwrap_or_default()),
            Blank::Trace => {
                let (upper, lower) = fleet.traces.get(subject.trace as usize).copied().unwrap_or_default();
                _ = out.hex(upper).hex(lower);
            }
            Blank::Span => _ = out.hex(rng.bits()),
            Blank::Method => _ = out.text(endpoint.map_or("GET", |endpoint| endpoint.method)),
            Blank::Url => _ = out.text(endpoint.map_or("/", |endpoint| endpoint.url.as_str())),
            Blank::Status => _ = out.number(u64::from(subject.status)),
            // These two answers have no body.
            Blank::Bytes if matches!(subject.status, 204 | 304) => out.push(b'0'),
            Blank::Bytes => _ = out.number(rng.tailed(180, 12)),
            Blank::Ms => _ = out.number(subject.micros / 1_000),
            Blank::MsFraction => _ = out.number(subject.micros / 1_000).text(".").padded(subject.micros % 1_000, 3),
            Blank::Seconds => {
                let ms = subject.micros / 1_000;
                _ = out.number(ms / 1_000).text(".").padded(ms % 1_000, 3);
            }
            Blank::Id => _ = out.number(subject.id),
            Blank::Growing => {
                self.growing += 1;
                _ = out.number(self.growing);
            }
            Blank::Process => _ = out.number(800 + rng.zipf(7) as u64 * 23),
            Blank::Few => _ = out.number(u64::from(1 + rng.below(9))),
            Blank::Some => _ = out.number(rng.tailed(8, 8)),
            Blank::Many => _ = out.number(rng.tailed(900, 14)),
            Blank::Percent => {
                let tenths = u64::from(rng.below(1_000));
                _ = out.number(tenths / 10).text(".").number(tenths % 10);
            }
            Blank::Price => {
                let cents = rng.tailed(499, 8);
                _ = out.number(cents / 100).text(".").padded(cents % 100, 2);
            }
            Blank::Position => {
                // A position moves on with the counter, some 8 kB at a time.
                let at = self.growing << 13 | u64::from(rng.below(1 << 10)) << 3;
                _ = out.number(at >> 32).text("/").hex_half(at as u32);
            }
        }
    }
}
