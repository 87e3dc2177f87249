//! What is stored: payload, keys, values, scans, verification.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::keys::{KeyFormat, KeyNaming};
use crate::op::OpKind;
use crate::units::ByteSize;

/// What writes carry; written as one word where the kind says all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Payload {
    /// The bytes.
    pub kind: PayloadKind,
    /// Percent of each block that compresses away, 0 to 100. Default: 0.
    pub compressible: u32,
    /// Percent of blocks that repeat an earlier block, 0 to 100. Default: 0.
    pub duplicate: u32,
    /// For `pattern`: the text that repeats, or bytes as 0x hexadecimal digits.
    pub pattern: Option<String>,
}

/// Kinds of payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PayloadKind {
    /// Random bytes; no two writes are equal, unless `duplicate` asks for it.
    #[default]
    Random,
    /// Zeros.
    Zero,
    /// A pattern that repeats.
    Pattern,
    /// Printable text as YCSB writes it (it compresses to about 0.79).
    Text,
}

impl From<PayloadKind> for Payload {
    fn from(kind: PayloadKind) -> Payload {
        Payload { kind, ..Payload::default() }
    }
}

/// The key space of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Keys {
    /// Records that exist when the measure phase begins; missing ones are loaded before. Inserts
    /// come after them.
    pub count: u64,
    /// First key number.
    pub start: u64,
    /// How a key number becomes a key.
    pub naming: KeyNaming,
    /// What stands in front of the number; not for `binary`.
    pub prefix: String,
    /// Decimal digits at least, padded with zeros; not for `binary`.
    pub digits: u32,
    /// Length of a `binary` key, at least 8 B.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<ByteSize>,
}

impl Keys {
    /// How key numbers are written. Errors: `Usage` when the keys would be too long or too short.
    pub fn format(&self) -> crate::Result<KeyFormat> {
        match self.naming {
            KeyNaming::Binary => {
                let size = self.size.map_or(16, |s| s.0);
                KeyFormat::binary(u32::try_from(size).unwrap_or(u32::MAX))
            }
            naming => KeyFormat::decimal(naming, &self.prefix, self.digits),
        }
    }
}

impl Default for Keys {
    fn default() -> Keys {
        Keys {
            count: 100_000,
            start: 0,
            naming: KeyNaming::Hashed,
            prefix: "user".into(),
            digits: 1,
            size: None,
        }
    }
}

/// Fields of a value. Each field has `block_size` bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Values {
    /// Fields in a record; 1 = the value is one piece without field names.
    pub fields: u32,
    /// What stands in front of the field number.
    pub prefix: String,
    /// Reads ask for all fields, or for one drawn at random.
    pub read_all: bool,
    /// Updates write all fields, or one drawn at random.
    pub write_all: bool,
    /// Values are computed from key and field and checked on every read, as YCSB's dataintegrity.
    pub integrity: bool,
}

impl Values {
    /// Bytes that stored field number `field` takes with `size` bytes of data: two lengths of 4 bytes, name, data.
    /// A value of one field is its data alone.
    #[inline]
    pub fn field_bytes(&self, field: u16, size: u64) -> u64 {
        if self.fields == 1 {
            return size;
        }
        8 + self.prefix.len() as u64 + digits(field) + size
    }
    /// Bytes a whole stored value takes when each field has `size` bytes.
    pub fn value_bytes(&self, size: u64) -> u64 {
        (0..self.fields as u16).map(|field| self.field_bytes(field, size)).sum()
    }
    /// Mean bytes that an operation moves of a value of several fields with `size` bytes of data each; of a scan, those
    /// of one record.
    pub fn mean_bytes(&self, op: OpKind, size: f64) -> f64 {
        let whole = self.value_bytes(0) as f64 + f64::from(self.fields) * size;
        let part = |all: bool| if all { whole } else { whole / f64::from(self.fields) };
        match op.as_record() {
            OpKind::Get | OpKind::Scan => part(self.read_all),
            OpKind::Update => part(self.write_all),
            OpKind::Rmw => whole + part(self.write_all),
            _ => whole,
        }
    }
    /// The different stored sizes of fields with `size` bytes of data, rising: names differ by their digits.
    pub fn field_sizes(&self, size: u64) -> Vec<u64> {
        let mut sizes: Vec<u64> =
            (0..self.fields as u16).map(|field| self.field_bytes(field, size)).collect();
        sizes.dedup();
        sizes
    }
}

/// Digits of a decimal number.
#[inline]
fn digits(number: u16) -> u64 {
    u64::from(number.max(1).ilog10()) + 1
}

impl Default for Values {
    fn default() -> Values {
        Values {
            fields: 1,
            prefix: "field".into(),
            read_all: true,
            write_all: true,
            integrity: false,
        }
    }
}

/// Scans: how many records, which way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Scan {
    /// Fewest records.
    pub min: u32,
    /// Most records.
    pub max: u32,
    /// How lengths spread between them.
    pub spread: ScanSpread,
    /// Descending key order.
    pub reverse: bool,
}

impl Default for Scan {
    fn default() -> Scan {
        Scan { min: 1, max: 100, spread: ScanSpread::Uniform, reverse: false }
    }
}

/// How scan lengths spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScanSpread {
    /// Every length alike.
    Uniform,
    /// YCSB's zipfian: short scans are the most frequent.
    Zipfian,
}

/// `[verify]`: whether reads are checked against what was written.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VerifyPlan {
    /// When blocks are checked.
    #[serde(default)]
    pub mode: VerifyMode,
    /// An earlier run whose blocks must be found where this run has written nothing: its run
    /// directory, which also says which writes were the last, or only its `run_id` in
    /// `manifest.json`; then every block of the extent must be of that run, and an older one of it
    /// passes. Default: what this run did not write is not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

impl VerifyPlan {
    /// Whether nothing is checked.
    pub fn is_off(&self) -> bool {
        self.mode == VerifyMode::Off
    }
}

/// When blocks or values are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VerifyMode {
    /// Never.
    #[default]
    Off,
    /// Every read, during the run.
    Inline,
    /// In a pass over everything written, after the run.
    After,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_value_are_those_of_its_fields_and_their_names() {
        let values = Values { fields: 12, write_all: false, ..Values::default() };
        // Two lengths, `field7`, and `field11`.
        assert_eq!([7, 11].map(|n| values.field_bytes(n, 100)), [114, 115]);
        assert_eq!(values.value_bytes(100), 10 * 114 + 2 * 115);
        assert_eq!(values.field_sizes(100), [114, 115]);
        let whole = values.value_bytes(100) as f64;
        assert_eq!(values.mean_bytes(OpKind::Insert, 100.0), whole);
        assert_eq!(values.mean_bytes(OpKind::Get, 100.0), whole);
        assert_eq!(values.mean_bytes(OpKind::Update, 100.0), whole / 12.0);
        assert_eq!(values.mean_bytes(OpKind::Rmw, 100.0), whole + whole / 12.0);
    }
}
