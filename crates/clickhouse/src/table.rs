//! The table: its columns and its name in statements.

use crate::database_url::DatabaseUrl;

/// The columns in the order of inserted rows.
pub(crate) const COLUMNS: &str = "id, time, accepted, nanos, flags, labels, attribute_names, attribute_values, line";

/// The columns in the order in which they are read.
pub(crate) const COLUMNS_READ: &str = "id, labels, toUnixTimestamp64Milli(accepted), nanos, flags, \
                                       attribute_names, attribute_values, line";

/// The columns of a read without text.
pub(crate) const COLUMNS_OF_IDS: &str = "id, labels";

/// The statement that inserts rows.
pub(crate) fn insert_into(url: &DatabaseUrl) -> String {
    format!("INSERT INTO {} ({COLUMNS}) FORMAT RowBinary", quoted(url))
}

/// The name of the table in statements. The parts were checked when the URL was parsed.
pub(crate) fn quoted(url: &DatabaseUrl) -> String {
    format!("`{}`.`{}`", url.database, url.table)
}
