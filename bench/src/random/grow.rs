//! Grows a small log: repeats its lines in other orders, with other numbers and ids, and on a clock that goes on.
//!
//! A plain repetition would store nearly nothing and have few distinct values. Here each pass over the source
//! - takes its pieces of some hundred lines in another order, and leaves out one line in twenty,
//! - maps each number of three digits or more, and each id of letters and digits, to another one of the same form, if it is
//!   rare in the source. Equal ones stay equal within a pass and share the prefixes that they shared,
//! - writes a running clock in place of `HH:MM:SS`, with the fraction that follows.

use std::collections::HashMap;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// Lines of a piece.
const PIECE_LINES: usize = 400;

/// A token is rare if at most one line in this number has it.
const RARE: usize = 200;

/// The mean time between lines, in milliseconds.
const LINE_MS: u64 = 40;

/// Grows the source to about this many bytes. A source that is large enough is cut at a line end.
pub(super) fn grow(source: &[u8], bytes: usize, seed: u64) -> Vec<u8> {
    if source.len() >= bytes {
        let end = source.get(..bytes).and_then(|head| memchr::memrchr(b'\n', head)).map_or(bytes, |feed| feed + 1);
        return source.get(..end).unwrap_or(source).to_vec();
    }
    let lines: Vec<&[u8]> = source.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    let mut grown = Vec::with_capacity(bytes + (1 << 16));
    if lines.is_empty() {
        return grown;
    }
    let mut pieces: Vec<&[&[u8]]> = lines.chunks(PIECE_LINES).collect();
    let mut pass = Pass { counts: token_counts(&lines), lines: lines.len(), key: seed, clock_ms: 0 };
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    while grown.len() < bytes {
        pass.key = random.next_u64();
        for at in (1..pieces.len()).rev() {
            pieces.swap(at, below(&mut random, at + 1));
        }
        for line in pieces.iter().copied().flatten() {
            if below(&mut random, 20) > 0 {
                pass.clock_ms += below(&mut random, 2 * LINE_MS as usize) as u64;
                pass.append(line, &mut grown);
                grown.push(b'\n');
            }
            if grown.len() >= bytes {
                break;
            }
        }
    }
    grown
}

fn below(random: &mut Xoshiro256PlusPlus, bound: usize) -> usize {
    ((u128::from(random.next_u64()) * bound as u128) >> 64) as usize
}

/// Joins logs: alternates between them, some lines at a time.
pub(super) fn mix(sources: &[Vec<u8>], bytes: usize, seed: u64) -> Vec<u8> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut rests: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
    let mut mixed = Vec::with_capacity(bytes + (1 << 16));
    while mixed.len() < bytes && !rests.is_empty() {
        let at = below(&mut random, rests.len());
        for _ in 0..=below(&mut random, 50) {
            let Some(rest) = rests.get_mut(at) else { break };
            let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |feed| feed + 1);
            let (line, behind) = rest.split_at(end);
            mixed.extend_from_slice(line);
            *rest = behind;
        }
        rests.retain(|rest| !rest.is_empty());
    }
    mixed
}

/// What one pass over the source maps tokens by.
struct Pass<'a> {
    counts: HashMap<&'a [u8], usize>,
    lines: usize,
    key: u64,
    clock_ms: u64,
}

impl Pass<'_> {
    fn append(&self, line: &[u8], grown: &mut Vec<u8>) {
        let mut at = 0;
        while let Some(rest) = line.get(at..).filter(|rest| !rest.is_empty()) {
            let is_start = at == 0 || line.get(at - 1).is_none_or(|before| !before.is_ascii_alphanumeric());
            if is_start && let Some(length) = time_length(rest) {
                self.append_time(length, grown);
                at += length;
                continue;
            }
            let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
            let token = rest.get(..length.max(1)).unwrap_or(rest);
            let is_rare = self.counts.get(token).is_some_and(|count| count * RARE <= self.lines.max(RARE));
            if is_variable(token) && is_rare {
                self.append_mapped(token, grown);
            } else {
                grown.extend_from_slice(token);
            }
            at += token.len();
        }
    }

    /// Writes the clock with as many digits behind the seconds as the source has.
    fn append_time(&self, length: usize, grown: &mut Vec<u8>) {
        let (seconds, ms) = (self.clock_ms / 1_000, self.clock_ms % 1_000);
        let text = format!("{:02}:{:02}:{:02}", seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
        grown.extend_from_slice(text.as_bytes());
        if length > text.len() {
            let fraction = format!(".{ms:03}{:06}", scramble(self.clock_ms) % 1_000_000);
            grown.extend_from_slice(fraction.as_bytes().get(..length - text.len()).unwrap_or_default());
        }
    }

    fn append_mapped(&self, token: &[u8], grown: &mut Vec<u8>) {
        let is_hex = token.iter().all(u8::is_ascii_hexdigit);
        let letters = if is_hex { 6 } else { 26 };
        let mut state = self.key;
        for (at, byte) in token.iter().enumerate() {
            state = scramble(state ^ u64::from(*byte));
            let drawn = (state >> 32) as u8;
            grown.push(match byte {
                b'0'..=b'9' if at == 0 => b'1' + drawn % 9,
                b'0'..=b'9' => b'0' + drawn % 10,
                b'a'..=b'z' => b'a' + drawn % letters,
                _ => b'A' + drawn % letters,
            });
        }
    }
}

