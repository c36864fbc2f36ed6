//! From the values of a column to the tree of columns that says the same in less.

use std::rc::Rc;

use crate::borders::Borders;
use crate::cut::{TOKEN, Way, gaps};
use crate::dictionary::{Dictionary, Numbering};
use crate::filter::FilterBuilder;
use crate::fixed::Place;
use crate::groups::{Group, Groups, Spare, layouts_of_sample};
use crate::link::link;
use crate::numbers::{self, Numbers};
use crate::numeric::Numeric;
use crate::values::Values;

/// A column as it is written.
#[derive(Debug)]
pub(crate) enum Node {
    /// All values are this.
    Same(Vec<u8>),
    /// The values, an LF after each.
    Raw(Vec<u8>),
    /// Decimal numbers as anybody would write them.
    Integers(Numbers),
    /// Values of one length that differ in digits.
    Fixed { places: Vec<Place>, numbers: Vec<Numbers>, nibbles: Vec<u8> },
    /// Numbers of distinct values, and these.
    Dictionary { ids: Vec<u32>, distinct: usize, values: Box<Self> },
    /// Distinct values whose number follows from that of another column of the same table.
    Mapped { leader: usize, map: Vec<u32>, values: Box<Self> },
    /// The same values as another column of the same table.
    Copy { column: usize },
    /// Values by their layout.
    Split(Split),
}

/// Values by their layout.
#[derive(Debug)]
pub(crate) struct Split {
    pub(crate) tables: Vec<Table>,
    /// For each value its table + 1; 0 for those in `rest`.
    pub(crate) order: Vec<u32>,
    /// Values that are kept whole, an LF after each.
    pub(crate) rest: Vec<u8>,
}

/// Values of one layout: a table of its tokens.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) rows: usize,
    /// The literals, with [`TOKEN`] for each column.
    pub(crate) layout: Vec<u8>,
    pub(crate) columns: Vec<Node>,
}

/// What is tried, and how hard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Lines of a layout, at least.
    pub(crate) line_rows_min: usize,
    /// Values of a layout within a column, at least.
    pub(crate) value_rows_min: usize,
}

impl Default for Effort {
    /// What came out best on logs of many kinds: smaller tables say more of themselves than of their lines.
    fn default() -> Self {
        Self { line_rows_min: 16, value_rows_min: 16 }
    }
}

/// Sampled values for each layout that they may have, for a column to be cut.
const ROWS_PER_LAYOUT: usize = 16;

/// Distinct values that are few enough to be kept as they are.
const FEW: usize = 32;

/// Values that are sampled.
const SAMPLE: usize = 512;

/// Makes trees of columns. Keeps lists that grew once.
#[derive(Debug)]
pub(crate) struct Tree {
    numbering: Numbering,
    spare: Spare,
    /// Of the text that is encoded.
    pub(crate) borders: Borders,
    effort: Effort,
    pub(crate) filter: FilterBuilder,
}

/// A column of a table that may have been cut out of another one.
pub(crate) struct Piece {
    places: Rc<Vec<u32>>,
    rows: usize,
    column: usize,
    gap: usize,
    pub(crate) node: Node,
}

impl Piece {
    pub(crate) fn values<'a>(&'a self, text: &'a [u8]) -> Values<'a> {
        column(text, &self.places, self.rows, self.column, self.gap)
    }
}

/// A column of a table, by where its tokens start: column after column, the ends of the rows behind.
fn column<'a>(text: &'a [u8], places: &'a [u32], rows: usize, column: usize, gap: usize) -> Values<'a> {
    let (starts, nexts) = places[column * rows..(column + 2) * rows].split_at(rows);
    Values::new(text, starts, nexts, gap)
}

/// What becomes of a column.
enum Shape {
    Node(Node),
    /// All values have the same layout: it takes the place of the column.
    Inline(Group, Step),
}

/// How far values have been taken apart.
#[derive(Clone, Copy)]
struct Step {
    /// The way in which they may be cut.
    finer: Way,
    /// Whether the filter has what is in them.
    noted: bool,
}

impl Step {
    fn finer(self) -> Self {
        Self { finer: self.finer.finer(), ..self }
    }

    fn noted(self) -> Self {
        Self { noted: true, ..self }
    }
}

