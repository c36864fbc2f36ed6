//! Searching columns for text and running automata over them, without building lines.

mod alignments;
mod automaton_run;
mod column_search;
mod edge_matches;
mod fixed_width_search;
mod integer_search;
mod layout_search;
mod literal_prefix;
mod needle_occurrences;
mod part_lengths;
mod raw_search;
mod row_states;
mod search_block;
mod search_context;
mod text_predicate;
