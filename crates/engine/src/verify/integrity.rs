//! Values that follow from key and field alone: YCSB's `dataintegrity`. Fields are byte for byte as YCSB
//! makes them, so that either tool can check what the other one loaded: `key:field`, then again and again
//! a colon and Java's hash of everything so far, colon included, cut at the length of the field.
//!
//! A lost or stale write goes unseen, for every write of a field carries the same bytes; `[verify]` finds
//! those. Nothing is allocated per operation. `worker::keyed` and `preload` call through [`Integrity`].

use taillight_core::keys::{KEY_MAX, KeyFormat};
use taillight_core::{ALL_FIELDS, Op};
use taillight_driver::kv::fields;

/// Digits and sign of an `i32`, and the colon before it.
const STEP_MAX: usize = 12;

/// Writes and checks the values of one workload.
#[derive(Debug)]
pub struct Integrity {
    format: KeyFormat,
    /// Names of the fields, in their order.
    names: Vec<Box<[u8]>>,
    /// Bytes of a field's data.
    size: usize,
    /// What a field should be.
    expected: Box<[u8]>,
    key: Box<[u8; KEY_MAX]>,
}

impl Integrity {
    /// For records with these fields, each of `size` bytes.
    pub fn new(format: KeyFormat, names: Vec<Box<[u8]>>, size: usize) -> Integrity {
        Integrity {
            format,
            names,
            size,
            expected: vec![0; size].into_boxed_slice(),
            key: Box::new([0; KEY_MAX]),
        }
    }

    /// Fills a value, or the one field that `op` writes, whose names and lengths are in `buffer`
    /// already. A value of one piece is the text of its only field.
    #[inline]
    pub fn fill(&mut self, op: &Op, buffer: &mut [u8]) {
        let key = self.format.write(op.key, &mut self.key);
        if let [only] = self.names.as_slice() {
            let size = (op.size as usize).min(buffer.len());
            text(key, only, &mut buffer[..size]);
            return;
        }
        let which = match op.field {
            ALL_FIELDS => 0..self.names.len(),
            one => usize::from(one)..usize::from(one) + 1,
        };
        let mut rest = buffer;
        for name in self.names.get(which).into_iter().flatten() {
            let head = 8 + name.len();
            let Some((entry, after)) = rest.split_at_mut_checked(head + self.size) else {
                return;
            };
            text(key, name, &mut entry[head..]);
            rest = after;
        }
    }

    /// Whether `value`, read at key number `number`, is what was written there: every field there,
    /// every byte as it must be.
    #[inline]
    pub fn holds(&mut self, number: u64, value: &[u8]) -> bool {
        let key = self.format.write(number, &mut self.key);
        if let [only] = self.names.as_slice() {
            text(key, only, &mut self.expected);
            return *value == *self.expected;
        }
        let (mut found, mut end) = (0, 0);
        for field in fields::fields(value) {
            // Stores keep the order; a binding of another tool need not.
            let known = self
                .names
                .get(found)
                .filter(|name| ***name == *field.name)
                .or_else(|| self.names.iter().find(|name| ***name == *field.name));
            let Some(name) = known else {
                return false;
            };
            text(key, name, &mut self.expected);
            if *field.data != *self.expected {
                return false;
            }
            found += 1;
            end = field.end;
        }
        found == self.names.len() && end == value.len()
    }
}

/// Writes the text of a field into `out`, all of it.
pub fn text(key: &[u8], field: &[u8], out: &mut [u8]) {
    let mut sink = Sink { out, at: 0, hash: 0 };
    sink.push(key);
    sink.push(b":");
    sink.push(field);
    let mut step = [0; STEP_MAX];
    while sink.at < sink.out.len() {
        sink.push(b":");
        let digits = decimal(sink.hash, &mut step);
        sink.push(&step[digits..]);
    }
}

/// Bytes so far, with their hash as Java's `String.hashCode` has it.
struct Sink<'a> {
    out: &'a mut [u8],
    at: usize,
    hash: i32,
}