/// Bits that depend on all bits of the input: the finalizer of splitmix64.
fn scramble(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Whether a token may vary: a number of three digits or more, or an id of digits and letters.
fn is_variable(token: &[u8]) -> bool {
    let digits = token.iter().filter(|byte| byte.is_ascii_digit()).count();
    digits > 0 && if digits == token.len() { digits >= 3 } else { token.len() >= 6 && digits >= 2 }
}

/// The length of `HH:MM:SS` at the start of the text, with a fraction of up to nine digits.
fn time_length(text: &[u8]) -> Option<usize> {
    let head = text.get(..8)?;
    let is_time =
        head.iter().enumerate().all(|(at, byte)| if at % 3 == 2 { *byte == b':' } else { byte.is_ascii_digit() });
    let behind = text.get(8);
    if !is_time || behind.is_some_and(|byte| byte.is_ascii_alphanumeric() && *byte != b'Z' || *byte == b':') {
        return None;
    }
    // A comma is kept by the caller, which writes a dot for a dot only.
    let fraction = match behind {
        Some(b'.') => text.get(9..).unwrap_or_default().iter().take(9).take_while(|byte| byte.is_ascii_digit()).count(),
        _ => 0,
    };
    Some(if fraction > 0 { 9 + fraction } else { 8 })
}

fn token_counts<'a>(lines: &[&'a [u8]]) -> HashMap<&'a [u8], usize> {
    let mut counts = HashMap::new();
    for line in lines {
        for token in line.split(|byte| !byte.is_ascii_alphanumeric()).filter(|token| is_variable(token)) {
            *counts.entry(token).or_default() += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> Vec<u8> {
        (0..900)
            .map(|at| {
                format!(
                    "2026-11-24 10:{:02}:{:02}.123 GET /item/{} id=a{:05x}f status=200 port 8080 {}\n",
                    at / 60 % 60,
                    at % 60,
                    at * 7_919,
                    at * 31,
                    ["ok", "slow", "bad"][at % 3]
                )
            })
            .collect::<String>()
            .into_bytes()
    }

    #[test]
    fn a_grown_log_has_the_form_of_its_source_and_other_numbers() {
        let grown = grow(&source(), 1 << 20, 5);
        assert!(((1 << 20)..(1 << 20) + 500).contains(&grown.len()) && grown.ends_with(b"\n"));
        assert!(grown == grow(&source(), 1 << 20, 5), "the same bytes for a seed");
        assert!(grown != grow(&source(), 1 << 20, 6));
        let text = String::from_utf8(grown).unwrap();
        let mut items = std::collections::HashSet::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!((words[0], words[2], words[5], words[7]), ("2026-11-24", "GET", "status=200", "8080"), "{line}");
            assert_eq!(words[1].len(), "10:00:00.123".len(), "{line}");
            items.insert(words[3].to_owned());
        }
        assert!(items.len() > 5_000, "{} distinct numbers", items.len());
    }

    #[test]
    fn a_large_source_is_cut_at_a_line_end() {
        let cut = grow(&source(), 10_000, 1);
        assert!(cut.len() <= 10_000 && cut.ends_with(b"\n") && source().starts_with(&cut));
    }

    #[test]
    fn a_mixture_has_whole_lines_of_all_logs() {
        let logs = [b"aaaa\n".repeat(5_000), b"bb\n".repeat(9_000), b"c\n".repeat(50)];
        let mixed = mix(&logs, 20_000, 1);
        assert!(mixed.len() >= 20_000 && mixed.len() < 21_000);
        for line in [&b"aaaa"[..], b"bb", b"c"] {
            assert!(mixed.split(|byte| *byte == b'\n').any(|other| other == line));
        }
        assert!(mixed.split(|byte| *byte == b'\n').all(|line| [&b"aaaa"[..], b"bb", b"c", b""].contains(&line)));
        assert_eq!(mix(&logs, 1 << 20, 1).len(), logs.iter().map(Vec::len).sum::<usize>(), "the logs end");
    }
}
