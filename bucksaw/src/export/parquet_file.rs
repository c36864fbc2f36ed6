//! Records as Apache Parquet.
//!
//! The schema mirrors the JSON of a record. Text that is not UTF-8 is in the columns that end in `_bytes`, because readers refuse or
//! replace it in text columns:
//!
//! | column | type |
//! | --- | --- |
//! | `id` | text |
//! | `time` | timestamp in microseconds, UTC |
//! | `labels`, `attributes` | map of text to text |
//! | `attributes_bytes` | map of text to bytes |
//! | `line` | text, or null |
//! | `line_bytes` | bytes, or null |
//! | `cut`, `unterminated` | boolean |
//!
//! Format: the specification of Apache Parquet, levels of nested columns as in "Dremel: Interactive Analysis of Web-Scale
//! Datasets", 2010.

use std::io::{BufRead, Write};
use std::sync::Arc;

use anyhow::Context as _;
use bucksaw_record::time;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use crate::answer::NodeRecord;

const SCHEMA: &str = "
message record {
  required binary id (STRING);
  required int64 time (TIMESTAMP(MICROS, true));
  required group labels (MAP) { repeated group key_value { required binary key (STRING); required binary value (STRING); } }
  required group attributes (MAP) { repeated group key_value { required binary key (STRING); required binary value (STRING); } }
  required group attributes_bytes (MAP) { repeated group key_value { required binary key (STRING); required binary value; } }
  optional binary line (STRING);
  optional binary line_bytes;
  required boolean cut;
  required boolean unterminated;
}";

/// Text of a row group, in bytes, which is held in memory. Readers skip and read whole row groups.
const GROUP_BYTES: usize = 64 << 20;

/// Rows of a row group.
const GROUP_ROWS: usize = 1 << 20;

/// Memory of a row beside its text, approximately, in bytes.
const ROW_BYTES: usize = 100;

/// Writes the records of NDJSON, and calls `on_group` with the number of records written so far after each row group.
pub(super) fn write(
    mut records: impl BufRead,
    file: impl Write + Send,
    mut on_group: impl FnMut(u64),
) -> anyhow::Result<()> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_created_by(concat!("bucksaw ", env!("CARGO_PKG_VERSION")).to_owned())
        .build();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
    let mut group = RowGroup::default();
    let (mut line, mut written) = (Vec::new(), 0);
    loop {
        line.clear();
        let is_end = records.read_until(b'\n', &mut line).context("cannot read the exported records")? == 0;
        if !is_end {
            group.push(&NodeRecord::parse(&line)?)?;
        }
        if is_end || group.bytes >= GROUP_BYTES || group.rows() >= GROUP_ROWS {
            if group.rows() > 0 {
                written += group.rows() as u64;
                std::mem::take(&mut group).write(writer.next_row_group()?)?;
                on_group(written);
            }
            if is_end {
                writer.close()?;
                return Ok(());
            }
        }
    }
}

/// Rows that are not written yet, by column.
#[derive(Default)]
struct RowGroup {
    bytes: usize,
    ids: Vec<ByteArray>,
    times: Vec<i64>,
    labels: MapColumn,
    attributes: MapColumn,
    attributes_bytes: MapColumn,
    lines: OptionalColumn,
    lines_bytes: OptionalColumn,
    cut: Vec<bool>,
    unterminated: Vec<bool>,
}

/// A column of maps: the entries of all rows, and a level for each entry and for each empty map.
#[derive(Default)]
struct MapColumn {
    keys: Vec<ByteArray>,
    values: Vec<ByteArray>,
    /// 1 for an entry, 0 for an empty map.
    definition: Vec<i16>,
    /// 0 for the first entry of a row, 1 for others.
    repetition: Vec<i16>,
}

impl MapColumn {
    fn push<V: Into<Vec<u8>>>(&mut self, entries: impl Iterator<Item = (String, V)>) {
        let before = self.keys.len();
        for (key, value) in entries {
            self.definition.push(1);
            self.repetition.push(i16::from(self.keys.len() > before));
            self.keys.push(key.into_bytes().into());
            self.values.push(value.into().into());
        }
        if self.keys.len() == before {
            self.definition.push(0);
            self.repetition.push(0);
        }
    }

    fn write<W: Write + Send>(&self, group: &mut SerializedRowGroupWriter<'_, W>) -> anyhow::Result<()> {
        for values in [&self.keys, &self.values] {
            write_column::<ByteArrayType, W>(group, values, Some(&self.definition), Some(&self.repetition))?;
        }
        Ok(())
    }
}

/// A column with nulls: the values that are there, and 1 or 0 for each row.
#[derive(Default)]
struct OptionalColumn {
    values: Vec<ByteArray>,
    definition: Vec<i16>,
}

impl OptionalColumn {
    fn push(&mut self, value: Option<Vec<u8>>) {
        self.definition.push(i16::from(value.is_some()));
        self.values.extend(value.map(ByteArray::from));
    }
}

impl RowGroup {
    fn rows(&self) -> usize {
        self.ids.len()
    }

