//! The bounds of the objects of a body.

use serde_json::value::RawValue;

/// The values of a body, in order: the items of an array, or values that follow each other.
#[derive(Debug)]
pub(super) struct JsonObjects<'a> {
    body: &'a str,
    /// The offset of the next byte that is not yet read.
    pub(super) at: usize,
    /// Whether the body is an array.
    is_array: bool,
    /// Whether a value was read, so that a comma must follow in an array.
    is_first: bool,
}

impl<'a> JsonObjects<'a> {
    pub(super) fn new(body: &'a str) -> Self {
        let body = body.strip_prefix('\u{feff}').unwrap_or(body);
        let mut objects = Self { body, at: 0, is_array: false, is_first: true };
        objects.skip_spaces();
        objects.is_array = objects.eat('[');
        objects
    }

    /// The next value as it is written; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<&'a str>, serde_json::Error> {
        self.skip_spaces();
        if self.is_array {
            if self.eat(']') {
                self.is_array = false;
                return self.end();
            }
            if !self.is_first && !self.eat(',') {
                return Err(serde::de::Error::custom("expected `,` or `]` behind a value of the array"));
            }
        } else if self.rest().is_empty() {
            return Ok(None);
        }
        self.is_first = false;
        let mut values = serde_json::Deserializer::from_str(self.rest()).into_iter::<&RawValue>();
        let value = values.next().transpose()?;
        self.at += values.byte_offset();
        match value {
            Some(value) => Ok(Some(value.get())),
            None => Err(serde::de::Error::custom("the array does not end")),
        }
    }

    /// Nothing may follow an array.
    fn end(&mut self) -> Result<Option<&'a str>, serde_json::Error> {
        self.skip_spaces();
        if self.rest().is_empty() { Ok(None) } else { Err(serde::de::Error::custom("text follows the array")) }
    }

    fn rest(&self) -> &'a str {
        self.body.get(self.at..).unwrap_or_default()
    }

    fn skip_spaces(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
    }

    fn eat(&mut self, letter: char) -> bool {
        let found = self.rest().starts_with(letter);
        self.at += usize::from(found);
        found
    }
}
