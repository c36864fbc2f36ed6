//! From the values of a column to the tree of columns that says the same in less.

use crate::borders::Borders;
use crate::cut::{TOKEN, Way};
use crate::dictionary::{Column, Dictionary};
use crate::filter::FilterBuilder;
use crate::fixed::Place;
use crate::groups::{Group, Groups, layouts_of_sample};
use crate::link::link;
use crate::numbers::{self, Numbers};
use crate::numeric::Numeric;
use crate::values::{Listed, Values};
use crate::work::Work;

/// A column as it is written. Columns with the same values are the same.
#[derive(Debug, PartialEq)]
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
#[derive(Debug, PartialEq)]
pub(crate) struct Split {
    pub(crate) tables: Vec<Table>,
    /// For each value its table + 1; 0 for those in `rest`.
    pub(crate) order: Vec<u32>,
    /// Values that are kept whole, an LF after each.
    pub(crate) rest: Vec<u8>,
}

/// Values of one layout: a table of its tokens.
#[derive(Debug, PartialEq)]
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

/// Makes trees of columns.
#[derive(Debug)]
pub(crate) struct Tree {
    /// Of the text that is encoded.
    pub(crate) borders: Borders,
    effort: Effort,
    pub(crate) filter: FilterBuilder,
    work: Work,
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
    columns: Vec<Node>,
}

impl Tree {
    pub(crate) fn new(effort: Effort) -> Self {
        Self { borders: Borders::default(), effort, filter: FilterBuilder::new(), work: Work::default() }
    }

    /// Encodes the lines of a text; [`Self::borders`] are those of the same text. `None` when it is more than this work.
    pub(crate) fn lines(&mut self, values: Values<'_>, work: Work) -> Option<Split> {
        self.work = work;
        let groups = Groups::of(values, Way::Line, self.effort.line_rows_min, &self.borders, &mut self.work);
        let whole = values.iter().zip(&groups.order).filter(|(_, group)| **group == 0);
        self.learn(whole.map(|(value, _)| value).chain(groups.groups.iter().map(|group| group.layout.as_slice())));
        let split = self.split(values, groups, Step { finer: Way::Word, noted: false });
        (!self.work.is_used_up()).then_some(split)
    }

    fn split(&mut self, values: Values<'_>, groups: Groups, step: Step) -> Split {
        let mut rest = Vec::new();
        if groups.whole() > 0 {
            for (value, _) in values.iter().zip(&groups.order).filter(|(_, group)| **group == 0) {
                rest.extend_from_slice(value);
                rest.push(b'\n');
            }
        }
        let tables = groups.groups.into_iter().map(|group| self.table(group, step)).collect();
        Split { tables, order: groups.order, rest }
    }

    fn table(&mut self, group: Group, step: Step) -> Table {
        let rows = group.rows;
        let mut row = Row::default();
        self.columns(group, step, &mut row);
        link(&mut row.columns);
        Table { rows, layout: row.literals, columns: row.columns }
    }

    /// Encodes the columns of a table; what is the same in all rows goes to the literals.
    fn columns(&mut self, group: Group, step: Step, row: &mut Row) {
        // What was too much is thrown away.
        if self.work.is_used_up() {
            return;
        }
        let mut columns = group.columns.into_iter();
        for byte in group.layout {
            let column = if byte == TOKEN { columns.next() } else { None };
            let Some(column) = column else {
                row.literals.push(byte);
                continue;
            };
            match self.column(column, step) {
                // A zero in the text is no mark of a column.
                Shape::Node(Node::Same(value)) if !value.contains(&TOKEN) => row.literals.extend_from_slice(&value),
                Shape::Node(node) => {
                    row.literals.push(TOKEN);
                    row.columns.push(node);
                }
                Shape::Inline(group, step) => self.columns(group, step, row),
            }
        }
    }

    fn column(&mut self, column: Column, step: Step) -> Shape {
        let dictionary = match column {
            Column::Dictionary(dictionary) => dictionary,
            Column::Varied(values) => {
                let numeric = Numeric::of(values.values());
                return self.varied(values, numeric, step);
            }
        };
        let distinct = dictionary.distinct.values();
        if distinct.len() == 1 {
            self.note(distinct, step);
            return Shape::Node(Node::Same(distinct.get(0).to_vec()));
        }
        let mut numeric = Numeric::of(distinct);
        if let Some(some) = &numeric {
            let all = some.expand(&dictionary.ids);
            let how = all.estimate();
            if how.bytes() < dictionary_bytes(&dictionary) {
                self.note(distinct, step);
                return Shape::Node(all.node(&how));
            }
        }
        let count = distinct.len();
        let values = if count < FEW {
            self.note(distinct, step);
            Node::Raw(dictionary.distinct.into_bytes())
        } else {
            match self.varied(dictionary.distinct, numeric.take(), step) {
                Shape::Node(node) => node,
                Shape::Inline(group, step) => {
                    let table = self.table(group, step);
                    Node::Split(Split { tables: vec![table], order: vec![1; count], rest: Vec::new() })
                }
            }
        };
        Shape::Node(Node::Dictionary { ids: dictionary.ids, distinct: count, values: Box::new(values) })
    }

    /// Values that hardly recur, and their numbers if they have some.
    fn varied(&mut self, values: Listed, numeric: Option<Numeric>, step: Step) -> Shape {
        if let Some(numeric) = numeric {
            self.note(values.values(), step);
            let how = numeric.estimate();
            return Shape::Node(numeric.node(&how));
        }
        self.cut(values, step)
    }

    /// Takes values into the filter, if they are not in it yet.
    fn note(&mut self, values: Values<'_>, step: Step) {
        if !step.noted {
            self.learn(values.iter());
        }
    }

    /// Takes texts into the filter.
    fn learn<'t>(&mut self, texts: impl Iterator<Item = &'t [u8]>) {
        let before = self.filter.taken;
        self.filter.add_all(texts);
        self.work.grams(self.filter.taken - before);
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
        let layouts = groups.groups.iter().map(|group| group.layout.as_slice());
        if groups.whole() > 0 {
            let whole = values.iter().zip(&groups.order).filter(|(_, group)| **group == 0);
            self.learn(whole.map(|(value, _)| value).chain(layouts));
        } else {
            self.learn(layouts);
        }
        step.finer()
    }

    /// Cuts values that are neither numbers nor few, where they have layouts in common.
    fn cut(&mut self, listed: Listed, step: Step) -> Shape {
        let (way, values) = (step.finer, listed.values());
        let sample = SAMPLE.min(values.len());
        if way == Way::None || layouts_of_sample(values, way, &self.borders, SAMPLE) * ROWS_PER_LAYOUT > sample {
            self.note(values, step);
            return Shape::Node(Node::Raw(listed.into_bytes()));
        }
        let mut groups = Groups::of(values, way, self.effort.value_rows_min, &self.borders, &mut self.work);
        // A layout that is one token says nothing.
        if groups.whole() == 0 && groups.groups.len() == 1 && groups.groups[0].layout == [TOKEN] {
            return self.cut(listed, step.finer());
        }
        if groups.whole() * 4 >= values.len() {
            self.note(values, step);
            return Shape::Node(Node::Raw(listed.into_bytes()));
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

fn dictionary_bytes(dictionary: &Dictionary) -> f64 {
    let mut counts = vec![0_u32; dictionary.distinct.len()];
    for id in &dictionary.ids {
        counts[*id as usize] += 1;
    }
    let values = dictionary.distinct.values().bytes();
    numbers::bits(counts.into_iter(), dictionary.ids.len() as u32) / 8.0 + values as f64 * 0.4
}