/// A table in the making: literals with [`TOKEN`] for each column, and the columns.
#[derive(Default)]
struct Row {
    literals: Vec<u8>,
    pieces: Vec<Piece>,
}

impl Tree {
    pub(crate) fn new(effort: Effort) -> Self {
        Self {
            numbering: Numbering::default(),
            spare: Spare::default(),
            borders: Borders::default(),
            effort,
            filter: FilterBuilder::new(),
        }
    }

    /// Encodes the lines of a text; [`Self::borders`] are those of the same text.
    pub(crate) fn lines(&mut self, values: Values<'_>) -> Split {
        let groups = Groups::of(values, Way::Line, self.effort.line_rows_min, &self.borders, &mut self.spare);
        for (value, _) in values.iter().zip(&groups.order).filter(|(_, group)| **group == 0) {
            self.filter.add(value);
        }
        groups.groups.iter().for_each(|group| self.filter.add(&group.layout));
        self.split(values, groups, Step { finer: Way::Word, noted: false })
    }

    fn split(&mut self, values: Values<'_>, groups: Groups, step: Step) -> Split {
        let mut rest = Vec::new();
        if groups.whole() > 0 {
            for (value, _) in values.iter().zip(&groups.order).filter(|(_, group)| **group == 0) {
                rest.extend_from_slice(value);
                rest.push(b'\n');
            }
        }
        let tables = groups.groups.into_iter().map(|group| self.table(values.text(), group, step)).collect();
        Split { tables, order: groups.order, rest }
    }

    fn table(&mut self, text: &[u8], group: Group, step: Step) -> Table {
        let rows = group.rows;
        let mut row = Row::default();
        self.columns(text, group, step, &mut row);
        link(text, &mut row.pieces);
        let mut columns = Vec::with_capacity(row.pieces.len());
        for piece in row.pieces {
            if let Ok(places) = Rc::try_unwrap(piece.places) {
                self.spare.give(step.finer.coarser(), places);
            }
            columns.push(piece.node);
        }
        Table { rows, layout: row.literals, columns }
    }

    /// Encodes the columns of a table; what is the same in all rows goes to the literals.
    fn columns(&mut self, text: &[u8], mut group: Group, step: Step, row: &mut Row) {
        let (rows, layout) = (group.rows, std::mem::take(&mut group.layout));
        // As many lists are taken as are given back, or there would be more of them with each block.
        let (places, used) = group.into_columns(self.spare.take(step.finer.coarser()));
        self.spare.give(step.finer.coarser(), used);
        let places = Rc::new(places);
        let gaps: Vec<usize> = gaps(&layout).collect();
        let all: Vec<Values<'_>> =
            gaps.iter().enumerate().map(|(at, gap)| column(text, &places, rows, at, *gap)).collect();
        let mut numbered = self.numbering.number(&all).into_iter();
        let mut at = 0;
        for byte in layout.iter().copied() {
            if byte != TOKEN {
                row.literals.push(byte);
                continue;
            }
            let (values, gap) = (all[at], gaps[at]);
            match self.column(values, numbered.next().flatten(), step) {
                // A zero in the text is no mark of a column.
                Shape::Node(Node::Same(value)) if !value.contains(&TOKEN) => row.literals.extend_from_slice(&value),
                Shape::Node(node) => {
                    row.literals.push(TOKEN);
                    row.pieces.push(Piece { places: Rc::clone(&places), rows, column: at, gap, node });
                }
                Shape::Inline(group, step) => self.columns(text, group, step, row),
            }
            at += 1;
        }
    }

