//! Reading the tree of columns back. All that is said in it is checked before it is used.
//!
//! The nodes lie in lists, one for each kind of thing and all allocated once, so that opening a block takes a few
//! allocations, whatever the number of its columns.
#![deny(clippy::indexing_slicing)]

use crate::cut::TOKEN;
use crate::fixed::{self, Place};
use crate::meta::Meta;
use crate::write::{COPY, DICTIONARY, FIXED, INTEGERS, MAPPED, RAW, SAME, SPLIT};

/// Trees are this deep at most.
const DEPTH_MAX: usize = 12;

/// Some neighbours in a list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct List {
    start: u32,
    len: u32,
}

impl List {
    fn new(start: usize, len: usize) -> Self {
        Self { start: start as u32, len: len as u32 }
    }

    pub(crate) fn of<T>(self, all: &[T]) -> &[T] {
        all.get(self.start as usize..self.start as usize + self.len as usize).unwrap_or_default()
    }

    /// Where it starts and ends.
    pub(crate) fn bounds(self) -> (usize, usize) {
        (self.start as usize, self.start as usize + self.len as usize)
    }

    fn places(self) -> std::ops::Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }
}

/// Where the bytes of a column are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payload {
    pub(crate) frame: u32,
    pub(crate) offset: u32,
    pub(crate) len: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) rows: usize,
    pub(crate) kind: Kind,
}

