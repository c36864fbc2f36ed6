//! Attributes of one event while it is decoded.

use memchr::memchr;

/// Behind each name; no name contains it.
const NUL: char = '\0';

/// Names and values in order. Cleared and filled for each event, so that its memory is allocated once for all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttributeList {
    /// The names, a NUL behind each.
    names: String,
    values: Vec<u8>,
    /// The ends of each name, its NUL included, and of each value.
    ends: Vec<(usize, usize)>,
}

impl AttributeList {
    /// Removes all attributes and keeps the memory.
    pub fn clear(&mut self) {
        self.names.clear();
        self.values.clear();
        self.ends.clear();
    }

    /// Removes all attributes but the first `count`: those that several events share stay in the list.
    pub fn truncate(&mut self, count: usize) {
        self.ends.truncate(count);
        let (names, values) = self.ends.last().copied().unwrap_or_default();
        self.names.truncate(names);
        self.values.truncate(values);
    }

    /// Removes the values of all attributes but the first `count`, and keeps all names: for another event with the same names.
    /// Give each of them its value with [`Self::set_value`], in order, before the list is used.
    pub(crate) fn clear_values(&mut self, count: usize) {
        let before = count.checked_sub(1).and_then(|last| self.ends.get(last));
        self.values.truncate(before.map_or(0, |(_, values)| *values));
    }

    /// Gives an attribute its value, which `write` appends to the buffer.
    pub(crate) fn set_value<T>(&mut self, at: usize, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let result = write(&mut self.values);
        if let Some((_, end)) = self.ends.get_mut(at) {
            *end = self.values.len();
        }
        result
    }

    /// Adds an attribute. Without effect if the name is empty. A NUL in it becomes the replacement character.
    pub fn push(&mut self, name: &str, value: &[u8]) {
        self.push_parts(&[name], |out| out.extend_from_slice(value));
    }

    /// Adds an attribute whose name consists of several parts, and whose value `write` appends to the buffer.
    pub fn push_parts(&mut self, name: &[&str], write: impl FnOnce(&mut Vec<u8>)) {
        if name.iter().all(|part| part.is_empty()) {
            return;
        }
        for part in name {
            // `AttributeNames` separates names by NULs.
            match memchr(NUL as u8, part.as_bytes()).is_some() {
                true => self.names.push_str(&part.replace(NUL, "\u{fffd}")),
                false => self.names.push_str(part),
            }
        }
        self.names.push(NUL);
        write(&mut self.values);
        self.ends.push((self.names.len(), self.values.len()));
    }

    /// Frees the memory that the attributes do not need.
    pub(crate) fn shrink(&mut self) {
        self.names.shrink_to_fit();
        self.values.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    /// The names, a NUL behind each: [`AttributeNames::is`](bucksaw_record::AttributeNames::is) compares them.
    pub fn names(&self) -> &str {
        &self.names
    }

    /// Bytes of all names and values.
    pub(crate) fn bytes(&self) -> usize {
        self.names.len() + self.values.len()
    }

    /// The number of attributes.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all values.
    pub fn value_bytes(&self) -> usize {
        self.values.len()
    }

    /// Whether an LF is in a value.
    pub fn has_line_end(&self) -> bool {
        memchr(b'\n', &self.values).is_some()
    }

    /// Names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let mut start = (0, 0);
        self.ends.iter().filter_map(move |end| {
            let (name, value) = std::mem::replace(&mut start, *end);
            Some((self.names.get(name..end.0 - NUL.len_utf8())?, self.values.get(value..end.1)?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_kept_in_order_until_the_list_is_cleared() {
        let mut list = AttributeList::default();
        list.push("a", b"1");
        list.push("", b"lost");
        list.push_parts(&["b", ".", "c"], |out| out.extend_from_slice(b"2\n"));
        list.push("a", b"");
        list.push("n\0l", b"3");
        let want: [(&str, &[u8]); 4] = [("a", b"1"), ("b.c", b"2\n"), ("a", b""), ("n\u{fffd}l", b"3")];
        assert_eq!(list.iter().collect::<Vec<_>>(), want);
        assert_eq!((list.len(), list.value_bytes()), (4, 4));
        list.truncate(5);
        assert_eq!(list.len(), 4);
        list.truncate(1);
        list.push("d", b"4");
        assert_eq!(list.iter().collect::<Vec<_>>(), [("a", b"1".as_slice()), ("d", b"4")]);
        list.clear();
        assert!(list.is_empty() && list.iter().next().is_none());
    }
}