    fn push(&mut self, record: &NodeRecord<'_>) -> anyhow::Result<()> {
        let (at, nanos) = time::event_time_text(record.time.as_bytes())
            .with_context(|| format!("the node sent the invalid time {}", record.time))?;
        let micros = at.0 * 1_000 + u64::from(nanos / 1_000);
        let line = record.line()?.into_owned();
        let pairs = |map: &std::collections::BTreeMap<String, String>| map.clone().into_iter();
        self.bytes += ROW_BYTES + record.text_bytes();
        self.ids.push(record.id.as_bytes().to_vec().into());
        self.times.push(i64::try_from(micros).context("the node sent a time that is too late")?);
        self.labels.push(pairs(&record.labels));
        self.attributes.push(pairs(&record.attributes));
        self.attributes_bytes.push(record.attributes_bytes()?.into_iter());
        let is_text = str::from_utf8(&line).is_ok();
        let (text, bytes) = if is_text { (Some(line), None) } else { (None, Some(line)) };
        self.lines.push(text);
        self.lines_bytes.push(bytes);
        self.cut.push(record.cut);
        self.unterminated.push(record.unterminated);
        Ok(())
    }

    /// Writes the columns in the order of the schema.
    fn write<W: Write + Send>(self, mut group: SerializedRowGroupWriter<'_, W>) -> anyhow::Result<()> {
        write_column::<ByteArrayType, W>(&mut group, &self.ids, None, None)?;
        write_column::<Int64Type, W>(&mut group, &self.times, None, None)?;
        for map in [&self.labels, &self.attributes, &self.attributes_bytes] {
            map.write(&mut group)?;
        }
        for column in [&self.lines, &self.lines_bytes] {
            write_column::<ByteArrayType, W>(&mut group, &column.values, Some(&column.definition), None)?;
        }
        write_column::<BoolType, W>(&mut group, &self.cut, None, None)?;
        write_column::<BoolType, W>(&mut group, &self.unterminated, None, None)?;
        group.close()?;
        Ok(())
    }
}

/// Writes the next column of a row group.
fn write_column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    definition: Option<&[i16]>,
    repetition: Option<&[i16]>,
) -> anyhow::Result<()> {
    let mut column = group.next_column()?.context("the schema has fewer columns")?;
    column.typed::<T>().write_batch(values, definition, repetition)?;
    column.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::{Field, Row, RowAccessor as _};

    use super::*;

    fn rows(ndjson: &str) -> Vec<Row> {
        let mut file = Vec::new();
        write(ndjson.as_bytes(), &mut file, |_| ()).unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(file)).unwrap();
        reader.get_row_iter(None).unwrap().map(Result::unwrap).collect()
    }

    /// The entries of a map of texts.
    fn map(row: &Row, column: usize) -> Vec<(String, String)> {
        let text = |field: &Field| match field {
            Field::Str(text) => text.clone(),
            Field::Bytes(bytes) => format!("{:?}", bytes.data()),
            other => panic!("{other}"),
        };
        row.get_map(column).unwrap().entries().iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    fn pairs(entries: &[(&str, &str)]) -> Vec<(String, String)> {
        entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn records_are_written_with_all_that_is_said_of_them() {
        let ndjson = concat!(
            r#"{"id":"01M8AS9GBVYSHY93FBPW000000","time":"2026-11-26T02:00:00.123456Z","labels":{"a":"1","b":"2"},"#,
            r#""attributes":{"level":"error"},"line":"a\nb"}"#,
            "\n",
            r#"{"id":"01M8AS9GBVYSHY93FBPW000001","time":"1970-01-01T00:00:00.000001Z","labels":{},"line_base64":"/wBh","#,
            r#""attributes":{"y":"1"},"attributes_base64":{"x":"/w=="},"cut":true,"unterminated":true}"#,
            "\n",
        );
        let found = rows(ndjson);
        let [first, second] = &found[..] else { panic!("{} rows", found.len()) };
        assert_eq!(first.get_string(0).unwrap(), "01M8AS9GBVYSHY93FBPW000000");
        assert_eq!(first.get_timestamp_micros(1).unwrap(), 1_795_658_400_123_456);
        assert_eq!(map(first, 2), pairs(&[("a", "1"), ("b", "2")]));
        assert_eq!((map(first, 3), map(first, 4)), (pairs(&[("level", "error")]), pairs(&[])));
        assert_eq!(first.get_string(5).unwrap(), "a\nb");
        assert!(first.get_bytes(6).is_err() && !first.get_bool(7).unwrap() && !first.get_bool(8).unwrap());
        assert_eq!(second.get_timestamp_micros(1).unwrap(), 1);
        assert_eq!((map(second, 2), map(second, 3)), (pairs(&[]), pairs(&[("y", "1")])));
        assert_eq!(map(second, 4), pairs(&[("x", "[255]")]));
        assert_eq!(second.get_bytes(6).unwrap().data(), b"\xff\0a");
        assert!(second.get_string(5).is_err() && second.get_bool(7).unwrap() && second.get_bool(8).unwrap());
        assert!(rows("").is_empty());
    }

    #[test]
    fn records_that_cannot_be_read_are_an_error() {
        for bad in ["{\n", "{}\n", r#"{"id":"x","time":"yesterday","labels":{},"line":"a"}"#] {
            assert!(write(bad.as_bytes(), Vec::new(), |_| ()).is_err(), "{bad}");
        }
    }
}
