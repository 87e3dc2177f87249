//! How mixes, block sizes and payloads are read and written, in job files and plans, where serde's derived forms would
//! be hard to read or to get right.

use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer, StrDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::absent;
use super::data::{Payload, PayloadKind};
use super::workload::{BlockSize, BlockSizePart, SizeRange, SizeSpread};
use crate::op::OpKind;
use crate::units::ByteSize;

/// A mix is written as a table of weights: `{ read = 70, write = 30 }`.
pub mod mix {
    use std::fmt;

    use serde::ser::SerializeMap;
    use serde::{Deserializer, Serializer, de};

    use crate::op::OpKind;
    use crate::plan::MixPart;

    /// Writes operation = weight, in the order of the list.
    pub fn serialize<S: Serializer>(parts: &[MixPart], s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(Some(parts.len()))?;
        for part in parts {
            map.serialize_entry(&part.op, &part.weight)?;
        }
        map.end()
    }

    /// Reads operation = weight.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<MixPart>, D::Error> {
        struct MixVisitor;
        impl<'de> de::Visitor<'de> for MixVisitor {
            type Value = Vec<MixPart>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of weights, like { read = 70, write = 30 }")
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Vec<MixPart>, A::Error> {
                shares(map)
            }
        }
        d.deserialize_map(MixVisitor)
    }

    /// Reads the entries of a table of weights, into the order of `OpKind`.
    pub(crate) fn shares<'de, A: de::MapAccess<'de>>(mut map: A) -> Result<Vec<MixPart>, A::Error> {
        let mut parts: Vec<MixPart> = Vec::new();
        while let Some(op) = map.next_key::<OpKind>()? {
            let weight = map.next_value()?;
            parts.push(MixPart { op, weight });
        }
        parts.sort_by_key(|p| p.op);
        Ok(parts)
    }
}

impl<'de> Deserialize<'de> for BlockSize {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let no_file = |_| de::Error::custom("a plan holds sizes, not the file they came from");
        d.deserialize_any(BlockSizeVisitor)?.map_err(no_file)
    }
}

impl BlockSize {
    /// Sizes, or the name of the file that has them (`Err`): as job files may say.
    pub(crate) fn or_file<'de, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Result<BlockSize, String>, D::Error> {
        d.deserialize_any(BlockSizeVisitor)
    }
}

/// What a table of sizes may hold: a range, a file, or the sizes of each operation.
#[derive(Default)]
struct SizeTable {
    file: Option<String>,
    min: Option<ByteSize>,
    max: Option<ByteSize>,
    step: Option<ByteSize>,
    spread: Option<SizeSpread>,
    of: BTreeMap<OpKind, BlockSize>,
}

const SIZE_KEYS: &[&str] = &["min", "max", "step", "spread", "file", "read", "write", "trim"];

impl SizeTable {
    fn read<'de, A: de::MapAccess<'de>>(mut map: A) -> Result<SizeTable, A::Error> {
        let mut table = SizeTable::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "file" => table.file = Some(map.next_value()?),
                "min" => table.min = Some(map.next_value()?),
                "max" => table.max = Some(map.next_value()?),
                "step" => table.step = Some(map.next_value()?),
                "spread" => table.spread = Some(map.next_value()?),
                op => {
                    let op = OpKind::deserialize(StrDeserializer::<A::Error>::new(op))
                        .map_err(|_| de::Error::unknown_field(op, SIZE_KEYS))?;
                    table.of.insert(op, map.next_value()?);
                }
            }
        }
        Ok(table)
    }
}

/// Reads a block size by the shape of what is written, so that errors name the real mistake.
struct BlockSizeVisitor;

