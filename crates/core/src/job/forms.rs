//! Fields of a job file that may be written in a short and a full form: `mix`, `access` and `arrival` as one word or
//! a table, `block_size` as sizes or as a table that names a file of sizes and their counts.
//!
//! The forms in which a plan is written are read here, too: a plan is itself a valid job file.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::StrDeserializer;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::op::OpKind;
use crate::plan::{Access, AccessKind, BlockSize, MixPart, RateStep};
use crate::units::{ByteSize, Rate, Span};

/// `mix = "read"` or `mix = { read = 70, write = 30 }`: weights, which need not add up to 100.
#[derive(Debug, Clone, PartialEq)]
pub struct MixForm(pub Vec<MixPart>);

/// Sizes in the job itself, or `block_size = { file = "sizes.csv" }`.
#[derive(Debug, Clone, PartialEq)]
pub enum BlockSizeForm {
    /// Sizes, written as in a plan.
    Sizes(BlockSize),
    /// Path of a block-size file: lines `size,count`, or YCSB's form; the counts weigh the sizes.
    File(String),
}

impl<'de> Deserialize<'de> for BlockSizeForm {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        BlockSize::or_file(d).map(|form| match form {
            Ok(sizes) => BlockSizeForm::Sizes(sizes),
            Err(file) => BlockSizeForm::File(file),
        })
    }
}

impl Serialize for BlockSizeForm {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            BlockSizeForm::Sizes(sizes) => sizes.serialize(s),
            BlockSizeForm::File(file) => SizeFile { file: file.clone() }.serialize(s),
        }
    }
}

/// A block-size file.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct SizeFile {
    /// Path of a text file with lines `size,count`, or in YCSB's form.
    file: String,
}

/// `access = "random"` or `access = { kind = "random", align = "512B" }`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct AccessForm(pub Access);

/// Kinds of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ArrivalKind {
    /// Closed loop: the next operation starts when a slot is free.
    Burst,
    /// Open loop: evenly spaced intended times.
    Constant,
    /// Open loop: random gaps with a mean rate, as independent users make them.
    Poisson,
    /// Open loop: evenly spaced for a while, then nothing for a while, and again.
    Bursts,
    /// Open loop: one rate after another.
    Steps,
    /// Open loop: a rate that moves evenly to another.
    Ramp,
    /// Open loop: times read from a file.
    Replay,
}

/// `arrival = "burst"` or `arrival = { kind = "constant", rate = "1000/s" }`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "\"burst\", or a table like { kind = \"constant\", rate = \"1000/s\" }"
)]
pub struct ArrivalTable {
    /// The kind. Default: constant with a rate (poisson where a search varies it), burst without.
    pub kind: Option<ArrivalKind>,
    /// Operations or bytes per time, all workers of the workload together; for `constant`,
    /// `poisson` and `bursts`.
    pub rate: Option<Rate>,
    /// For `bursts`: length of a burst.
    pub on: Option<Span>,
    /// For `bursts`: pause after it.
    pub off: Option<Span>,
    /// For `steps`: rates and how long each lasts; the last one stays.
    pub steps: Option<Vec<RateStep>>,
    /// For `ramp`: the rate at the start.
    pub from: Option<Rate>,
    /// For `ramp`: the rate at the end.
    pub to: Option<Rate>,
    /// For `ramp`: the time between them.
    pub over: Option<Span>,
    /// For `replay`: a block trace (its times alone), or a text file with one time a line, since the
    /// start, ascending, with units.
    pub file: Option<String>,
}

/// An arrival as written; a word is a table that has nothing but its kind.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ArrivalForm(pub ArrivalTable);

impl<'de> Deserialize<'de> for MixForm {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct WordOrShares;
        impl<'de> de::Visitor<'de> for WordOrShares {
            type Value = MixForm;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "the name of an operation like \"read\", or a table of operations and their \
                     weights like { read = 70, write = 30 }",
                )
            }
            fn visit_str<E: de::Error>(self, word: &str) -> Result<MixForm, E> {
                OpKind::deserialize(StrDeserializer::<E>::new(word)).map(MixForm::from)
            }
            fn visit_map<A: de::MapAccess<'de>>(self, shares: A) -> Result<MixForm, A::Error> {
                crate::plan::mix_shares(shares).map(MixForm)
            }
        }
        d.deserialize_any(WordOrShares)
    }
}

impl Serialize for MixForm {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [MixPart { op, weight: 1 }] => op.serialize(s),
            parts => crate::plan::mix_serialize(parts, s),
        }
    }
}

impl Serialize for AccessForm {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if self.0 == Access::from(self.0.kind) {
            return self.0.kind.serialize(s);
        }
        let table = |access: &Access| toml::Table::try_from(access).map_err(S::Error::custom);
        let (mut written, defaults) = (table(&self.0)?, table(&Access::default())?);
        written.retain(|name, value| name == "kind" || defaults.get(name) != Some(value));
        written.serialize(s)
    }
}

impl Serialize for ArrivalForm {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let word = |kind| ArrivalForm::from(kind) == *self;
        match self.0.kind.filter(|kind| word(*kind)) {
            Some(kind) => kind.serialize(s),
            None => self.0.serialize(s),
        }
    }
}

impl From<OpKind> for MixForm {
    fn from(op: OpKind) -> MixForm {
        MixForm(vec![MixPart { op, weight: 1 }])
    }
}

impl From<AccessKind> for AccessForm {
    fn from(kind: AccessKind) -> AccessForm {
        AccessForm(kind.into())
    }
}

impl From<ArrivalKind> for ArrivalForm {
    fn from(kind: ArrivalKind) -> ArrivalForm {
        ArrivalForm(ArrivalTable { kind: Some(kind), ..ArrivalTable::default() })
    }
}

impl From<ByteSize> for BlockSizeForm {
    fn from(size: ByteSize) -> BlockSizeForm {
        BlockSizeForm::Sizes(BlockSize::Fixed(size))
    }
}

/// Gives a form a JSON schema called `name`: that of its short form (`word`) or that of its full one (`table`).
macro_rules! either_schema {
    ($form:ty, $name:literal, $word:ty, $table:ty) => {
        impl JsonSchema for $form {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }
            fn json_schema(g: &mut SchemaGenerator) -> Schema {
                let (word, table) = (g.subschema_for::<$word>(), g.subschema_for::<$table>());
                json_schema!({ "anyOf": [word, table] })
            }
        }
    };
}

// Written out: parts of operations (`OpKind::is_part`) are no words of a mix.
impl JsonSchema for MixForm {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Mix".into()
    }
    fn json_schema(g: &mut SchemaGenerator) -> Schema {
        let mut word = OpKind::json_schema(g);
        if let Some(words) = word.get_mut("oneOf").and_then(|all| all.as_array_mut()) {
            words.retain(|one| {
                let op = one["const"].as_str().and_then(OpKind::from_name);
                op.is_none_or(|op| !op.is_part())
            });
        }
        let table = g.subschema_for::<std::collections::BTreeMap<OpKind, u32>>();
        json_schema!({ "anyOf": [word, table] })
    }
}
either_schema!(AccessForm, "AccessForm", AccessKind, Access);
either_schema!(ArrivalForm, "Arrival", ArrivalKind, ArrivalTable);
either_schema!(BlockSizeForm, "BlockSizeForm", BlockSize, SizeFile);
