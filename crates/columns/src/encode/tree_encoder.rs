//! Builds the tree of columns from the values of a text.

use crate::encode::boundaries::Boundaries;
use crate::encode::column_links::link_columns;
use crate::encode::dictionary::{ColumnValues, Dictionary};
use crate::encode::encoded_column::{EncodedColumn, EncodedTable, LayoutTables};
use crate::encode::layout_groups::{LayoutGroup, LayoutGroups, count_sampled_layouts};
use crate::encode::number_planes;
use crate::encode::numeric::NumericValues;
use crate::encode::tokeniser::{ESCAPED_QUOTE, Granularity};
use crate::encode::values::{LineClass, ValueBuffer, Values};
use crate::encode::work_budget::WorkBudget;
use crate::filter::FilterBuilder;
use crate::format::TOKEN_PLACEHOLDER;
use memchr::memmem;

/// The smallest tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableThresholds {
    /// The fewest lines of a layout.
    pub(crate) line_rows_min: usize,
    /// The fewest values of a layout within a column.
    pub(crate) value_rows_min: usize,
}

impl Default for TableThresholds {
    /// The best values for logs of many kinds: the overhead of smaller tables exceeds their savings.
    fn default() -> Self {
        Self { line_rows_min: 16, value_rows_min: 16 }
    }
}

/// Sampled values per layout, at least, for a column to be tokenised.
const SAMPLED_VALUES_PER_LAYOUT_MIN: usize = 16;

/// A dictionary with fewer distinct values stores them raw.
const SMALL_DICTIONARY_VALUES: usize = 32;

/// The size of a sample.
const SAMPLE_VALUES_MAX: usize = 512;

/// Builds trees of columns.
#[derive(Debug)]
pub(crate) struct TreeEncoder {
    /// The token boundaries of the text that is encoded.
    pub(crate) boundaries: Boundaries,
    thresholds: TableThresholds,
    pub(crate) filter: FilterBuilder,
    work_budget: WorkBudget,
}

/// The encoding chosen for a column.
enum ColumnEncoding {
    Column(EncodedColumn),
    /// All values have one layout, whose columns replace the column in its table.
    Inline(LayoutGroup, ValueState),
}

/// What was done with some values so far.
#[derive(Clone, Copy)]
struct ValueState {
    /// The granularity of the next tokenisation, if any.
    granularity: Option<Granularity>,
    /// Whether the filter has their grams.
    is_in_filter: bool,
}

impl ValueState {
    /// The state for the next finer tokenisation; for none after the finest.
    fn with_finer_granularity(self) -> Self {
        Self { granularity: self.granularity.and_then(Granularity::finer), ..self }
    }

    fn marked_in_filter(self) -> Self {
        Self { is_in_filter: true, ..self }
    }
}

/// A table that is being built: literals with [`TOKEN_PLACEHOLDER`] for each column, and the columns.
#[derive(Default)]
struct TableBuilder {
    literals: Vec<u8>,
    columns: Vec<EncodedColumn>,
}

impl TreeEncoder {
    pub(crate) fn new(effort: TableThresholds) -> Self {
        Self {
            boundaries: Boundaries::default(),
            thresholds: effort,
            filter: FilterBuilder::new(),
            work_budget: WorkBudget::default(),
        }
    }

    /// Encodes the lines of a text, whose [`boundaries`](Self::boundaries) are already computed. `None` if the work budget is
    /// exhausted.
    pub(crate) fn encode_lines(
        &mut self,
        values: Values<'_>,
        classes: &[LineClass],
        work: WorkBudget,
    ) -> Option<LayoutTables> {
        self.work_budget = work;
        let groups = LayoutGroups::group_by_layout(
            values,
            classes,
            Granularity::Line,
            self.thresholds.line_rows_min,
            &self.boundaries,
            &mut self.work_budget,
        );
        self.add_outliers_and_layouts_to_filter(values, &groups);
        let step = ValueState { granularity: Granularity::Line.finer(), is_in_filter: false };
        let split = self.encode_tables(values, groups, step);
        (!self.work_budget.is_exhausted()).then_some(split)
    }

    fn encode_tables(&mut self, values: Values<'_>, groups: LayoutGroups, step: ValueState) -> LayoutTables {
        let mut outliers = Vec::new();
        if groups.outlier_count() > 0 {
            groups.outliers(values).for_each(|value| outliers.extend(value.iter().chain(b"\n")));
        }
        let tables = groups.groups.into_iter().map(|group| self.encode_table(group, step)).collect();
        LayoutTables { tables, table_ids: groups.group_ids, outliers }
    }

