//! Records of several lines in a block whose rows are lines.
//!
//! A codec such as columns knows lines only. A [`RecordMap`] says which lines are the line and the attribute values of which
//! record, and a [`RecordBlock`] answers questions about records by those about lines: a needle is searched for in all lines of
//! the block at once, and the lines found are mapped to records.
//!
//! Where each record is one row of the block, the map is the identity and costs nothing.

use std::ops::{ControlFlow, Range};

use bucksaw_record::{AttributeShape, RecordView, RowAttributes};
use bucksaw_search::{AsciiSet, Bitmap, CancelPoll, Needle, RowSet, SearchBlock};

use crate::Rows;

/// Which lines of a block belong to which record.
#[derive(Debug, Default)]
pub struct RecordMap {
    records: usize,
    /// The first line of each record, and the number of lines of the block; `None` if each record is a row of the block.
    starts: Option<Vec<u32>>,
    attributes: RowAttributes,
    /// The records whose line, or the value of one of whose attributes, has several lines.
    multi_line: Option<Bitmap>,
}

/// The part of a record that a search is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordPart<'a> {
    /// The line and the values of all attributes.
    Whole,
    /// The line.
    Line,
    /// The value of the attribute that a field of this name means.
    Attribute(&'a str),
}

/// A block searched by records. Sets of rows are sets of records, unless they are said to be of lines.
#[derive(Debug)]
pub struct RecordBlock<'a, B> {
    lines: &'a B,
    map: &'a RecordMap,
    escaped_bytes: AsciiSet,
}

impl<B> Clone for RecordBlock<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for RecordBlock<'_, B> {}

impl RecordMap {
    /// Each row of the block is a record without attributes.
    pub fn identity(records: usize) -> Self {
        Self { records, ..Self::default() }
    }

    /// The map of records with these numbers of lines and these attributes; `None` if a record has too few lines for its
    /// attributes, or if the lines are too many.
    pub fn new(lines: &[u32], attributes: RowAttributes) -> Option<Self> {
        let (mut starts, mut end) = (Vec::with_capacity(lines.len() + 1), 0_u32);
        let mut multi_line = Bitmap::new(lines.len());
        starts.push(end);
        // Looking up the attributes of each row would cost more than the rest.
        let mut runs = attributes.runs_in(0..u32::MAX);
        let mut run = runs.next();
        let mut values_with_lines = attributes.value_lines_in(0..u32::MAX).peekable();
        for (row, lines) in (0_u32..).zip(lines) {
            run = run.filter(|(first, count, _)| first + count > row).or_else(|| runs.next());
            let values = run.filter(|(first, ..)| *first <= row).map_or(0, |(_, _, names)| names.len());
            let of_values = match values_with_lines.next_if(|(with_lines, _)| *with_lines == row) {
                Some((_, lines)) => lines.iter().map(|lines| *lines as usize).sum(),
                None => values,
            };
            (*lines as usize > of_values).then_some(())?;
            if *lines as usize != 1 + values {
                multi_line.set(row as usize);
            }
            end = end.checked_add(*lines)?;
            starts.push(end);
        }
        drop((runs, values_with_lines));
        let multi_line = (multi_line.count() > 0).then_some(multi_line);
        Some(Self { records: lines.len(), starts: Some(starts), attributes, multi_line })
    }

