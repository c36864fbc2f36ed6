//! Attributes that every record of a stream has.

use bucksaw_record::{AttributeNames, InvalidAttributes, RowAttributes};

/// Attributes that every record of a stream has.
#[derive(Clone, Debug)]
pub(crate) struct StreamAttributes {
    names: AttributeNames,
    /// The values, an LF behind each.
    values: Vec<u8>,
}

impl StreamAttributes {
    /// Names with values, which have no LF inside; `None` if there are none.
    ///
    /// # Errors
    /// [`InvalidAttributes`] of the names.
    pub(crate) fn new(attributes: &[(&str, &str)]) -> Result<Option<Self>, InvalidAttributes> {
        if attributes.is_empty() {
            return Ok(None);
        }
        let names = AttributeNames::new(attributes.iter().map(|(name, _)| name))?;
        let values = attributes.iter().flat_map(|(_, value)| [value.replace('\n', " "), "\n".to_owned()]);
        Ok(Some(Self { names, values: values.collect::<String>().into_bytes() }))
    }

    /// The number of attributes, which is that of the lines of their values.
    pub(crate) fn count(&self) -> u32 {
        self.names.len() as u32
    }

    /// The attributes of a batch of `count` records.
    pub(crate) fn of_rows(&self, count: u32) -> RowAttributes {
        let mut rows = RowAttributes::empty();
        rows.push(0, count, &self.names);
        rows
    }

    /// Appends lines, each with its LF, and the values behind each line. A line may span several parts.
    pub(crate) fn append_to_lines(&self, parts: &[&[u8]], text: &mut Vec<u8>) {
        for line in parts.iter().flat_map(|part| part.split_inclusive(|byte| *byte == b'\n')) {
            text.extend_from_slice(line);
            if line.ends_with(b"\n") {
                text.extend_from_slice(&self.values);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_behind_each_line() {
        let attributes = StreamAttributes::new(&[("log.iostream", "stderr"), ("b", "x\ny")]).unwrap().unwrap();
        let mut text = Vec::new();
        attributes.append_to_lines(&[b"a\n\nb", b"c", b"\n"], &mut text);
        assert_eq!(text, b"a\nstderr\nx y\n\nstderr\nx y\nbc\nstderr\nx y\n");
        assert_eq!((attributes.count(), attributes.of_rows(3).get(2).unwrap().names.len()), (2, 2));
        assert!(StreamAttributes::new(&[]).unwrap().is_none());
        assert!(StreamAttributes::new(&[("", "x")]).is_err());
    }
}