    fn encode_table(&mut self, group: LayoutGroup, step: ValueState) -> EncodedTable {
        let rows = group.rows;
        let mut row = TableBuilder::default();
        self.encode_columns(group, step, &mut row);
        link_columns(&mut row.columns);
        EncodedTable { rows, layout: row.literals, columns: row.columns }
    }

    /// Encodes the columns of a table; constants become literals.
    fn encode_columns(&mut self, group: LayoutGroup, step: ValueState, row: &mut TableBuilder) {
        // The caller discards the columns.
        if self.work_budget.is_exhausted() {
            return;
        }
        let mut columns = group.columns.into_iter();
        for byte in group.layout {
            let column = if byte == TOKEN_PLACEHOLDER { columns.next() } else { None };
            let Some(column) = column else {
                row.literals.push(byte);
                continue;
            };
            match self.encode_column(column, step) {
                // A zero byte in a literal would read as a placeholder.
                ColumnEncoding::Column(EncodedColumn::Constant(value)) if !value.contains(&TOKEN_PLACEHOLDER) => {
                    row.literals.extend_from_slice(&value);
                }
                ColumnEncoding::Column(node) => {
                    row.literals.push(TOKEN_PLACEHOLDER);
                    row.columns.push(node);
                }
                ColumnEncoding::Inline(group, step) => self.encode_columns(group, step, row),
            }
        }
    }

    fn encode_column(&mut self, column: ColumnValues, step: ValueState) -> ColumnEncoding {
        let dictionary = match column {
            ColumnValues::Dictionary(dictionary) => dictionary,
            ColumnValues::HighCardinality(values) => {
                let numeric = NumericValues::parse(values.values());
                return self.encode_high_cardinality(values, numeric, step);
            }
        };
        let distinct = dictionary.distinct.values();
        if distinct.len() == 1 {
            self.add_values_to_filter(distinct, step);
            return ColumnEncoding::Column(EncodedColumn::Constant(distinct.get(0).to_vec()));
        }
        let mut numeric = NumericValues::parse(distinct);
        if let Some(some) = &numeric {
            let all = some.expand(&dictionary.codes);
            let how = all.estimate();
            if how.bytes() < estimate_dictionary_bytes(&dictionary) {
                self.add_values_to_filter(distinct, step);
                return ColumnEncoding::Column(all.encode(&how));
            }
        }
        let count = distinct.len();
        let values = if count < SMALL_DICTIONARY_VALUES {
            self.add_values_to_filter(distinct, step);
            EncodedColumn::Raw(dictionary.distinct.into_bytes())
        } else {
            match self.encode_high_cardinality(dictionary.distinct, numeric.take(), step) {
                ColumnEncoding::Column(node) => node,
                ColumnEncoding::Inline(group, step) => {
                    let table = self.encode_table(group, step);
                    EncodedColumn::Tables(LayoutTables {
                        tables: vec![table],
                        table_ids: vec![1; count],
                        outliers: Vec::new(),
                    })
                }
            }
        };
        ColumnEncoding::Column(EncodedColumn::Dictionary {
            codes: dictionary.codes,
            distinct: count,
            values: Box::new(values),
        })
    }

    /// Encodes values that hardly recur, with their numbers if they are numeric.
    fn encode_high_cardinality(
        &mut self,
        values: ValueBuffer,
        numeric: Option<NumericValues>,
        step: ValueState,
    ) -> ColumnEncoding {
        if let Some(numeric) = numeric {
            self.add_values_to_filter(values.values(), step);
            let how = numeric.estimate();
            return ColumnEncoding::Column(numeric.encode(&how));
        }
        self.encode_tokens(values, step)
    }

    /// Adds values to the filter, unless it has their grams.
    fn add_values_to_filter(&mut self, values: Values<'_>, step: ValueState) {
        if !step.is_in_filter {
            self.add_texts_to_filter(values.iter());
        }
    }