    /// The map of the rows of a block's chunks; `None` as for [`Self::new`].
    pub(crate) fn of<'a>(chunks: impl Iterator<Item = &'a Rows> + Clone) -> Option<Self> {
        let records: usize = chunks.clone().map(|rows| rows.count as usize).sum();
        if chunks.clone().all(|rows| rows.lines.is_none()) {
            return Some(Self::identity(records));
        }
        let (mut lines, mut attributes) = (Vec::with_capacity(records), RowAttributes::empty());
        for rows in chunks {
            attributes.append(u32::try_from(lines.len()).ok()?, &rows.attributes, 0..rows.count);
            match &rows.lines {
                Some(given) => lines.extend_from_slice(given),
                None => lines.resize(lines.len() + rows.count as usize, 1),
            }
        }
        Self::new(&lines, attributes)
    }

    /// The number of lines of the block.
    pub fn line_count(&self) -> usize {
        self.starts.as_ref().and_then(|starts| starts.last()).map_or(self.records, |end| *end as usize)
    }

    /// Approximate bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        let starts = self.starts.as_ref().map_or(0, |starts| size_of_val(starts.as_slice()));
        let multi_line = self.multi_line.as_ref().map_or(0, |_| self.records / 8);
        starts + multi_line + self.attributes.memory()
    }

    fn shape(&self, record: usize) -> Option<AttributeShape<'_>> {
        if self.attributes.is_empty() { None } else { self.attributes.get(u32::try_from(record).ok()?) }
    }

    /// The lines of a record.
    fn lines(&self, record: usize) -> Range<usize> {
        let Some(starts) = &self.starts else { return record..record + 1 };
        let at = |record: usize| starts.get(record).map_or(0, |start| *start as usize);
        at(record)..at(record + 1)
    }

    /// The lines of a part of a record; `None` if it has no such attribute.
    fn part(&self, record: usize, part: RecordPart<'_>) -> Option<Range<usize>> {
        let all = self.lines(record);
        match (part, self.shape(record)) {
            (RecordPart::Whole, _) | (RecordPart::Line, None) => Some(all),
            (RecordPart::Line, Some(shape)) => Some(all.start..all.end - value_lines(shape)),
            (RecordPart::Attribute(_), None) => None,
            (RecordPart::Attribute(name), Some(shape)) => {
                let place = shape.names.position(name)?;
                let lines = |value: usize| shape.value_lines.get(value).map_or(1, |lines| *lines as usize);
                let behind: usize = (place + 1..shape.names.len()).map(lines).sum();
                Some(all.end - behind - lines(place)..all.end - behind)
            }
        }
    }
}

/// The lines of all values of a record.
fn value_lines(shape: AttributeShape<'_>) -> usize {
    match shape.value_lines {
        [] => shape.names.len(),
        lines => lines.iter().map(|lines| *lines as usize).sum(),
    }
}

impl<'a, B: SearchBlock> RecordBlock<'a, B> {
    /// A block of lines as records; `None` if the map is that of another number of lines.
    pub fn new(lines: &'a B, map: &'a RecordMap) -> Option<Self> {
        (lines.row_count() == map.line_count()).then_some(Self { lines, map, escaped_bytes: AsciiSet::ALL })
    }

    /// The block, of which only these ASCII bytes may be written as escapes of JSON.
    pub fn with_escaped_bytes(self, escaped_bytes: AsciiSet) -> Self {
        Self { escaped_bytes, ..self }
    }

    /// The ASCII bytes that lines may write as an escape of JSON.
    pub fn escaped_bytes(&self) -> AsciiSet {
        self.escaped_bytes
    }

