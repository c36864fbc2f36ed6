//! Searches a text for a regex, in slices of bounded work.
//!
//! The [meta engine](meta::Regex) is the fastest for most regexes, but it cannot be interrupted. If its lazy DFA fails,
//! its time per byte grows with the number of NFA states. So it searches only texts for which bytes times states is
//! small. Other texts are searched here:
//!
//! - a lazy DFA, with a cache that holds all states of most large regexes;
//! - where its cache fills too quickly, a simulation of the NFA. Its memory and its time per byte are proportional to the NFA, and
//!   it polls for cancellation after each slice of work.
//!
//! Both find only whether a match exists and the first position at which one ends. So they need no priorities or
//! groups.
//!
//! Invariant: between two polls of a [`CancelPoll`] lie at most about [`SLICE_WORK`] steps of an automaton.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use bucksaw_search::CancelPoll;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{Compiler, Config as NfaConfig, NFA, State, WhichCaptures};
use regex_automata::util::prefilter::Prefilter;
use regex_automata::util::primitives::StateID;
use regex_automata::{Input, MatchKind, meta};
use regex_syntax::hir::Hir;

/// The largest NFA of a regex, in bytes.
const NFA_BYTES_MAX: usize = 512 * 1024;

/// The most NFA states of a regex that the meta engine searches for.
const META_STATES_MAX: usize = 1_000;

/// Bytes times NFA states of a text that the meta engine searches at once: at worst about a hundred milliseconds.
const META_WORK: usize = 16 << 20;

/// Bytes times NFA states between two polls of a [`CancelPoll`].
const SLICE_WORK: usize = 4 << 20;

/// The shortest and the longest slice, in bytes.
const SLICE_BYTES_MIN: usize = 1 << 10;
const SLICE_BYTES_MAX: usize = 256 << 10;

/// The cache of the meta engine's lazy DFA per searching thread, in bytes.
const META_CACHE_BYTES: usize = 1 << 20;

/// The cache of a lazy DFA per searching thread, in bytes: enough for a thousand repetitions of a class, which need a
/// thousand states of a thousand bytes each.
const CACHE_BYTES: usize = 8 << 20;

/// The limit of all caches of lazy DFAs of this module in the process, in bytes. A search without a cache simulates the NFA. The
/// limit is process-wide, because it bounds the memory of the process.
static CACHE_BYTES_LIMIT: AtomicUsize = AtomicUsize::new(MEMORY_BYTES_MAX);

/// The largest limit, and the default.
pub const MEMORY_BYTES_MAX: usize = 128 << 20;

/// Limits the memory for states of automata in the process, to at most [`MEMORY_BYTES_MAX`]. A lower limit slows down searches for
/// large regexes. Memory already in use is not released.
pub fn limit_memory(bytes: usize) {
    CACHE_BYTES_LIMIT.store(bytes.min(MEMORY_BYTES_MAX), Ordering::Relaxed);
}

fn cache_bytes_limit() -> usize {
    CACHE_BYTES_LIMIT.load(Ordering::Relaxed)
}

/// Texts that are simulated after a cache filled too quickly, before the DFA is tried again; doubled each time.
const PAUSE_TEXTS: u32 = 64;
const PAUSE_TEXTS_MAX: u32 = 1 << 16;

/// The size of all caches in the process, in bytes.
static CACHE_BYTES_USED: AtomicUsize = AtomicUsize::new(0);

/// A compiled regex, shared by any number of threads.
#[derive(Debug)]
pub(crate) struct RegexEngine {
    meta: Option<meta::Regex>,
    nfa: NFA,
    /// `None` if the NFA needs a larger cache than [`CACHE_BYTES`] from the start.
    dfa: Option<DFA>,
    /// Caches that no search uses.
    idle_caches: Mutex<Vec<PooledDfaCache>>,
}

/// A cache, and its reservation in the memory of all caches.
#[derive(Debug)]
struct PooledDfaCache {
    cache: Box<Cache>,
    /// Texts that are still simulated before the DFA is tried again.
    paused_texts: u32,
    /// The length of the next pause.
    next_pause_texts: u32,
}

impl PooledDfaCache {
    fn new(dfa: &DFA) -> Option<Self> {
        let room = |taken: usize| taken.checked_add(CACHE_BYTES).filter(|taken| *taken <= cache_bytes_limit());
        CACHE_BYTES_USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).ok()?;
        Some(Self { cache: Box::new(dfa.create_cache()), paused_texts: 0, next_pause_texts: PAUSE_TEXTS })
    }
}