impl<'de> de::Visitor<'de> for BlockSizeVisitor {
    type Value = Result<BlockSize, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a size like \"4KiB\", a list of { size, weight }, a range { min, max, step }, { file }, or { read, write } with sizes of each",
        )
    }
    fn visit_str<E: de::Error>(self, s: &str) -> Result<Self::Value, E> {
        s.parse().map(|s| Ok(BlockSize::Fixed(s))).map_err(E::custom)
    }
    fn visit_i64<E: de::Error>(self, n: i64) -> Result<Self::Value, E> {
        number(n)
    }
    fn visit_u64<E: de::Error>(self, n: u64) -> Result<Self::Value, E> {
        number(n)
    }
    fn visit_f64<E: de::Error>(self, n: f64) -> Result<Self::Value, E> {
        number(n)
    }
    fn visit_seq<A: de::SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        let parts = Vec::<BlockSizePart>::deserialize(SeqAccessDeserializer::new(seq))?;
        Ok(Ok(BlockSize::Split(parts)))
    }
    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let t = SizeTable::read(map)?;
        if !t.of.is_empty() {
            return match (t.file, t.min, t.max, t.step, t.spread) {
                (None, None, None, None, None) => Ok(Ok(BlockSize::ByOp(t.of))),
                _ => Err(de::Error::custom("sizes of each operation stand alone: { read, write }")),
            };
        }
        match (t.file, t.min, t.max, t.step) {
            (Some(file), None, None, None) if t.spread.is_none() => Ok(Err(file)),
            (None, Some(min), Some(max), Some(step)) => Ok(Ok(BlockSize::Range(SizeRange {
                min,
                max,
                step,
                spread: t.spread.unwrap_or_default(),
            }))),
            (Some(_), ..) => {
                Err(de::Error::custom("a file of sizes has no min, max, step or spread"))
            }
            (None, None, ..) => Err(de::Error::missing_field("min")),
            (None, _, None, _) => Err(de::Error::missing_field("max")),
            (None, _, _, None) => Err(de::Error::missing_field("step")),
        }
    }
}

/// The error for a bare number, in the words of `ByteSize`.
fn number<T: fmt::Display, E: de::Error>(n: T) -> Result<Result<BlockSize, String>, E> {
    Err(E::custom(ByteSize::unitless(&n)))
}

/// A payload as a table.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PayloadTable {
    /// The bytes. Default: random.
    #[serde(default)]
    kind: PayloadKind,
    /// Percent of each block that compresses away, 0 to 100. Default: 0.
    #[serde(default, skip_serializing_if = "absent::is_zero")]
    compressible: u32,
    /// Percent of blocks that repeat an earlier block, 0 to 100. Default: 0.
    #[serde(default, skip_serializing_if = "absent::is_zero")]
    duplicate: u32,
    /// For `pattern`: the text that repeats, or bytes as 0x and hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pattern: Option<String>,
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if *self == Payload::from(self.kind) {
            return self.kind.serialize(s);
        }
        PayloadTable {
            kind: self.kind,
            compressible: self.compressible,
            duplicate: self.duplicate,
            pattern: self.pattern.clone(),
        }
        .serialize(s)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct PayloadVisitor;
        impl<'de> de::Visitor<'de> for PayloadVisitor {
            type Value = Payload;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a kind like \"random\", or a table like { kind = \"random\", compressible = 50 }",
                )
            }
            fn visit_str<E: de::Error>(self, s: &str) -> Result<Payload, E> {
                PayloadKind::deserialize(StrDeserializer::<E>::new(s)).map(Payload::from)
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Payload, A::Error> {
                let t = PayloadTable::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Payload {
                    kind: t.kind,
                    compressible: t.compressible,
                    duplicate: t.duplicate,
                    pattern: t.pattern,
                })
            }
        }
        d.deserialize_any(PayloadVisitor)
    }
}

impl JsonSchema for Payload {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Payload".into()
    }
    fn json_schema(g: &mut SchemaGenerator) -> Schema {
        let word = g.subschema_for::<PayloadKind>();
        let table = g.subschema_for::<PayloadTable>();
        json_schema!({ "anyOf": [word, table] })
    }
}
