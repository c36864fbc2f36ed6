//! A text that is searched for, prepared once per query.

use std::ops::Range;

use memchr::memmem;

/// Bytes that a core leaves out at either end of a needle, at most, and the fewest bytes of a core.
const CORE_MARGIN: usize = 2;
const CORE_BYTES_MIN: usize = 4;

/// The longest needle with a core, in bytes: finding a core takes time quadratic in the length.
const CORE_NEEDLE_BYTES_MAX: usize = 256;

/// A text that is searched for.
///
/// A codec that stores a line in parts searches the parts for the *core*: the needle without up to two bytes at each
/// end. The shorter core fits into more parts than the whole needle.
#[derive(Clone, Debug)]
pub struct Needle {
    text: Vec<u8>,
    any_case: bool,
    finder: memmem::Finder<'static>,
    core: Range<usize>,
    has_non_overlapping_core: bool,
    core_finder: memmem::Finder<'static>,
    /// The bytes that occurrences may consist of.
    bytes: [u64; 4],
}

impl Needle {
    /// A needle; with `any_case`, ASCII letters match in either case. A needle with an LF occurs in no single line.
    pub fn new(text: &[u8], any_case: bool) -> Self {
        let any_case = any_case && text.iter().any(u8::is_ascii_alphabetic);
        let text = if any_case { text.to_ascii_lowercase() } else { text.to_vec() };
        let finder = memmem::Finder::new(&text).into_owned();
        let found_core = needle_core(&text);
        let has_non_overlapping_core = found_core.is_some();
        let core = found_core.unwrap_or(0..text.len());
        let core_finder = memmem::Finder::new(text.get(core.clone()).unwrap_or_default()).into_owned();
        let mut bytes = [0; 4];
        let upper = text.iter().filter(|_| any_case).map(u8::to_ascii_uppercase);
        for byte in text.iter().copied().chain(upper) {
            if let Some(word) = bytes.get_mut(byte as usize / 64) {
                *word |= 1 << (byte % 64);
            }
        }
        Self { text, any_case, finder, core, has_non_overlapping_core, core_finder, bytes }
    }

    /// Whether an occurrence may contain the byte.
    #[inline]
    pub fn contains_byte(&self, byte: u8) -> bool {
        self.bytes.get(byte as usize / 64).is_some_and(|word| word >> (byte % 64) & 1 == 1)
    }

    /// The text; in lower case if the needle is case-insensitive.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Whether ASCII letters match in either case.
    #[inline]
    pub fn any_case(&self) -> bool {
        self.any_case
    }

    /// Whether occurrences of the core cannot overlap, so that a search that continues behind each one finds all.
    pub fn has_non_overlapping_core(&self) -> bool {
        self.has_non_overlapping_core
    }

    /// The range of the core in the text; the whole text if no part of it cannot overlap itself.
    pub fn core(&self) -> Range<usize> {
        self.core.clone()
    }

    /// The offset of the first occurrence at or after `from`.
    #[inline]
    pub fn find(&self, text: &[u8], from: usize) -> Option<usize> {
        self.find_with(&self.finder, text, from)
    }

    /// The offset of the first occurrence of the core at or after `from`.
    pub fn find_core(&self, text: &[u8], from: usize) -> Option<usize> {
        self.find_with(&self.core_finder, text, from)
    }

    #[inline]
    fn find_with(&self, finder: &memmem::Finder<'_>, text: &[u8], from: usize) -> Option<usize> {
        let rest = text.get(from..)?;
        let found = if self.any_case { find_any_case(rest, finder.needle()) } else { finder.find(rest) };
        found.map(|at| from + at)
    }
}

/// The shortest core that cannot overlap itself.
fn needle_core(text: &[u8]) -> Option<Range<usize>> {
    if text.len() > CORE_NEEDLE_BYTES_MAX {
        return None;
    }
    let mut cores = (0..=CORE_MARGIN).rev().map(|margin| margin..text.len().saturating_sub(margin));
    cores.find(|core| {
        let is_long = core.len() >= CORE_BYTES_MIN || core.len() == text.len();
        is_long && text.get(core.clone()).is_some_and(|core| !overlaps_itself(core))
    })
}

/// Whether two occurrences of a text can overlap.
fn overlaps_itself(text: &[u8]) -> bool {
    (1..text.len()).any(|from| text.get(from..).is_some_and(|end| text.starts_with(end)))
}

/// Searches for a lower-case text in either case, by its rarest byte.
fn find_any_case(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let frequency = |byte: &u8| match byte {
        b'e' | b't' | b'a' | b'o' | b'i' | b'n' | b's' | b'r' | b'0'..=b'9' | b' ' | b'.' | b'/' | b'"' | b':' => 2,
        b'j' | b'k' | b'q' | b'v' | b'w' | b'x' | b'y' | b'z' => 0,
        _ => 1,
    };
    let Some((rare, byte)) = wanted.iter().enumerate().min_by_key(|(_, byte)| frequency(byte)) else { return Some(0) };
    memchr::memchr2_iter(*byte, byte.to_ascii_uppercase(), text).find_map(|at| {
        let start = at.checked_sub(rare)?;
        text.get(start..start + wanted.len())?.eq_ignore_ascii_case(wanted).then_some(start)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_do_not_overlap_themselves() {
        let core = |text: &str| {
            let needle = Needle::new(text.as_bytes(), true);
            let core = String::from_utf8_lossy(&needle.text()[needle.core()]).into_owned();
            (core, needle.has_non_overlapping_core())
        };
        assert_eq!(core("\"login\":\"a"), ("ogin\":".to_owned(), true));
        assert_eq!(core("connected"), ("nnect".to_owned(), true));
        assert_eq!(core("errors"), ("errors".to_owned(), true), "a core of `rror` would overlap itself");
        for (whole, is_found) in [("ab", true), ("aa", false), ("aba", false), ("abcab", false), ("abcde", true)] {
            assert_eq!(core(whole), (whole.to_owned(), is_found));
        }
        let long = format!("{}b", "a".repeat(1 << 16));
        assert_eq!(core(&long), (long.clone(), false), "a long needle has no core");
    }
}