    /// The block, whose rows are lines.
    pub fn lines(&self) -> &'a B {
        self.lines
    }

    /// The number of records.
    pub fn record_count(&self) -> usize {
        self.map.records
    }

    /// Whether each row of the block is a record without attributes.
    pub fn is_identity(&self) -> bool {
        self.map.starts.is_none()
    }

    /// The records that have an attribute of this name.
    pub fn with_attribute(&self, name: &str) -> RowSet {
        let attributes = &self.map.attributes;
        if !attributes.lists().iter().any(|names| names.position(name).is_some()) {
            return RowSet::None;
        }
        let mut found = Bitmap::new(self.map.records);
        for (row, count, names) in attributes.runs_in(0..u32::MAX) {
            if names.position(name).is_some() {
                found.set_range(row as usize..(row + count) as usize);
            }
        }
        RowSet::from_bitmap(found)
    }

    /// The records whose line, or the value of one of whose attributes, has several lines.
    pub fn with_several_lines(&self) -> RowSet {
        self.map.multi_line.clone().map_or(RowSet::None, RowSet::from_bitmap)
    }

    /// The lines of some records.
    pub fn lines_of(&self, records: &RowSet) -> RowSet {
        let RowSet::Some(records) = records else { return records.clone() };
        if self.is_identity() {
            return RowSet::Some(records.clone());
        }
        let mut found = Bitmap::new(self.map.line_count());
        records.iter().for_each(|record| found.set_range(self.map.lines(record)));
        RowSet::from_bitmap(found)
    }

    /// The records of which a line of this part is in `lines`.
    pub fn records_of(&self, lines: RowSet, part: RecordPart<'_>) -> RowSet {
        let Some(starts) = &self.map.starts else {
            return if matches!(part, RecordPart::Attribute(_)) { RowSet::None } else { lines };
        };
        let bits = match (lines, part) {
            (RowSet::None, _) => return RowSet::None,
            (RowSet::All, RecordPart::Attribute(name)) => return self.with_attribute(name),
            (RowSet::All, _) => return RowSet::All,
            (RowSet::Some(bits), _) => bits,
        };
        let mut found = Bitmap::new(self.map.records);
        let (mut record, mut wanted, mut end) = (0, 0..0, 0);
        for line in bits.iter() {
            if line >= end {
                // A line is seldom far from the one before, but a rare needle leaps.
                let ahead = starts.get(record..).unwrap_or_default();
                record += ahead.partition_point(|start| *start as usize <= line).saturating_sub(1);
                end = self.map.lines(record).end;
                wanted = self.map.part(record, part).unwrap_or_default();
            }
            if wanted.contains(&line) {
                found.set(record);
            }
        }
        RowSet::from_bitmap(found)
    }

    /// The records of which a line of this part contains the needle; `None` if the block is damaged.
    pub fn find(&self, needle: &Needle, part: RecordPart<'_>, cancel: &CancelPoll<'_>) -> Option<RowSet> {
        Some(self.records_of(self.lines.find(needle, cancel)?, part))
    }

    /// The records of `among` whose attribute of this name has a value of one line, which is in `lines` and passes the test.
    /// Builds these values only. `None` if the block is damaged; the result is incomplete if the test breaks.
    pub fn find_value(
        &self,
        name: &str,
        among: &RowSet,
        lines: &RowSet,
        test: &mut dyn FnMut(&[u8]) -> ControlFlow<(), bool>,
    ) -> Option<RowSet> {
        let part = RecordPart::Attribute(name);
        let among = among.clone() & self.records_of(lines.clone(), part);
        let tested = || {
            let records = among.first_in(0..self.map.records, usize::MAX);
            records.filter_map(|record| match self.map.part(record, part)? {
                Range { start, end } if end == start + 1 && lines.contains(start) => Some((record, start)),
                _ => None,
            })
        };
        let (mut records, mut found) = (tested().map(|(record, _)| record), Bitmap::new(self.map.records));
        self.lines.visit_rows(tested().map(|(_, line)| line), &mut |line| {
            let (Some(record), Some((_, value))) = (records.next(), line.split_last()) else {
                return ControlFlow::Break(());
            };
            if test(value)? {
                found.set(record);
            }
            ControlFlow::Continue(())
        })?;
        Some(RowSet::from_bitmap(found))
    }

    /// Calls `visit` with each of `records`, given in rising order, until it breaks. `None` if the block is damaged; some
    /// records may have been visited.
    pub fn visit(
        &self,
        records: impl Iterator<Item = usize> + Clone,
        visit: &mut dyn FnMut(RecordView<'_>) -> ControlFlow<()>,
    ) -> Option<()> {
        if self.is_identity() {
            return self.lines.visit_rows(records, &mut |row| match row.split_last() {
                Some((_, line)) => visit(RecordView::line_only(line)),
                None => ControlFlow::Break(()),
            });
        }
        let (mut text, mut left) = (Vec::new(), 0);
        let mut visited = records.clone();
        let mut record = 0;
        self.lines.visit_rows(records.flat_map(|record| self.map.lines(record)), &mut |line| {
            if left == 0 {
                let Some(next) = visited.next() else { return ControlFlow::Break(()) };
                record = next;
                left = self.map.lines(record).len();
                text.clear();
            }
            text.extend_from_slice(line);
            left -= 1;
            if left > 0 {
                return ControlFlow::Continue(());
            }
            visit(RecordView::new(text.split_last().map_or(&[], |(_, text)| text), self.map.shape(record)))
        })
    }
}
