//! The table: its columns and its name in statements.

use crate::database_url::DatabaseUrl;

/// The columns in the order of inserted rows.
pub(crate) const COLUMNS: &str = "id, time, accepted, nanos, flags, labels, attribute_names, attribute_values, line";

/// The columns in the order in which they are read.
pub(crate) const COLUMNS_READ: &str = "id, labels, toUnixTimestamp64Milli(accepted), nanos, flags, \
                                       attribute_names, attribute_values, line";

/// The columns of a read without text.
pub(crate) const COLUMNS_OF_IDS: &str = "id, labels";

/// The columns of a read of ids alone: those with one time and producer are one row, which has all sequence numbers only if any
/// between the lowest and the highest is missing. An id that the table has twice counts once.
pub(crate) const COLUMNS_OF_ID_GROUPS: &str = "toUInt64(bitShiftRight(id, 64)) AS stem, \
     toUInt32(bitAnd(bitShiftRight(id, 32), 4294967295)) AS producer, \
     min(toUInt32(bitAnd(id, 4294967295)) AS sequence) AS low, max(sequence) AS high, \
     if(length(groupUniqArray(sequence) AS sequences) = toUInt64(high) - low + 1, [], arraySort(sequences))";

/// The grouping and the order of these rows.
pub(crate) const ID_GROUPS: &str = "GROUP BY stem, producer ORDER BY (stem, producer)";

/// The statement that inserts rows.
pub(crate) fn insert_into(url: &DatabaseUrl) -> String {
    format!("INSERT INTO {} ({COLUMNS}) FORMAT RowBinary", quoted(url))
}

/// The name of the table in statements. The parts were checked when the URL was parsed.
pub(crate) fn quoted(url: &DatabaseUrl) -> String {
    format!("`{}`.`{}`", url.database, url.table)
}
