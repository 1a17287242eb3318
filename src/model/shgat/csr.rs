//! Lists of numbers by row, in one array with offsets (compressed sparse rows), that can be changed row by row.

/// `Csr` holds, for every row, a list of numbers in ascending order without duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Csr {
    /// Where each row starts, and after the last one where it ends.
    offsets: Vec<usize>,
    values: Vec<u32>,
}

impl Default for Csr {
    fn default() -> Self {
        Self { offsets: vec![0], values: Vec::new() }
    }
}

impl Csr {
    /// The number of rows.
    pub const fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The number of values in all rows.
    pub const fn entries(&self) -> usize {
        self.values.len()
    }

    /// The values of a row, ascending.
    pub fn row(&self, row: usize) -> &[u32] {
        &self.values[self.offsets[row]..self.offsets[row + 1]]
    }

    /// Adds a row at the end. `values` MUST be ascending and without duplicates.
    pub(crate) fn push(&mut self, values: &[u32]) {
        debug_assert!(values.is_sorted_by(|a, b| a < b));
        self.values.extend_from_slice(values);
        self.offsets.push(self.values.len());
    }

    /// Gives a row other values, which MUST be ascending and without duplicates. Moves what lies behind the row.
    pub(crate) fn replace(&mut self, row: usize, values: &[u32]) {
        debug_assert!(values.is_sorted_by(|a, b| a < b));
        let (start, end) = (self.offsets[row], self.offsets[row + 1]);
        self.values.splice(start..end, values.iter().copied());
        for offset in &mut self.offsets[row + 1..] {
            *offset = *offset - (end - start) + values.len();
        }
    }

    /// Adds a value to a row, unless it is there.
    pub(crate) fn insert(&mut self, row: usize, value: u32) {
        if let Err(at) = self.row(row).binary_search(&value) {
            self.values.insert(self.offsets[row] + at, value);
            for offset in &mut self.offsets[row + 1..] {
                *offset += 1;
            }
        }
    }

    /// Takes a value out of a row, if it is there.
    pub(crate) fn remove(&mut self, row: usize, value: u32) {
        if let Ok(at) = self.row(row).binary_search(&value) {
            self.values.remove(self.offsets[row] + at);
            for offset in &mut self.offsets[row + 1..] {
                *offset -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_change_without_touching_their_neighbours() {
        let mut lists = Csr::default();
        lists.push(&[1, 4]);
        lists.push(&[]);
        lists.push(&[2]);
        lists.replace(1, &[0, 3, 9]);
        lists.insert(0, 2);
        lists.insert(0, 2);
        lists.remove(2, 2);
        lists.remove(2, 7);
        assert_eq!((lists.row(0), lists.row(1), lists.row(2)), (&[1, 2, 4][..], &[0, 3, 9][..], &[][..]));
        lists.replace(1, &[5]);
        assert_eq!((lists.rows(), lists.entries(), lists.row(1)), (3, 4, &[5][..]));
    }
}