/// What a column is. Numbers of nodes stand for other columns.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// All values are this: bytes of the tree's text.
    Same(List),
    Raw(Payload),
    Integers(NumbersAt),
    Fixed {
        places: List,
        numbers: List,
        nibbles: Payload,
    },
    Dictionary {
        ids: Ids,
        values: usize,
    },
    Mapped {
        leader: usize,
        map: Option<Ids>,
        values: usize,
    },
    Copy(usize),
    Split {
        order: Option<Ids>,
        rest: Option<usize>,
        tables: List,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct NumbersAt {
    pub(crate) width: u8,
    pub(crate) steps: bool,
    pub(crate) base: u64,
    pub(crate) planes: Payload,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Ids {
    pub(crate) width: u8,
    /// All are below this.
    pub(crate) below: u32,
    pub(crate) planes: Payload,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Table {
    pub(crate) rows: usize,
    pub(crate) parts: List,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// Bytes of the tree's text.
    Literal(List),
    Column(usize),
}

/// All nodes of a block.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// The last one is the root.
    nodes: Vec<Node>,
    tables: Vec<Table>,
    parts: Vec<Part>,
    places: Vec<Place>,
    numbers: Vec<NumbersAt>,
}

impl Tree {
    /// Reads a tree whose lines are `rows`. `frames` are the bytes that each frame unpacks to; `budget` is how many rows
    /// the columns may have together.
    pub(crate) fn read(bytes: &[u8], rows: usize, frames: &[usize], budget: usize) -> Option<Self> {
        // A column takes some four bytes or more.
        let mut tree = Self { nodes: Vec::with_capacity(bytes.len() / 4), ..Self::default() };
        tree.parts.reserve(bytes.len() / 2);
        let mut reader = Reader { meta: Meta { bytes, at: 0 }, tree, frames, budget };
        let root = reader.split(rows, 0)?;
        reader.tree.nodes.push(Node { rows, kind: root });
        (reader.meta.at == bytes.len()).then_some(reader.tree)
    }

    pub(crate) fn root(&self) -> usize {
        self.nodes.len() - 1
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn node(&self, at: usize) -> Option<&Node> {
        self.nodes.get(at)
    }

    pub(crate) fn tables(&self, list: List) -> &[Table] {
        list.of(&self.tables)
    }

    pub(crate) fn parts(&self, table: &Table) -> &[Part] {
        table.parts.of(&self.parts)
    }

    pub(crate) fn places(&self, list: List) -> &[Place] {
        list.of(&self.places)
    }

    pub(crate) fn numbers(&self, list: List) -> &[NumbersAt] {
        list.of(&self.numbers)
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
            + self.tables.capacity() * size_of::<Table>()
            + self.parts.capacity() * size_of::<Part>()
            + self.places.capacity() * size_of::<Place>()
            + self.numbers.capacity() * size_of::<NumbersAt>()
    }
}

struct Reader<'m> {
    meta: Meta<'m>,
    tree: Tree,
    frames: &'m [usize],
    /// Rows that further columns may have together.
    budget: usize,
}

impl Reader<'_> {
    fn payload(&mut self) -> Option<Payload> {
        let meta = &mut self.meta;
        let payload = Payload { frame: meta.size()? as u32, offset: meta.size()? as u32, len: meta.size()? as u32 };
        let raw_len = *self.frames.get(payload.frame as usize)?;
        (payload.offset as usize + payload.len as usize <= raw_len).then_some(payload)
    }

    fn text(&mut self) -> Option<List> {
        let range = self.meta.range()?;
        Some(List::new(range.start, range.len()))
    }

    fn ids(&mut self, rows: usize, below: usize) -> Option<Ids> {
        let width = self.meta.byte().filter(|width| (1..=4).contains(width))?;
        let planes = self.payload()?;
        let below = u32::try_from(below).ok()?;
        (planes.len as usize == rows * width as usize).then_some(Ids { width, below, planes })
    }

    fn numbers(&mut self, rows: usize) -> Option<NumbersAt> {
        let head = self.meta.byte()?;
        let (width, steps) = (head & 0x7f, head >> 7 == 1);
        let base = self.meta.varint()?;
        let planes = self.payload()?;
        (width <= 8 && planes.len as usize == rows * width as usize).then_some(NumbersAt { width, steps, base, planes })
    }

    fn fixed(&mut self, rows: usize) -> Option<Kind> {
        let count = self.meta.size().filter(|count| *count <= 64)?;
        let places = List::new(self.tree.places.len(), count);
        for _ in 0..count {
            let place = match self.meta.byte()? {
                0 => Place::Same(self.meta.byte()?),
                1 => Place::Digit,
                2 => Place::Lower,
                3 => Place::Upper,
                _ => return None,
            };
            self.tree.places.push(place);
        }
        let all = places.of(&self.tree.places);
        let (count, nibble_bytes) = (fixed::number_count(all), fixed::nibble_bytes(all));
        let numbers = List::new(self.tree.numbers.len(), count);
        for _ in 0..count {
            let number = self.numbers(rows)?;
            self.tree.numbers.push(number);
        }
        let nibbles = self.payload()?;
        (nibbles.len as usize == rows * nibble_bytes).then_some(Kind::Fixed { places, numbers, nibbles })
    }

    fn node(&mut self, rows: usize, depth: usize) -> Option<usize> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.budget = self.budget.checked_sub(rows + 1)?;
        let kind = match self.meta.byte()? {
            SAME => Kind::Same(self.text()?),
            RAW => Kind::Raw(self.payload()?),
            INTEGERS => Kind::Integers(self.numbers(rows)?),
            FIXED => self.fixed(rows)?,
            DICTIONARY => {
                let distinct = self.meta.size().filter(|distinct| *distinct <= rows)?;
                let ids = self.ids(rows, distinct)?;
                Kind::Dictionary { ids, values: self.node(distinct, depth + 1)? }
            }
            MAPPED => {
                // The place among the columns of the table, until all of them are read.
                let leader = self.meta.size()?;
                let distinct = self.meta.size().filter(|distinct| *distinct <= rows)?;
                let map = match self.meta.byte()? {
                    0 => {
                        let width = self.meta.byte().filter(|width| (1..=4).contains(width))?;
                        Some(Ids { width, below: distinct as u32, planes: self.payload()? })
                    }
                    1 => None,
                    _ => return None,
                };
                Kind::Mapped { leader, map, values: self.node(distinct, depth + 1)? }
            }
            COPY => Kind::Copy(self.meta.size()?),
            SPLIT => self.split(rows, depth + 1)?,
            _ => return None,
        };
        self.tree.nodes.push(Node { rows, kind });
        Some(self.tree.nodes.len() - 1)
    }

    fn split(&mut self, rows: usize, depth: usize) -> Option<Kind> {
        let count = self.meta.size().filter(|count| *count <= self.meta.bytes.len())?;
        self.budget = self.budget.checked_sub(count)?;
        let one = self.meta.byte()? == 1;
        if one && count != 1 {
            return None;
        }
        let order = if one { None } else { Some(self.ids(rows, count + 1)?) };
        let rest = if one { None } else { Some(self.payload()?) };
        let tables = List::new(self.tree.tables.len(), count);
        self.tree.tables.resize(tables.places().end, Table::default());
        let mut sum = 0_usize;
        for place in tables.places() {
            let table_rows = self.meta.size()?;
            sum += table_rows;
            if sum > rows || (one && table_rows != rows) {
                return None;
            }
            let table = self.table(table_rows, depth)?;
            *self.tree.tables.get_mut(place)? = table;
        }
        if one && sum != rows {
            return None;
        }
        let rest = rest.map(|payload| {
            self.tree.nodes.push(Node { rows: rows - sum, kind: Kind::Raw(payload) });
            self.tree.nodes.len() - 1
        });
        Some(Kind::Split { order, rest, tables })
    }

    fn table(&mut self, rows: usize, depth: usize) -> Option<Table> {
        let layout = self.meta.range()?;
        let bytes = self.meta.bytes.get(layout.clone())?;
        // The parts come first, one behind the other; those of tables within columns follow them.
        let first = self.tree.parts.len();
        let mut from = layout.start;
        for mark in memchr::memchr_iter(TOKEN, bytes).map(|at| layout.start + at) {
            if from < mark {
                self.tree.parts.push(Part::Literal(List::new(from, mark - from)));
            }
            self.tree.parts.push(Part::Column(usize::MAX));
            from = mark + 1;
        }
        if from < layout.end {
            self.tree.parts.push(Part::Literal(List::new(from, layout.end - from)));
        }
        let parts = List::new(first, self.tree.parts.len() - first);
        for place in parts.places() {
            if let Part::Column(_) = self.tree.parts.get(place)? {
                let node = self.node(rows, depth)?;
                *self.tree.parts.get_mut(place)? = Part::Column(node);
            }
        }
        let table = Table { rows, parts };
        self.refer(&table)?;
        Some(table)
    }

    /// Turns places among the columns of a table into nodes. What is referred to stands for itself, so there are no
    /// circles.
    fn refer(&mut self, table: &Table) -> Option<()> {
        for at in table.parts.places() {
            let Some(Part::Column(column)) = self.tree.parts.get(at).copied() else { continue };
            let (Kind::Copy(place) | Kind::Mapped { leader: place, .. }) = self.tree.nodes.get(column)?.kind else {
                continue;
            };
            let columns = self.tree.parts(table).iter().filter_map(|part| match part {
                Part::Column(node) => Some(*node),
                Part::Literal(_) => None,
            });
            let target = { columns }.nth(place)?;
            let below = match self.tree.nodes.get(target)?.kind {
                Kind::Dictionary { ids, .. } => Some(ids.below),
                Kind::Copy(_) | Kind::Mapped { .. } => return None,
                _ => None,
            };
            let distinct = match self.tree.nodes.get(column)?.kind {
                Kind::Mapped { values, .. } => self.tree.nodes.get(values)?.rows,
                _ => 0,
            };
            match &mut self.tree.nodes.get_mut(column)?.kind {
                Kind::Copy(place) => *place = target,
                Kind::Mapped { leader, map, .. } => {
                    let below = below?;
                    let fits = match map {
                        None => below as usize <= distinct,
                        Some(map) => u64::from(map.planes.len) == u64::from(below) * u64::from(map.width),
                    };
                    if !fits {
                        return None;
                    }
                    *leader = target;
                }
                _ => {}
            }
        }
        Some(())
    }
}