    /// `dictionary` is that of the values, if they recur.
    fn column(&mut self, values: Values<'_>, dictionary: Option<Dictionary>, step: Step) -> Shape {
        let Some(dictionary) = dictionary else {
            return self.varied(values, Numeric::of(values), step);
        };
        let distinct = dictionary.distinct.values(values.text());
        if distinct.len() == 1 {
            self.note(distinct, step);
            return Shape::Node(Node::Same(distinct.get(0).to_vec()));
        }
        let mut numeric = Numeric::of(distinct);
        if let Some(some) = &numeric {
            let all = some.expand(&dictionary.ids);
            let how = all.estimate();
            if how.bytes() < dictionary_bytes(&dictionary, values.text()) {
                self.note(distinct, step);
                return Shape::Node(all.node(&how));
            }
        }
        let text = values.text();
        let values = if distinct.len() < FEW {
            self.note(distinct, step);
            raw(distinct)
        } else {
            match self.varied(distinct, numeric.take(), step) {
                Shape::Node(node) => node,
                Shape::Inline(group, step) => {
                    let table = self.table(text, group, step);
                    Node::Split(Split { tables: vec![table], order: vec![1; distinct.len()], rest: Vec::new() })
                }
            }
        };
        let distinct = dictionary.distinct.len();
        Shape::Node(Node::Dictionary { ids: dictionary.ids, distinct, values: Box::new(values) })
    }

    /// Values that hardly recur, and their numbers if they have some.
    fn varied(&mut self, values: Values<'_>, numeric: Option<Numeric>, step: Step) -> Shape {
        if let Some(numeric) = numeric {
            self.note(values, step);
            let how = numeric.estimate();
            return Shape::Node(numeric.node(&how));
        }
        self.cut(values, step)
    }

    /// Takes values into the filter, if they are not in it yet.
    fn note(&mut self, values: Values<'_>, step: Step) {
        if !step.noted {
            self.filter.add_all(values.iter());
        }
    }

    /// Takes into the filter what is not in the tokens of these values; the step from which the tokens go on.
    ///
    /// The tokens of a layout are often the same, where the values are not: to take them one by one spares most of the
    /// text. No gram goes beyond them but where words are joined.
    fn note_layouts(&mut self, values: Values<'_>, groups: &Groups, step: Step) -> Step {
        if step.noted {
            return step.finer();
        }
        if step.finer != Way::Word || groups.groups.iter().any(|group| may_join(&group.layout)) {
            self.note(values, step);
            return step.finer().noted();
        }
        groups.groups.iter().for_each(|group| self.filter.add(&group.layout));
        if groups.whole() > 0 {
            let whole = values.iter().zip(&groups.order).filter(|(_, group)| **group == 0);
            self.filter.add_all(whole.map(|(value, _)| value));
        }
        step.finer()
    }

    /// Cuts values that are neither numbers nor few, where they have layouts in common.
    fn cut(&mut self, values: Values<'_>, step: Step) -> Shape {
        let way = step.finer;
        let sample = SAMPLE.min(values.len());
        if way == Way::None || layouts_of_sample(values, way, &self.borders, SAMPLE) * ROWS_PER_LAYOUT > sample {
            self.note(values, step);
            return Shape::Node(raw(values));
        }
        let mut groups = Groups::of(values, way, self.effort.value_rows_min, &self.borders, &mut self.spare);
        // A layout that is one token says nothing.
        if groups.whole() == 0 && groups.groups.len() == 1 && groups.groups[0].layout == [TOKEN] {
            return self.cut(values, step.finer());
        }
        if groups.whole() * 4 >= values.len() {
            self.note(values, step);
            return Shape::Node(raw(values));
        }
        let step = self.note_layouts(values, &groups, step);
        match groups.groups.pop_if(|group| group.rows == values.len()) {
            Some(group) => Shape::Inline(group, step),
            None => Shape::Node(Node::Split(self.split(values, groups, step))),
        }
    }
}

/// Whether a gram may go beyond a token of this layout: of two words that are joined, or of an address.
fn may_join(layout: &[u8]) -> bool {
    layout.windows(3).any(|gap| matches!(gap, [TOKEN, b'-' | b'.' | b'/' | b':' | b'@', TOKEN]))
}

fn raw(values: Values<'_>) -> Node {
    let mut bytes = Vec::with_capacity(values.bytes() + values.len());
    for value in values.iter() {
        bytes.extend_from_slice(value);
        bytes.push(b'\n');
    }
    Node::Raw(bytes)
}

fn dictionary_bytes(dictionary: &Dictionary, text: &[u8]) -> f64 {
    let mut counts = vec![0_u32; dictionary.distinct.len()];
    for id in &dictionary.ids {
        counts[*id as usize] += 1;
    }
    let values = dictionary.distinct.values(text).bytes();
    numbers::bits(counts.into_iter(), dictionary.ids.len() as u32) / 8.0 + values as f64 * 0.4
}
