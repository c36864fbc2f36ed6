//! Builds the transition table that runs over columns from a regex.

use bucksaw_search::{Automaton, Transition};
use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{Compiler, Config as NfaConfig, WhichCaptures};
use regex_automata::util::start;
use regex_automata::{Anchored, MatchKind};
use regex_syntax::hir::Hir;

/// The cache of the lazy DFA while the table is built, in bytes: more than a table within its limit needs.
const CACHE_BYTES: usize = 8 << 20;

/// Visits of NFA states while the table is built: some tens of milliseconds at worst. A regex that needs more is searched for in
/// built lines.
const EXPLORE_WORK: usize = 16 << 20;

/// The automaton of a regex over one line without its LF, or from the first byte of a match on if `anchored`. `None` if it would be
/// too large, or if a DFA cannot express the regex.
pub(crate) fn build_automaton(hir: &Hir, anchored: Anchored) -> Option<Automaton> {
    let captures = NfaConfig::new().which_captures(WhichCaptures::None).utf8(false);
    let nfa = Compiler::new().configure(captures).build_from_hir(hir).ok()?;
    // An entry of the table costs at most one visit of each NFA state.
    let mut steps_left = EXPLORE_WORK / nfa.states().len().max(1);
    let config =
        DFA::config().match_kind(MatchKind::LeftmostFirst).cache_capacity(CACHE_BYTES).skip_cache_capacity_check(true);
    let dfa = DFA::builder().configure(config).build_from_nfa(nfa).ok()?;
    let cache = std::cell::RefCell::new(Cache::new(&dfa));
    let classes = std::array::from_fn(|byte| dfa.byte_classes().get(byte as u8));
    let start = dfa.start_state(&mut cache.borrow_mut(), &start::Config::new().anchored(anchored)).ok()?;
    // The DFA reports a match one byte late, or at the end.
    let step = |state: LazyStateID, byte: u8| {
        steps_left = steps_left.checked_sub(1)?;
        let to = dfa.next_state(&mut cache.borrow_mut(), state, byte).ok()?;
        match to {
            _ if to.is_match() => Some(Transition::Matched),
            _ if to.is_dead() => Some(Transition::Dead),
            _ if to.is_quit() => None,
            to => Some(Transition::To(to)),
        }
    };
    let at_end = |state| Some(dfa.next_eoi_state(&mut cache.borrow_mut(), state).ok()?.is_match());
    let automaton = Automaton::explore(classes, start, step, at_end)?;
    // State ids change when the cache is cleared.
    (cache.borrow().clear_count() == 0).then_some(automaton)
}
