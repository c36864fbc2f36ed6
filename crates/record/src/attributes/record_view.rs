//! One record as line and attributes.

use memchr::memrchr_iter;

use super::AttributeNames;

/// Where the attributes of a record are in its text.
#[derive(Clone, Copy, Debug)]
pub struct AttributeShape<'a> {
    /// Their names, in the order of the values.
    pub names: &'a AttributeNames,
    /// The number of lines of each value; empty if each is one line.
    pub value_lines: &'a [u32],
}

/// The text of one record: its line, and the values of its attributes.
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a> {
    /// All lines of the record without the last LF.
    text: &'a [u8],
    shape: Option<AttributeShape<'a>>,
}

impl<'a> RecordView<'a> {
    /// A record without attributes.
    pub fn line_only(line: &'a [u8]) -> Self {
        Self { text: line, shape: None }
    }

    /// A record whose text, without the last LF, ends with the values that `shape` describes.
    pub fn new(text: &'a [u8], shape: Option<AttributeShape<'a>>) -> Self {
        Self { text, shape }
    }

    /// The whole text, the values of attributes included, without the last LF.
    pub fn text(&self) -> &'a [u8] {
        self.text
    }

    /// Where the attributes are in the text; `None` without attributes.
    pub fn shape(&self) -> Option<AttributeShape<'a>> {
        self.shape
    }

    /// The names of the attributes.
    pub fn names(&self) -> Option<&'a AttributeNames> {
        self.shape.map(|shape| shape.names)
    }

    /// The line as it was received.
    pub fn line(&self) -> &'a [u8] {
        let Some(shape) = self.shape else { return self.text };
        let end = value_starts(self.text, shape).last().unwrap_or_default();
        self.text.get(..end.saturating_sub(1)).unwrap_or_default()
    }

    /// Names and values in order.
    pub fn attributes(&self) -> Vec<(&'a str, &'a [u8])> {
        let Some(shape) = self.shape else { return Vec::new() };
        let mut end = self.text.len();
        let starts = value_starts(self.text, shape);
        let mut found: Vec<(&str, &[u8])> = shape
            .names
            .iter()
            .rev()
            .zip(starts)
            .map(|(name, start)| {
                let value = self.text.get(start..end).unwrap_or_default();
                end = start.saturating_sub(1);
                (name, value)
            })
            .collect();
        found.reverse();
        found
    }

    /// The value of the last attribute with this name.
    pub fn attribute(&self, name: &str) -> Option<&'a [u8]> {
        let shape = self.shape?;
        let behind = shape.names.len() - 1 - shape.names.position(name)?;
        let mut starts = value_starts(self.text, shape).skip(behind.saturating_sub(1));
        let end = if behind == 0 { self.text.len() } else { starts.next()?.checked_sub(1)? };
        self.text.get(starts.next()?..end)
    }
}

/// The offsets at which values start, the last value first.
fn value_starts<'a>(text: &'a [u8], shape: AttributeShape<'a>) -> impl Iterator<Item = usize> + 'a {
    let mut ends = memrchr_iter(b'\n', text);
    let count = shape.names.len();
    (0..count).rev().map_while(move |value| {
        let lines = shape.value_lines.get(value).map_or(1, |lines| *lines as usize);
        Some(ends.nth(lines.checked_sub(1)?)? + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_values_are_separated() {
        let names = AttributeNames::new(["a", "b", "a"]).unwrap();
        let check = |text: &str, value_lines: &[u32], line: &str, values: [&str; 3]| {
            let view = RecordView::new(text.as_bytes(), Some(AttributeShape { names: &names, value_lines }));
            assert_eq!(view.line(), line.as_bytes(), "{text:?}");
            let want = names.iter().zip(values.map(str::as_bytes));
            assert_eq!(view.attributes(), want.collect::<Vec<_>>(), "{text:?}");
            assert_eq!(view.attribute("a"), Some(values[2].as_bytes()), "{text:?}");
            assert_eq!(view.attribute("b"), Some(values[1].as_bytes()), "{text:?}");
            assert_eq!(view.attribute("c"), None);
        };
        check("line\n1\n2\n3", &[], "line", ["1", "2", "3"]);
        check("\n\n\n", &[], "", ["", "", ""]);
        check("two\nlines\n\n2\n", &[], "two\nlines", ["", "2", ""]);
        check("line\n1\n1\n2\n3\n", &[2, 1, 2], "line", ["1\n1", "2", "3\n"]);
        let plain = RecordView::line_only(b"a\nb");
        assert_eq!((plain.line(), plain.attributes(), plain.attribute("a")), (b"a\nb".as_slice(), vec![], None));
    }

    #[test]
    fn a_shape_that_does_not_fit_gives_no_values() {
        let names = AttributeNames::new(["a", "b"]).unwrap();
        for value_lines in [&[][..], &[0, 0], &[9, 1], &[1, u32::MAX]] {
            let view = RecordView::new(b"x", Some(AttributeShape { names: &names, value_lines }));
            assert_eq!((view.line(), view.attribute("a"), view.attribute("b")), (b"".as_slice(), None, None));
        }
    }
}
