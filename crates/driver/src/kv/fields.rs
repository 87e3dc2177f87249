//! Values of several fields: name and data one after another, each behind its length.
//!
//! The layout is that of YCSB's RocksDB binding: for each field a 4-byte big-endian length, the name, a 4-byte
//! big-endian length, the data. The engine writes values of this layout into the buffers; drivers replace one field of
//! a stored value, or walk over the fields. Only a field that is added, or replaced by one of another length, may
//! allocate.

/// One field of a stored value: name, data, and where the whole entry lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field<'a> {
    pub name: &'a [u8],
    pub data: &'a [u8],
    /// First byte of the entry in the value.
    pub start: usize,
    /// One past its last byte.
    pub end: usize,
}

/// Walks over the fields of a value; ends where the next bytes are no whole field.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    value: &'a [u8],
    at: usize,
}

pub fn fields(value: &[u8]) -> Fields<'_> {
    Fields { value, at: 0 }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;
    fn next(&mut self) -> Option<Field<'a>> {
        let start = self.at;
        let (name, at) = part(self.value, start)?;
        let (data, end) = part(self.value, at)?;
        self.at = end;
        Some(Field { name, data, start, end })
    }
}

/// A length and that many bytes at `at`; also where they end.
fn part(value: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let length = value.get(at..at + 4)?;
    let length = u32::from_be_bytes(length.try_into().ok()?) as usize;
    let end = at.checked_add(4)?.checked_add(length)?;
    Some((value.get(at + 4..end)?, end))
}

/// Writes name and lengths of a field with `data` bytes of data into `out`, leaves the data to the caller, and returns
/// the size of the whole entry; `None` when it does not fit.
pub fn write(out: &mut [u8], name: &[u8], data: usize) -> Option<usize> {
    let end = 8usize.checked_add(name.len())?.checked_add(data)?;
    let out = out.get_mut(..end)?;
    out[..4].copy_from_slice(&u32::try_from(name.len()).ok()?.to_be_bytes());
    out[4..4 + name.len()].copy_from_slice(name);
    let length = u32::try_from(data).ok()?.to_be_bytes();
    out[4 + name.len()..8 + name.len()].copy_from_slice(&length);
    Some(end)
}

/// Replaces the first field in `value` that has the name of the first field in `entry`, or appends that one.
/// False, and nothing is changed, when `entry` does not begin with a whole field.
pub fn replace(value: &mut Vec<u8>, entry: &[u8]) -> bool {
    let Some(new) = fields(entry).next() else {
        return false;
    };
    let place = fields(value).find(|f| f.name == new.name).map(|f| (f.start, f.end));
    match place {
        Some((start, end)) if end - start == new.end => {
            value[start..end].copy_from_slice(&entry[..new.end]);
        }
        Some((start, end)) => {
            value.splice(start..end, entry[..new.end].iter().copied());
        }
        None => value.extend_from_slice(&entry[..new.end]),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, data: &[u8]) -> Vec<u8> {
        let mut out = vec![0; 8 + name.len() + data.len()];
        let end = write(&mut out, name.as_bytes(), data.len()).unwrap();
        out[end - data.len()..].copy_from_slice(data);
        out
    }

    #[test]
    fn fields_are_found_replaced_and_added() {
        let mut value = [entry("field0", b"aaa"), entry("field1", b"bbb")].concat();
        assert!(replace(&mut value, &entry("field1", b"xyz")));
        assert!(replace(&mut value, &entry("field0", b"longer")));
        assert!(replace(&mut value, &entry("field2", b"")));
        let all: Vec<_> = fields(&value).map(|f| (f.name, f.data)).collect();
        let expected: [(&[u8], &[u8]); 3] =
            [(b"field0", b"longer"), (b"field1", b"xyz"), (b"field2", b"")];
        assert_eq!(all, expected);
    }

    #[test]
    fn what_is_no_field_is_no_field() {
        assert_eq!(fields(b"\0\0\0\x09abc").count(), 0);
        assert_eq!(fields(&[0xFF; 8]).count(), 0);
        assert!(!replace(&mut Vec::new(), b"\0\0"));
        assert_eq!(write(&mut [0; 8], b"x", 0), None);
    }
}
