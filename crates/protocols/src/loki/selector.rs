//! Labels as text: `{app="shop", path="a\"b"}`.

use std::borrow::Cow;

use super::LokiError;

/// Calls `visit` with each name and value of labels in braces.
///
/// Values are in double quotes with the escapes of Go, or in backquotes without escapes. A name may be quoted too.
///
/// # Errors
/// [`LokiError::Labels`] at the first byte that is not of this form. The labels before it were visited.
pub(super) fn each_label(text: &str, mut visit: impl FnMut(&str, &str)) -> Result<(), LokiError> {
    let mut reader = LabelReader { text, at: 0 };
    reader.read(&mut visit).ok_or_else(|| LokiError::Labels { at: reader.at, text: text.chars().take(80).collect() })
}

struct LabelReader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> LabelReader<'a> {
    fn read(&mut self, visit: &mut impl FnMut(&str, &str)) -> Option<()> {
        self.eat('{')?;
        while self.eat('}').is_none() {
            let name = self.name()?;
            self.eat('=')?;
            self.skip_spaces();
            let value = self.quoted()?;
            visit(&name, &value);
            if self.eat(',').is_none() {
                self.eat('}')?;
                break;
            }
        }
        self.skip_spaces();
        self.rest().is_empty().then_some(())
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_spaces(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Takes a character after spaces.
    fn eat(&mut self, letter: char) -> Option<()> {
        self.skip_spaces();
        self.rest().strip_prefix(letter)?;
        self.at += letter.len_utf8();
        Some(())
    }

    fn name(&mut self) -> Option<Cow<'a, str>> {
        self.skip_spaces();
        if self.rest().starts_with(['"', '`']) {
            return self.quoted();
        }
        let rest = self.rest();
        let end = rest.find(|letter: char| matches!(letter, '=' | ',' | '{' | '}' | '"') || letter.is_whitespace())?;
        self.at += end;
        rest.get(..end).filter(|name| !name.is_empty()).map(Cow::Borrowed)
    }

    fn quoted(&mut self) -> Option<Cow<'a, str>> {
        let rest = self.rest();
        if let Some(inner) = rest.strip_prefix('`') {
            let (value, _) = inner.split_once('`')?;
            self.at += value.len() + 2;
            return Some(Cow::Borrowed(value));
        }
        let inner = rest.strip_prefix('"')?;
        let end = inner.find(['"', '\\'])?;
        let value = inner.get(..end)?;
        self.at += 1 + end;
        if self.rest().starts_with('"') {
            self.at += 1;
            return Some(Cow::Borrowed(value));
        }
        // Escapes of bytes may make characters only together.
        let mut bytes = value.as_bytes().to_vec();
        loop {
            let letter = self.rest().chars().next()?;
            self.at += letter.len_utf8();
            match letter {
                '"' => return Some(Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())),
                '\\' => self.escape(&mut bytes)?,
                letter => bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
    }

    /// Takes an escape of Go after its backslash.
    fn escape(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let letter = self.rest().chars().next()?;
        if letter.is_digit(8) {
            out.push(u8::try_from(self.digits(3, 8)?).ok()?);
            return Some(());
        }
        self.at += letter.len_utf8();
        match letter {
            'a' => out.push(7),
            'b' => out.push(8),
            'f' => out.push(12),
            'n' => out.push(b'\n'),
            'r' => out.push(b'\r'),
            't' => out.push(b'\t'),
            'v' => out.push(11),
            '\\' | '"' | '\'' => out.push(letter as u8),
            'x' => out.push(u8::try_from(self.digits(2, 16)?).ok()?),
            'u' | 'U' => {
                let count = if letter == 'u' { 4 } else { 8 };
                let letter = char::from_u32(self.digits(count, 16)?)?;
                out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
            }
            _ => return None,
        }
        Some(())
    }

    fn digits(&mut self, count: usize, radix: u32) -> Option<u32> {
        let digits = self.rest().get(..count).filter(|digits| digits.chars().all(|letter| letter.is_digit(radix)))?;
        self.at += count;
        u32::from_str_radix(digits, radix).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(text: &str) -> Result<Vec<(String, String)>, LokiError> {
        let mut found = Vec::new();
        each_label(text, |name, value| found.push((name.to_owned(), value.to_owned())))?;
        Ok(found)
    }

    #[test]
    fn labels_parse() {
        let check = |text: &str, want: &[(&str, &str)]| {
            let want: Vec<_> = want.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            assert_eq!(all(text).unwrap(), want, "{text}");
        };
        check("{}", &[]);
        check(r#"{a="b"}"#, &[("a", "b")]);
        check(r#" { a = "b" , c="d", } "#, &[("a", "b"), ("c", "d")]);
        check(r#"{a="x\"y\\z\n\u00e4\xc3\xa4\303\244"}"#, &[("a", "x\"y\\z\näää")]);
        check(r#"{a="\xff"}"#, &[("a", "\u{fffd}")]);
        check(r#"{a=`x\n"`, "k8s.pod"="p"}"#, &[("a", "x\\n\""), ("k8s.pod", "p")]);
        check(r#"{a="", ä="1"}"#, &[("a", ""), ("ä", "1")]);
    }

    #[test]
    fn other_text_is_an_error_with_its_position() {
        let check = |text: &str, at: usize| match all(text) {
            Err(LokiError::Labels { at: found, .. }) => assert_eq!(found, at, "{text}"),
            other => panic!("{text}: {other:?}"),
        };
        check("", 0);
        check("{", 1);
        check("a=\"b\"", 0);
        check("{a}", 2);
        check("{a=b}", 3);
        check("{a=\"b}", 3);
        check("{a=\"b\\q\"}", 7);
        check("{a=\"b\"} x", 8);
        check("{a=\"b\" c=\"d\"}", 7);
        check("{=\"b\"}", 1);
    }

    proptest! {
        #[test]
        fn values_quoted_by_rust_round_trip(pairs in prop::collection::vec(("[a-z_]{1,5}", "[ -~äé\n\t]{0,12}"), 0..5)) {
            let quote = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let text: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}=\"{}\"", quote(value))).collect();
            prop_assert_eq!(all(&format!("{{{}}}", text.join(", "))).unwrap(), pairs);
        }

        #[test]
        fn any_text_parses_without_panic(text in "[{}a=\"`,\\\\xu0-9 ä]{0,30}") {
            let _ = all(&text);
        }
    }
}
