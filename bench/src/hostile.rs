//! Generated texts that are hard to encode, the same bytes on every machine: many tokens that hardly recur, many
//! layouts of few lines each, and other slow cases.

/// A generator of a text of about this many bytes.
type TextGenerator = fn(usize) -> Vec<u8>;

/// All texts, by name.
pub(crate) const TEXTS: &[(&str, TextGenerator)] = &[
    ("one_byte_tokens", |bytes| grid(bytes, 100, 300, 1, 1, LETTERS)),
    ("one_layout", |bytes| grid(bytes, 1, 300, 1, 1, LETTERS)),
    ("one_byte_digits", |bytes| grid(bytes, 100, 300, 1, 1, DIGITS)),
    ("few_lines_of_a_layout", |bytes| grid(bytes, 100, 300, 6, 12, ALL)),
    ("numbers_of_many_layouts", |bytes| grid(bytes, 600, 10, 2, 3, DIGITS)),
    ("fields_seen_once", |bytes| grid(bytes, 1, 200, 1, 9, ALL)),
    ("short_numbers", |bytes| grid(bytes, 1, 40, 1, 3, DIGITS)),
    ("floats", |bytes| {
        lines(bytes, |random| (0..30).map(|_| format!("{}.{};", random(100), random(10_000))).collect())
    }),
    ("letters_and_digits", |bytes| {
        lines(bytes, |random| (0..240).map(|at| pick(random, if at % 2 == 0 { LETTERS } else { DIGITS })).collect())
    }),
    ("joined_letters", |bytes| {
        lines(bytes, |random| (0..200).map(|at| if at % 2 == 0 { pick(random, LETTERS) } else { '.' }).collect())
    }),
    ("hex_dump", |bytes| lines(bytes, |random| (0..16).map(|_| format!("{:02x} ", random(256))).collect())),
    ("words", |bytes| lines(bytes, |random| (0..16).map(|_| format!("{:x} ", random(5_000) * 7_919)).collect())),
    ("base64", |bytes| lines(bytes, |random| (0..76).map(|_| pick(random, ALL)).collect())),
    ("tiny_lines", |bytes| grid(bytes, 1, 4, 1, 2, DIGITS)),
    ("one_character", |bytes| grid(bytes, 1, 1, 1, 1, ALL)),
    ("columns_alike", |bytes| {
        let mut row = 0;
        lines(bytes, |_| {
            row += 7_919;
            (0..300).map(|at| format!("x{:03x} ", (row + at) % 4_000)).collect()
        })
    }),
    ("stack_traces", |bytes| {
        lines(bytes, |random| {
            let (package, class, method) = (random(5_000), random(9), random(10_000));
            format!("\tat com.example.web.{package}${class}.{method}({package}.java:{})", random(2_000))
        })
    }),
    ("hostile_in_the_middle", |bytes| {
        [log(bytes / 3), grid(bytes / 3, 100, 300, 1, 1, LETTERS), log(bytes / 3)].concat()
    }),
    ("log_in_the_middle", |bytes| {
        let hostile = || grid(bytes * 2 / 5, 100, 300, 1, 1, LETTERS);
        [hostile(), log(bytes / 5), hostile()].concat()
    }),
];

const DIGITS: &str = "0123456789";
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";
const ALL: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// Delimiters of tokens.
const DELIMITERS: [&str; 9] = [" ", ";", "(", ")", "{", "|", " [", ", ", "] "];

/// Lines formatted from random numbers below bounds.
fn lines(bytes: usize, mut line: impl FnMut(&mut dyn FnMut(u64) -> u64) -> String) -> Vec<u8> {
    let mut state = 1_u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (((state >> 29) ^ state).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % below
    };
    let mut text = Vec::with_capacity(bytes);
    while text.len() < bytes {
        text.extend_from_slice(line(&mut random).as_bytes());
        text.push(b'\n');
    }
    text
}

/// Lines of tokens of `least` to `most` letters in some layouts.
fn grid(bytes: usize, layouts: u64, tokens: usize, least: u64, most: u64, letters: &str) -> Vec<u8> {
    lines(bytes, |random| {
        let layout = random(layouts);
        let mut line = String::new();
        for at in 0..tokens as u64 {
            (0..least + random(most - least + 1)).for_each(|_| line.push(pick(random, letters)));
            let mixed = (layout * tokens as u64 + at).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            line.push_str(if layouts == 1 { " " } else { DELIMITERS[mixed as usize % DELIMITERS.len()] });
        }
        line
    })
}

/// Lines of a server log.
fn log(bytes: usize) -> Vec<u8> {
    let mut row = 0;
    lines(bytes, |random| {
        row += 1;
        let (minute, second) = (row / 6_000 % 60, row / 100 % 60);
        format!(
            "2026-11-21 10:{minute:02}:{second:02} INFO [pool-{}] GET /page/{} took {} ms",
            random(8),
            random(90),
            random(900)
        )
    })
}

fn pick(random: &mut dyn FnMut(u64) -> u64, letters: &str) -> char {
    char::from(letters.as_bytes()[random(letters.len() as u64) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_contain_complete_lines_and_are_reproducible() {
        for (name, make) in TEXTS {
            let text = make(50_000);
            assert!(text.len() >= 49_000 && text.ends_with(b"\n"), "{name}");
            assert!(text == make(50_000), "{name}");
        }
    }
}
