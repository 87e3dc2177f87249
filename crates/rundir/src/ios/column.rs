//! Columns of consecutive rows in memory, as they are on their way into a file or out of it.
//!
//! Most columns of most runs hold one value: values are listed only once they differ. Called by the
//! writer, which adds rows, and by the reader, which fills whole columns.

/// Values of a column without nulls.
#[derive(Debug, Default)]
pub(super) struct DenseColumn<T> {
    first: T,
    values: Vec<T>,
}

impl<T: Copy + PartialEq> DenseColumn<T> {
    /// Adds the value of row `row`, counted from 0.
    #[inline]
    pub fn push(&mut self, row: usize, value: T) {
        if self.values.is_empty() {
            if row == 0 || value == self.first {
                self.first = value;
                return;
            }
            self.values.resize(row, self.first);
        }
        self.values.push(value);
    }

    /// Adds the same value for the rows `from..to`.
    pub fn extend(&mut self, from: usize, to: usize, value: T) {
        if from < to {
            self.push(from, value);
            if !self.values.is_empty() {
                self.values.resize(to, value);
            }
        }
    }

    pub fn clear(&mut self) {
        self.values.clear();
    }

    /// All rows hold this value.
    pub fn set_all(&mut self, value: T) {
        self.first = value;
        self.values.clear();
    }

    /// The list of values, for one of each row.
    pub fn list(&mut self) -> &mut Vec<T> {
        self.values.clear();
        &mut self.values
    }

    /// The value of row `row`.
    #[inline]
    pub fn get(&self, row: usize) -> T {
        if self.values.is_empty() { self.first } else { self.values[row] }
    }

    /// The value of each row, or the one that all have.
    pub fn values(&self) -> Result<&[T], T> {
        if self.values.is_empty() { Err(self.first) } else { Ok(&self.values) }
    }

    /// Hands the values of the rows from `from` on to `set`, where they differ at all.
    #[inline]
    pub fn copy<R>(&self, from: usize, rows: &mut [R], set: impl Fn(&mut R, T)) {
        if let Some(values) = self.values.get(from..from + rows.len()) {
            rows.iter_mut().zip(values).for_each(|(row, value)| set(row, *value));
        }
    }
}

/// Values of an optional column. Levels exist only once nulls and values mix.
#[derive(Debug, Default)]
pub(super) struct OptionalColumn<T> {
    first: Option<T>,
    differ: bool,
    /// One of each row; that of a null says nothing.
    values: Vec<T>,
    /// 0 for a null, else 1.
    levels: Vec<i16>,
}

impl<T: Copy + PartialEq + Default> OptionalColumn<T> {
    /// Adds the value of row `row`, counted from 0.
    #[inline(always)]
    pub fn push(&mut self, row: usize, value: Option<T>) {
        match value {
            value if !self.differ && value == self.first => {}
            Some(value) if self.differ && self.levels.is_empty() => self.values.push(value),
            value => self.push_other(row, value),
        }
    }

    /// The first value, the first that differs, and values among nulls.
    fn push_other(&mut self, row: usize, value: Option<T>) {
        if !self.differ {
            if row == 0 {
                self.first = value;
                return;
            }
            self.differ = true;
            self.values.resize(row, self.first.unwrap_or_default());
        }
        if self.levels.is_empty() && value.is_some() != self.first.is_some() {
            self.levels.resize(row, i16::from(self.first.is_some()));
        }
        if !self.levels.is_empty() {
            self.levels.push(i16::from(value.is_some()));
        }
        self.values.push(value.unwrap_or_default());
    }

    pub fn clear(&mut self) {
        self.differ = false;
        self.values.clear();
        self.levels.clear();
    }

    /// All rows hold this value.
    pub fn set_all(&mut self, value: Option<T>) {
        self.clear();
        self.first = value;
    }

    /// The lists of values and of levels, for one of each row; levels may stay empty.
    pub fn lists(&mut self) -> (&mut Vec<T>, &mut Vec<i16>) {
        self.clear();
        self.differ = true;
        (&mut self.values, &mut self.levels)
    }

    /// The value of row `row`.
    #[inline]
    pub fn get(&self, row: usize) -> Option<T> {
        if !self.differ {
            return self.first;
        }
        (self.levels.is_empty() || self.levels[row] != 0).then(|| self.values[row])
    }

    /// What every row holds, where all hold the same.
    pub fn constant(&self) -> Option<Option<T>> {
        (!self.differ).then_some(self.first)
    }

    /// The values that are not null, and the levels where there are nulls.
    pub fn present(&self) -> (std::borrow::Cow<'_, [T]>, &[i16]) {
        if self.levels.is_empty() {
            return ((&self.values).into(), &[]);
        }
        let all = self.values.iter().zip(&self.levels);
        let there: Vec<T> = all.filter(|(_, level)| **level != 0).map(|(v, _)| *v).collect();
        (there.into(), &self.levels)
    }

    /// Hands the values of the rows from `from` on to `set`, where they differ at all.
    #[inline]
    pub fn copy<R>(&self, from: usize, rows: &mut [R], set: impl Fn(&mut R, Option<T>)) {
        if !self.levels.is_empty() {
            rows.iter_mut().zip(from..).for_each(|(row, i)| set(row, self.get(i)));
        } else if let Some(values) = self.values.get(from..from + rows.len()) {
            rows.iter_mut().zip(values).for_each(|(row, value)| set(row, Some(*value)));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_row_comes_back(
            values in prop::collection::vec(prop::option::of(0i64..3), 1..40),
            from in 0usize..40,
        ) {
            let (mut dense, mut optional) = (DenseColumn::default(), OptionalColumn::default());
            for (row, value) in values.iter().enumerate() {
                dense.push(row, value.unwrap_or(9));
                optional.push(row, *value);
            }
            for (row, value) in values.iter().enumerate() {
                prop_assert_eq!(dense.get(row), value.unwrap_or(9));
                prop_assert_eq!(optional.get(row), *value);
            }
            let from = from.min(values.len() - 1);
            let mut rows = vec![(dense.get(0), optional.get(0)); values.len() - from];
            dense.copy(from, &mut rows, |row, value| row.0 = value);
            optional.copy(from, &mut rows, |row, value| row.1 = value);
            let wanted = values[from..].iter().map(|v| (v.unwrap_or(9), *v));
            prop_assert_eq!(rows, wanted.collect::<Vec<_>>());
            let (present, levels) = optional.present();
            if optional.constant().is_none() {
                prop_assert_eq!(present.to_vec(), values.iter().flatten().copied().collect::<Vec<_>>());
                let nulls = levels.iter().filter(|level| **level == 0).count();
                prop_assert_eq!(nulls, values.iter().filter(|v| v.is_none()).count());
            }
        }
    }

    #[test]
    fn a_stretch_of_rows_is_as_its_rows() {
        let mut column = DenseColumn::default();
        column.extend(0, 3, 7);
        column.extend(3, 3, 8);
        assert_eq!(column.values(), Err(7));
        column.extend(3, 5, 8);
        column.extend(5, 6, 7);
        assert_eq!(column.values(), Ok(&[7, 7, 7, 8, 8, 7][..]));
    }
}