impl Sink<'_> {
    fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = self.hash.wrapping_mul(31).wrapping_add(i32::from(*byte));
            if let Some(place) = self.out.get_mut(self.at) {
                *place = *byte;
            }
            self.at += 1;
        }
    }
}

/// Writes `n` at the end of `out`; returns where it begins.
fn decimal(n: i32, out: &mut [u8; STEP_MAX]) -> usize {
    let (mut rest, mut at) = (n.unsigned_abs(), STEP_MAX);
    loop {
        at -= 1;
        out[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if n < 0 {
        at -= 1;
        out[at] = b'-';
    }
    at
}

#[cfg(test)]
mod tests {
    use taillight_core::OpKind;
    use taillight_core::plan::KeyNaming;

    use super::*;

    /// YCSB's value of key number 0, `field0`, 100 bytes.
    const VECTOR: &str = "user6284781860667377211:field0:-56807877:2032869390:-165488160:\
                          1762371712:-169193395:-1039977118:-10";

    fn integrity(fields: usize, size: usize) -> Integrity {
        let format = KeyFormat::decimal(KeyNaming::Hashed, "user", 1).unwrap();
        let names = (0..fields).map(|n| format!("field{n}").into_bytes().into_boxed_slice());
        Integrity::new(format, names.collect(), size)
    }

    /// A whole value with names and lengths.
    fn value(fields: usize, size: usize, op: &Op) -> Vec<u8> {
        let mut buffer = vec![0; fields * (8 + 6 + size)];
        let mut at = 0;
        for n in 0..fields {
            at += fields::write(&mut buffer[at..], format!("field{n}").as_bytes(), size).unwrap();
        }
        integrity(fields, size).fill(op, &mut buffer);
        buffer
    }

    #[test]
    fn the_text_is_ycsb_s() {
        let mut out = [0; 100];
        text(b"user6284781860667377211", b"field0", &mut out);
        assert_eq!(std::str::from_utf8(&out).unwrap(), VECTOR);
        for cut in [0, 1, 23, 30, 31, 99] {
            let mut out = vec![0; cut];
            text(b"user6284781860667377211", b"field0", &mut out);
            assert_eq!(out, VECTOR.as_bytes()[..cut], "a shorter field is cut");
        }
    }

    #[test]
    fn numbers_are_java_s() {
        for n in [0, 7, -7, 10, i32::MAX, i32::MIN] {
            let mut out = [0; STEP_MAX];
            let at = decimal(n, &mut out);
            assert_eq!(std::str::from_utf8(&out[at..]).unwrap(), n.to_string());
        }
    }

    #[test]
    fn every_field_of_a_value_is_checked() {
        let op = Op::keyed(OpKind::Insert, 0, 3 * 114);
        let whole = value(3, 100, &op);
        let first = fields::fields(&whole).next().unwrap();
        assert_eq!(first.data, VECTOR.as_bytes());
        let mut integrity = integrity(3, 100);
        assert!(integrity.holds(0, &whole));
        assert!(!integrity.holds(1, &whole), "another key's value");
        assert!(!integrity.holds(0, &whole[..whole.len() - 1]), "cut short");
        assert!(!integrity.holds(0, &whole[..228]), "a field is missing");
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert!(!integrity.holds(0, &damaged), "byte {at}");
        }
    }

    #[test]
    fn one_field_is_written_alone() {
        let mut entry = vec![0; 8 + 6 + 40];
        fields::write(&mut entry, b"field2", 40).unwrap();
        let op = Op { field: 2, ..Op::keyed(OpKind::Update, 7, 54) };
        integrity(3, 40).fill(&op, &mut entry);
        assert_eq!(entry[14..], *b"user5465015992139406178:field2:348052528"[..].to_vec());
    }

    #[test]
    fn a_value_of_one_piece_is_its_text() {
        let mut buffer = [0; 120];
        let mut one = integrity(1, 100);
        one.fill(&Op::keyed(OpKind::Insert, 0, 100), &mut buffer);
        assert_eq!(&buffer[..100], VECTOR.as_bytes());
        assert_eq!(buffer[100..], [0; 20]);
        assert!(one.holds(0, &buffer[..100]));
        assert!(!one.holds(0, &buffer[..99]));
    }
}
