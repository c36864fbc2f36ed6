//! Makes text harmless to a terminal. A log line may contain escape sequences that move the cursor, rename the window
//! or type for the user.

/// Appends `text` with control characters except TAB and LF, and bytes that are not UTF-8, escaped as `\x1b`.
pub(crate) fn sanitise(text: &[u8], out: &mut Vec<u8>) {
    write_shown(text, out, |char, out| {
        for byte in char.encode_utf8(&mut [0; 4]).bytes() {
            out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
        }
    });
}

/// The same for JSON, with control characters escaped as `\u009b`, so that it stays JSON.
pub(super) fn sanitise_json(text: &[u8], out: &mut Vec<u8>) {
    write_shown(text, out, |char, out| {
        out.extend_from_slice(format!("\\u{:04x}", u32::from(char)).as_bytes());
    });
}

fn write_shown(text: &[u8], out: &mut Vec<u8>, show: impl Fn(char, &mut Vec<u8>)) {
    for chunk in text.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some((before, after)) = rest.split_once(|char: char| char.is_control()) {
            out.extend_from_slice(before.as_bytes());
            let shown = rest.get(before.len()..rest.len() - after.len()).unwrap_or_default();
            match shown.chars().next() {
                Some('\t') => out.push(b'\t'),
                Some('\n') => out.push(b'\n'),
                Some(char) => show(char, out),
                None => {}
            }
            rest = after;
        }
        out.extend_from_slice(rest.as_bytes());
        for byte in chunk.invalid() {
            out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
        }
    }
}

/// Sanitises a text that arrives in pieces.
#[derive(Debug, Default)]
pub(super) struct SanitisingStream {
    /// The begin of a character: at most three bytes.
    partial_character: Vec<u8>,
}

impl SanitisingStream {
    /// Appends the whole characters of `piece`, after the rest of the last one.
    pub(super) fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        self.partial_character.extend_from_slice(piece);
        let text = std::mem::take(&mut self.partial_character);
        let partial = match text.utf8_chunks().last().map(|chunk| chunk.invalid()) {
            Some(last) if str::from_utf8(last).is_err_and(|error| error.error_len().is_none()) => last.len(),
            _ => 0,
        };
        let (whole, partial) = text.split_at(text.len() - partial);
        sanitise(whole, out);
        self.partial_character.extend_from_slice(partial);
    }

    /// Appends the rest of the last piece.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        sanitise(&std::mem::take(&mut self.partial_character), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &[u8]) -> String {
        let mut out = Vec::new();
        sanitise(text, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn control_characters_are_escaped() {
        let check = |text: &[u8], want: &str| assert_eq!(shown(text), want);
        check(b"plain\ttext\n", "plain\ttext\n");
        check(b"\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m");
        check(b"a\r\n\0\x07\x7f", "a\\x0d\n\\x00\\x07\\x7f");
        check("größe 漢字 🪚".as_bytes(), "größe 漢字 🪚");
        check("\u{9b}31m".as_bytes(), "\\xc2\\x9b31m");
        check(b"\xff\x9b31m \xe6\xbc", "\\xff\\x9b31m \\xe6\\xbc");
    }

    #[test]
    fn json_stays_json() {
        let mut out = Vec::new();
        sanitise_json("{\"line\":\"a\u{9b}\u{7f}b\"}\n".as_bytes(), &mut out);
        assert_eq!(out, b"{\"line\":\"a\\u009b\\u007fb\"}\n");
    }

    proptest! {
        #[test]
        fn no_control_character_is_left(text in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(shown(&text).chars().all(|char| !char.is_control() || matches!(char, '\t' | '\n')));
        }

        #[test]
        fn pieces_are_sanitised_like_the_whole(
            text in "(\\PC|[\u{0}-\u{9f}]){0,60}", noise in prop::collection::vec((0usize..200, any::<u8>()), 0..5),
            cuts in prop::collection::vec(0usize..200, 0..20),
        ) {
            let mut text = text.into_bytes();
            for (at, byte) in noise {
                text.insert(at.min(text.len()), byte);
            }
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let (mut pieces, mut out) = (SanitisingStream::default(), Vec::new());
            for cut in cuts.windows(2) {
                pieces.push(&text[cut[0]..cut[1]], &mut out);
            }
            pieces.finish(&mut out);
            prop_assert_eq!(String::from_utf8(out).unwrap(), shown(&text));
        }
    }
}
