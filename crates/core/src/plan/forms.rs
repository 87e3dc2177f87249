//! How plan values are written where serde's derived forms would be hard to read or to get right.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::{Deserialize, Deserializer, de};

use super::workload::{BlockSize, BlockSizePart, SizeRange};
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
        struct Shares;
        impl<'de> de::Visitor<'de> for Shares {
            type Value = Vec<MixPart>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of weights, like { read = 70, write = 30 }")
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Vec<MixPart>, A::Error> {
                shares(map)
            }
        }
        d.deserialize_map(Shares)
    }

    /// Reads the entries of a table of weights.
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
        d.deserialize_any(BlockSizes)
    }
}

/// Reads a block size by the shape of what is written, so that errors name the real mistake.
struct BlockSizes;

impl<'de> de::Visitor<'de> for BlockSizes {
    type Value = BlockSize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a size like \"4KiB\", a list of { size, weight }, or a range { min, max, step }",
        )
    }
    fn visit_str<E: de::Error>(self, s: &str) -> Result<BlockSize, E> {
        s.parse().map(BlockSize::Fixed).map_err(E::custom)
    }
    fn visit_i64<E: de::Error>(self, n: i64) -> Result<BlockSize, E> {
        number(n)
    }
    fn visit_u64<E: de::Error>(self, n: u64) -> Result<BlockSize, E> {
        number(n)
    }
    fn visit_f64<E: de::Error>(self, n: f64) -> Result<BlockSize, E> {
        number(n)
    }
    fn visit_seq<A: de::SeqAccess<'de>>(self, seq: A) -> Result<BlockSize, A::Error> {
        Vec::<BlockSizePart>::deserialize(SeqAccessDeserializer::new(seq)).map(BlockSize::Split)
    }
    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<BlockSize, A::Error> {
        SizeRange::deserialize(MapAccessDeserializer::new(map)).map(BlockSize::Range)
    }
}

/// A bare number: `ByteSize` owns the words for it.
fn number<T: fmt::Display, E: de::Error>(n: T) -> Result<BlockSize, E> {
    Err(E::custom(ByteSize::unitless(n)))
}
