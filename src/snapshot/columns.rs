//! Helpers to build and read Arrow columns by name. The order and the types of the columns are documented in `docs/snapshots.md`.

use std::sync::Arc;

use arrow_array::builder::{LargeStringBuilder, ListBuilder, PrimitiveBuilder};
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{Array, ArrayRef, LargeStringArray, ListArray, RecordBatch, TimestampMicrosecondArray};
use arrow_schema::{Field, Schema};

use super::error::Unreadable;
use crate::core::time::Timestamp;

/// `Columns` builds the columns of one table.
#[derive(Default)]
pub(super) struct Columns {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl Columns {
    /// Adds a column without nulls.
    pub(super) fn with(self, name: &str, array: impl Array + 'static) -> Self {
        debug_assert_eq!(array.null_count(), 0, "{name}");
        self.push(name, array, false)
    }

    /// Adds a column that may contain nulls.
    pub(super) fn with_optional(self, name: &str, array: impl Array + 'static) -> Self {
        self.push(name, array, true)
    }

    fn push(mut self, name: &str, array: impl Array + 'static, nullable: bool) -> Self {
        self.fields.push(Field::new(name, array.data_type().clone(), nullable));
        self.arrays.push(Arc::new(array));
        self
    }

    pub(super) fn batch(self) -> RecordBatch {
        let schema = Arc::new(Schema::new(self.fields));
        RecordBatch::try_new(schema, self.arrays).expect("the columns of a table are equally long and typed by themselves")
    }
}

pub(super) fn texts<T: AsRef<str>>(values: impl Iterator<Item = T>) -> LargeStringArray {
    LargeStringArray::from_iter_values(values)
}

pub(super) fn optional_texts<T: AsRef<str>>(values: impl Iterator<Item = Option<T>>) -> LargeStringArray {
    values.collect()
}

pub(super) fn times(values: impl Iterator<Item = Timestamp>) -> TimestampMicrosecondArray {
    TimestampMicrosecondArray::from_iter_values(values.map(Timestamp::micros)).with_timezone("UTC")
}

pub(super) fn optional_times(values: impl Iterator<Item = Option<Timestamp>>) -> TimestampMicrosecondArray {
    let micros: TimestampMicrosecondArray = values.map(|value| value.map(Timestamp::micros)).collect();
    micros.with_timezone("UTC")
}

/// Builder of a column with one list of texts per row.
pub(super) struct TextLists(ListBuilder<LargeStringBuilder>);

impl Default for TextLists {
    fn default() -> Self {
        let item = Field::new_list_field(arrow_schema::DataType::LargeUtf8, false);
        Self(ListBuilder::new(LargeStringBuilder::new()).with_field(item))
    }
}

impl TextLists {
    pub(super) fn append<T: AsRef<str>>(&mut self, row: impl IntoIterator<Item = T>) {
        for value in row {
            self.0.values().append_value(value);
        }
        self.0.append(true);
    }

    pub(super) fn finish(mut self) -> ListArray {
        self.0.finish()
    }
}

pub(super) fn text_lists<T: AsRef<str>>(rows: impl Iterator<Item = impl IntoIterator<Item = T>>) -> ListArray {
    let mut lists = TextLists::default();
    for row in rows {
        lists.append(row);
    }
    lists.finish()
}

/// A column with one list of numbers per row.
pub(super) fn number_lists<N: ArrowPrimitiveType>(
    rows: impl Iterator<Item = impl IntoIterator<Item = N::Native>>,
) -> ListArray {
    let item = Field::new_list_field(N::DATA_TYPE, false);
    let mut lists = ListBuilder::new(PrimitiveBuilder::<N>::new()).with_field(item);
    for row in rows {
        for value in row {
            lists.values().append_value(value);
        }
        lists.append(true);
    }
    lists.finish()
}

/// The rows of one table, as read from its file.
pub(super) struct TableRows {
    table: &'static str,
    batch: RecordBatch,
}

impl TableRows {
    pub(super) fn new(table: &'static str, batch: RecordBatch) -> Self {
        Self { table, batch }
    }

    pub(super) fn len(&self) -> usize {
        self.batch.num_rows()
    }

    /// A column by name; an error if it is missing or has another type than this program writes.
    pub(super) fn column<A: Array + 'static>(&self, name: &'static str) -> Result<&A, Unreadable> {
        let array = self.batch.column_by_name(name).ok_or_else(|| self.unreadable(name, "is missing"))?;
        array.as_any().downcast_ref().ok_or_else(|| self.unreadable(name, format!("has the type {}", array.data_type())))
    }

    pub(super) fn unreadable(&self, column: &'static str, problem: impl ToString) -> Unreadable {
        Unreadable { table: self.table, column, problem: problem.to_string() }
    }
}

/// The value of a column in a row; `None` if it is null.
pub(super) fn text_at(column: &LargeStringArray, row: usize) -> Option<&str> {
    column.is_valid(row).then(|| column.value(row))
}

pub(super) fn time_at(column: &TimestampMicrosecondArray, row: usize) -> Option<Timestamp> {
    column.is_valid(row).then(|| Timestamp::from_micros(column.value(row)))
}