impl Drop for PooledDfaCache {
    fn drop(&mut self) {
        CACHE_BYTES_USED.fetch_sub(CACHE_BYTES, Ordering::Relaxed);
    }
}

/// The lazy DFA gave up without a result.
struct DfaGaveUp;

impl RegexEngine {
    /// Builds the automata; the error is why they would be too large.
    pub(crate) fn new(hir: &Hir) -> Result<Self, String> {
        let too_large = || format!("it takes more than {NFA_BYTES_MAX} bytes when compiled; have it repeat less");
        let nfa = NfaConfig::new().which_captures(WhichCaptures::None).utf8(false).nfa_size_limit(Some(NFA_BYTES_MAX));
        let nfa = Compiler::new().configure(nfa).build_from_hir(hir).map_err(|_| too_large())?;
        let meta = match nfa.states().len() {
            ..=META_STATES_MAX => Some(build_meta(hir)?),
            _ => None,
        };
        let dfa = DFA::config()
            .match_kind(MatchKind::LeftmostFirst)
            .prefilter(Prefilter::from_hir_prefix(MatchKind::LeftmostFirst, hir))
            .unicode_word_boundary(true)
            .cache_capacity(CACHE_BYTES)
            .minimum_cache_clear_count(Some(1))
            .minimum_bytes_per_state(Some(10));
        let dfa = DFA::builder().configure(dfa).build_from_nfa(nfa.clone()).ok();
        Ok(Self { meta, nfa, dfa, idle_caches: Mutex::default() })
    }

    /// Memory in bytes, without the caches of searches.
    pub(crate) fn memory(&self) -> usize {
        let dfa = self.dfa.as_ref().map_or(0, DFA::memory_usage);
        self.meta.as_ref().map_or(0, meta::Regex::memory_usage) + self.nfa.memory_usage() + dfa
    }

    /// Whether a search skips text in which no match begins, by literals.
    pub(crate) fn is_accelerated(&self) -> bool {
        self.meta.as_ref().is_some_and(meta::Regex::is_accelerated)
    }

    /// The text to search at once, in bytes.
    pub(crate) fn slice_bytes(&self) -> usize {
        (SLICE_WORK / self.nfa.states().len().max(1)).clamp(SLICE_BYTES_MIN, SLICE_BYTES_MAX)
    }

    /// Whether a text has a match. Meaningless after a cancellation.
    pub(crate) fn is_match(&self, text: &[u8], cancel_poll: &CancelPoll<'_>) -> bool {
        // The meta engine's own `is_match` needs no end, but where a literal recurs it falls back to the slowest of its automata.
        self.find_end(text, cancel_poll).is_some()
    }

    /// The end of the first match found from the left. Meaningless after a cancellation.
    pub(crate) fn find_end(&self, text: &[u8], cancel_poll: &CancelPoll<'_>) -> Option<usize> {
        if let Some(meta) = &self.meta
            && text.len() <= META_WORK / self.nfa.states().len().max(1)
        {
            return Some(meta.search_half(&Input::new(text).earliest(true))?.offset());
        }
        if cancel_poll.poll() {
            return None;
        }
        self.search_with_pooled_cache(text, cancel_poll)
            .unwrap_or_else(|DfaGaveUp| self.simulate_nfa(text, cancel_poll))
    }

    fn search_with_pooled_cache(&self, text: &[u8], cancel_poll: &CancelPoll<'_>) -> Result<Option<usize>, DfaGaveUp> {
        let dfa = self.dfa.as_ref().ok_or(DfaGaveUp)?;
        let idle = self.idle_caches.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut held = idle.or_else(|| PooledDfaCache::new(dfa)).ok_or(DfaGaveUp)?;
        let found = if held.paused_texts > 0 {
            held.paused_texts -= 1;
            Err(DfaGaveUp)
        } else {
            let found = self.search_dfa(dfa, &mut held.cache, text, cancel_poll);
            if found.is_err() {
                held.paused_texts = held.next_pause_texts;
                held.next_pause_texts = (held.next_pause_texts * 2).min(PAUSE_TEXTS_MAX);
            }
            found
        };
        // If caches are scarce, each is released between searches.
        if CACHE_BYTES_USED.load(Ordering::Relaxed) <= cache_bytes_limit() / 2 || held.paused_texts > 0 {
            self.idle_caches.lock().unwrap_or_else(PoisonError::into_inner).push(held);
        }
        found
    }