    /// Adds texts to the filter, and charges the work.
    fn add_texts_to_filter<'t>(&mut self, texts: impl Iterator<Item = &'t [u8]>) {
        let before = self.filter.indexed_bytes;
        self.filter.add_all(texts);
        self.work_budget.charge_grams(self.filter.indexed_bytes - before);
    }

    /// Adds to the filter what the tokens of these values do not contain, and returns the state of the tokens.
    ///
    /// Tokens recur more often than whole values, so adding them column by column avoids most of the text. Only grams of joined
    /// words and addresses span tokens.
    fn add_layouts_to_filter(&mut self, values: Values<'_>, groups: &LayoutGroups, step: ValueState) -> ValueState {
        if step.is_in_filter {
            return step.with_finer_granularity();
        }
        if !matches!(step.granularity, Some(Granularity::Quoted | Granularity::Word))
            || groups.groups.iter().any(|group| may_join_words(&group.layout))
        {
            self.add_values_to_filter(values, step);
            return step.with_finer_granularity().marked_in_filter();
        }
        self.add_outliers_and_layouts_to_filter(values, groups);
        step.with_finer_granularity()
    }

    fn add_outliers_and_layouts_to_filter(&mut self, values: Values<'_>, groups: &LayoutGroups) {
        let layouts = groups.groups.iter().map(|group| group.layout.as_slice());
        self.add_texts_to_filter(groups.outliers(values).chain(layouts));
    }

    /// Whether values share layouts, by a sample of them.
    fn share_layouts(&self, values: Values<'_>, granularity: Granularity) -> bool {
        let layouts = count_sampled_layouts(values, granularity, &self.boundaries, SAMPLE_VALUES_MAX);
        layouts * SAMPLED_VALUES_PER_LAYOUT_MIN <= SAMPLE_VALUES_MAX.min(values.len())
    }

    /// Whether values are lines in JSON strings, with quotes of their own, and share layouts. Their boundaries are computed then:
    /// those of the whole text are no longer needed below its lines.
    fn are_quoted_lines(&mut self, values: Values<'_>) -> bool {
        let step = values.len().div_ceil(SAMPLE_VALUES_MAX).max(1);
        let sampled = || (0..values.len()).step_by(step).map(|row| values.get(row));
        let with_quotes = sampled().filter(|value| memmem::find(value, ESCAPED_QUOTE).is_some()).count();
        if with_quotes * 2 < sampled().count() {
            return false;
        }
        self.boundaries.compute(values.text());
        self.share_layouts(values, Granularity::Quoted)
    }

    /// Tokenises values that are neither numeric nor few, if they share layouts.
    fn encode_tokens(&mut self, listed: ValueBuffer, mut step: ValueState) -> ColumnEncoding {
        let values = listed.values();
        if step.granularity == Some(Granularity::Quoted) && !self.are_quoted_lines(values) {
            step = step.with_finer_granularity();
        }
        let shares_layouts = |it: &Granularity| *it == Granularity::Quoted || self.share_layouts(values, *it);
        let Some(granularity) = step.granularity.filter(shares_layouts) else {
            self.add_values_to_filter(values, step);
            return ColumnEncoding::Column(EncodedColumn::Raw(listed.into_bytes()));
        };
        let mut groups = LayoutGroups::group_by_layout(
            values,
            &[],
            granularity,
            self.thresholds.value_rows_min,
            &self.boundaries,
            &mut self.work_budget,
        );
        // A layout of a single token gains nothing.
        if groups.outlier_count() == 0 && groups.groups.len() == 1 && groups.groups[0].layout == [TOKEN_PLACEHOLDER] {
            return self.encode_tokens(listed, step.with_finer_granularity());
        }
        if groups.outlier_count() * 4 >= values.len() {
            self.add_values_to_filter(values, step);
            return ColumnEncoding::Column(EncodedColumn::Raw(listed.into_bytes()));
        }
        let step = self.add_layouts_to_filter(values, &groups, step);
        match groups.groups.pop_if(|group| group.rows == values.len()) {
            Some(group) => ColumnEncoding::Inline(group, step),
            None => ColumnEncoding::Column(EncodedColumn::Tables(self.encode_tables(values, groups, step))),
        }
    }
}

/// Whether a gram of joined words or of an address may span tokens of this layout.
fn may_join_words(layout: &[u8]) -> bool {
    layout.windows(3).any(|gap| matches!(gap, [TOKEN_PLACEHOLDER, b'-' | b'.' | b'/' | b':' | b'@', TOKEN_PLACEHOLDER]))
}

fn estimate_dictionary_bytes(dictionary: &Dictionary) -> f64 {
    let mut counts = vec![0_u32; dictionary.distinct.len()];
    for id in &dictionary.codes {
        counts[*id as usize] += 1;
    }
    let values = dictionary.distinct.values().bytes();
    number_planes::entropy_bits(counts.into_iter(), dictionary.codes.len() as u32) / 8.0 + values as f64 * 0.4
}