    fn search_dfa(
        &self,
        dfa: &DFA,
        cache: &mut Cache,
        text: &[u8],
        cancel_poll: &CancelPoll<'_>,
    ) -> Result<Option<usize>, DfaGaveUp> {
        let (slice, input) = (self.slice_bytes(), Input::new(text).earliest(true));
        if text.len() <= slice * 2 {
            let found = dfa.try_search_fwd(cache, &input).map_err(|_| DfaGaveUp)?;
            return Ok(found.map(|half| half.offset()));
        }
        let mut state = dfa.start_state_forward(cache, &input).map_err(|_| DfaGaveUp)?;
        for (number, part) in text.chunks(slice).enumerate() {
            if cancel_poll.poll() {
                return Ok(None);
            }
            for (at, byte) in part.iter().enumerate() {
                state = dfa.next_state(cache, state, *byte).map_err(|_| DfaGaveUp)?;
                if state.is_tagged() {
                    match state {
                        // The automaton reports a match one byte late.
                        state if state.is_match() => return Ok(Some(number * slice + at)),
                        state if state.is_dead() => return Ok(None),
                        state if state.is_quit() => return Err(DfaGaveUp),
                        _ => {}
                    }
                }
            }
        }
        let last = dfa.next_eoi_state(cache, state).map_err(|_| DfaGaveUp)?;
        Ok(last.is_match().then_some(text.len()))
    }

    fn simulate_nfa(&self, text: &[u8], cancel_poll: &CancelPoll<'_>) -> Option<usize> {
        let mut simulation = Simulation::new(&self.nfa, text);
        if simulation.enter(self.nfa.start_unanchored(), 0) {
            return Some(0);
        }
        let mut work = 0;
        for (at, byte) in text.iter().enumerate() {
            work += simulation.next.len() + 1;
            if work >= SLICE_WORK {
                work = 0;
                if cancel_poll.poll() {
                    return None;
                }
            }
            if simulation.step(*byte, at + 1) {
                return Some(at + 1);
            }
            if simulation.next.is_empty() {
                return None;
            }
        }
        None
    }
}

/// The set of NFA states at one offset of a text.
struct Simulation<'a> {
    nfa: &'a NFA,
    text: &'a [u8],
    /// States that consume a byte, at this offset and at the next.
    current: Vec<StateID>,
    next: Vec<StateID>,
    /// For each state the last offset at which it was entered, plus one.
    visited_at: Vec<usize>,
    stack: Vec<StateID>,
}

impl<'a> Simulation<'a> {
    fn new(nfa: &'a NFA, text: &'a [u8]) -> Self {
        let entered = vec![0; nfa.states().len()];
        Self { nfa, text, current: Vec::new(), next: Vec::new(), visited_at: entered, stack: Vec::new() }
    }

    /// Consumes a byte and moves to offset `at`. Returns whether a match ends there.
    fn step(&mut self, byte: u8, at: usize) -> bool {
        std::mem::swap(&mut self.current, &mut self.next);
        self.next.clear();
        let now = std::mem::take(&mut self.current);
        let found = now.iter().any(|state| {
            let to = match self.nfa.state(*state) {
                State::ByteRange { trans } => trans.matches_byte(byte).then_some(trans.next),
                State::Sparse(sparse) => sparse.matches_byte(byte),
                State::Dense(dense) => dense.matches_byte(byte),
                _ => None,
            };
            to.is_some_and(|to| self.enter(to, at))
        });
        self.current = now;
        found
    }

    /// Enters a state and all states reached from it without a byte. Returns whether a match state is among them.
    fn enter(&mut self, state: StateID, at: usize) -> bool {
        self.stack.push(state);
        while let Some(state) = self.stack.pop() {
            match self.visited_at.get_mut(state.as_usize()) {
                Some(entered) if *entered <= at => *entered = at + 1,
                _ => continue,
            }
            match self.nfa.state(state) {
                State::ByteRange { .. } | State::Sparse(_) | State::Dense(_) => self.next.push(state),
                State::Look { look, next } => {
                    if self.nfa.look_matcher().matches(*look, self.text, at) {
                        self.stack.push(*next);
                    }
                }
                State::Union { alternates } => self.stack.extend_from_slice(alternates),
                State::BinaryUnion { alt1, alt2 } => self.stack.extend([*alt1, *alt2]),
                State::Capture { next, .. } => self.stack.push(*next),
                State::Fail => {}
                State::Match { .. } => return true,
            }
        }
        false
    }
}

fn build_meta(hir: &Hir) -> Result<meta::Regex, String> {
    let config = meta::Config::new()
        .match_kind(MatchKind::LeftmostFirst)
        .utf8_empty(false)
        .which_captures(WhichCaptures::Implicit)
        .nfa_size_limit(Some(NFA_BYTES_MAX))
        .hybrid_cache_capacity(META_CACHE_BYTES)
        // One-pass automata serve capture groups, which no search uses.
        .onepass(false);
    meta::Builder::new().configure(config).build_from_hir(hir).map_err(|error| match error.size_limit() {
        Some(limit) => format!("it takes more than {limit} bytes when compiled; have it repeat less"),
        None => error.to_string().lines().collect::<Vec<_>>().join(" "),
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;
    use regex_syntax::ParserBuilder;

    use super::*;

    fn parse(regex: &str) -> Option<Hir> {
        ParserBuilder::new().utf8(false).unicode(false).multi_line(true).build().parse(regex).ok()
    }

    fn engine(regex: &str) -> RegexEngine {
        RegexEngine::new(&parse(regex).unwrap()).unwrap()
    }

    /// Pseudo-random letters.
    fn letters(count: usize) -> Vec<u8> {
        let mut state = 7_u64;
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            b'a' + (state >> 40) as u8 % 26
        };
        (0..count).map(next).collect()
    }

    /// Regexes that took more than a minute before searches were sliced.
    const SLOW: [&str; 2] = ["[^\\x00]{0,1000}z{0,1000}Q", "(?i)([a-z]{100}){20}[0-9]"];

    #[test]
    fn a_search_within_one_record_stops_after_a_slice_of_work() {
        let text = letters(1 << 20);
        for regex in SLOW {
            let engine = engine(regex);
            let looks = Cell::new(0);
            let cancel = || {
                looks.set(looks.get() + 1);
                looks.get() > 3
            };
            let cancel_poll = CancelPoll::new(&cancel);
            assert!(!engine.is_match(&text, &cancel_poll) && cancel_poll.is_cancelled(), "{regex}");
            assert_eq!(looks.get(), 4, "{regex}: the token is not read again after the stop");
            // The simulation stops too.
            looks.set(0);
            assert!(engine.simulate_nfa(&text, &CancelPoll::new(&cancel)).is_none());
            assert_eq!(looks.get(), 4, "{regex}");
        }
    }

    #[test]
    fn repetitions_of_a_class_fit_into_the_cache() {
        let engine = engine("(?i)([a-z]{100}){20}");
        let text = letters(5_000);
        let (dfa, mut cache) = (engine.dfa.as_ref().unwrap(), engine.dfa.as_ref().unwrap().create_cache());
        for _ in 0..20 {
            let found = engine.search_dfa(dfa, &mut cache, &text, &CancelPoll::never());
            assert_eq!(found.ok().flatten(), Some(2_000));
        }
        assert_eq!(cache.clear_count(), 0);
        assert!(cache.memory_usage() <= CACHE_BYTES);
    }

    #[test]
    fn caches_of_all_searches_are_within_one_budget() {
        let engines: Vec<RegexEngine> = (0..40).map(|at| engine(&format!("[a-z]{{1200}}{at}"))).collect();
        let mut text = letters(1_500);
        text.extend_from_slice(b"17");
        for (at, engine) in engines.iter().enumerate() {
            assert_eq!(engine.is_match(&text, &CancelPoll::never()), at == 1 || at == 17, "{at}");
            assert!(CACHE_BYTES_USED.load(Ordering::Relaxed) <= MEMORY_BYTES_MAX);
        }
    }

    proptest! {
        #[test]
        fn all_ways_find_the_same(
            regex in r"(\^|\\b|\\B)?([ab.]|\[\^a\]|\(a\|bb\)|\(a\?b\)|\(\^\|b\)|\(a\$\|b\))([*+?]|\{2,4\}|\{0,3\})?([abc]|\\b|\\w)([*?]|\{3\})?(\$|a|c)?",
            text in "[abc \n]{0,40}",
        ) {
            let hir = parse(&regex);
            prop_assume!(hir.is_some());
            let (engine, text) = (RegexEngine::new(&hir.unwrap()).unwrap(), text.as_bytes());
            let want = engine.meta.as_ref().unwrap().is_match(text);
            let never = CancelPoll::never();
            prop_assert_eq!(engine.simulate_nfa(text, &never).is_some(), want, "simulated: {}", regex);
            if let Ok(found) = engine.search_with_pooled_cache(text, &never) {
                prop_assert_eq!(found, engine.simulate_nfa(text, &never), "lazily: {}", regex);
            }
            // The first end of a match in one line belongs to that line.
            if !text.contains(&b'\n') {
                let alone = engine.find_end(text, &never);
                prop_assert_eq!(alone.is_some(), want);
            }
        }
    }
}
