//! Reads a TOML tree as types, with errors that know their field: a `serde` deserializer over spanned TOML
//! values, for job files and for the options of drivers. Its error type keeps what serde hands over (the unknown
//! name with the known ones, the value with what was expected) and the path to the field, so that no message has
//! to be taken apart again. Errors of TOML syntax are made in `message`; `check` judges what values mean.

use std::fmt;

use serde::de::value::{BorrowedStrDeserializer, MapDeserializer, StrDeserializer};
use serde::de::{self, DeserializeSeed, Expected, Unexpected, Visitor};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::Error;
use crate::suggest::{did_you_mean, nearest};

/// What does not fit the types that are read.
#[derive(Debug)]
enum Mismatch {
    UnknownField {
        given: String,
        known: &'static [&'static str],
    },
    UnknownWord {
        given: String,
        known: &'static [&'static str],
    },
    /// A value of another type, or outside the range of its type.
    Unfit {
        given: String,
        expected: String,
    },
    Missing(&'static str),
    /// The words of a type that reads its value itself.
    Text(String),
}

impl Mismatch {
    /// What is wrong; and a hint with the known names, where a name is unknown.
    fn describe(&self) -> (String, Option<String>) {
        match self {
            Mismatch::UnknownField { given, known } => {
                (format!("unknown field `{given}`"), Some(did_you_mean(given, known)))
            }
            Mismatch::UnknownWord { given, known } => {
                (format!("unknown word `{given}`"), Some(did_you_mean(given, known)))
            }
            Mismatch::Unfit { given, expected } => (format!("{given} is not {expected}"), None),
            Mismatch::Missing(field) => (format!("missing field `{field}`"), None),
            Mismatch::Text(text) => (text.clone(), None),
        }
    }
}

/// A mismatch with its field.
#[derive(Debug)]
pub(crate) struct FieldError {
    mismatch: Box<Mismatch>,
    /// Names on the way from the field up to the root.
    path: Vec<String>,
    /// Where in the text of the job the value or the unknown name begins.
    at: Option<usize>,
}

impl FieldError {
    /// Whether the error is a missing field, which a later flag may still give.
    pub(super) fn is_missing(&self) -> bool {
        matches!(*self.mismatch, Mismatch::Missing(_))
    }

    /// The start of the value or unknown name it is about, in the text of the job.
    pub(super) fn start(&self) -> Option<usize> {
        self.at
    }

    /// In the words of a user's error; `place` is file and line, or the flag.
    pub(super) fn into_error(self, place: Option<String>) -> Error {
        let path: Vec<&str> = self.path.iter().rev().map(String::as_str).collect();
        let path = path.join(".");
        let (what, known) = self.mismatch.describe();
        let what = match (&*self.mismatch, path.as_str()) {
            (Mismatch::UnknownWord { .. }, path) => format!("{what} for `{path}`"),
            (_, "") => what,
            (Mismatch::UnknownField { .. }, path) => format!("{what} in `{path}`"),
            (_, path) => format!("{path}: {what}"),
        };
        Error::usage(what).with_some("at", place).hint_some(known)
    }

    /// In the words of an error about an option of `driver`.
    pub(crate) fn into_option_error(self, driver: &str) -> Error {
        let list = format!("`taillight drivers {driver}` lists every option");
        let (what, known) = self.mismatch.describe();
        match (self.path.last(), &*self.mismatch) {
            (None, Mismatch::UnknownField { given, known: [] }) => {
                Error::usage(format!("driver `{driver}` has no options, so no `{given}`"))
                    .of_field(given)
            }
            (None, Mismatch::UnknownField { given, known }) => {
                let near = nearest(given, known.iter().copied());
                Error::usage(format!("driver `{driver}` has no option `{given}`"))
                    .of_field(given)
                    .hint(near.map_or(list, |near| format!("did you mean `{near}`?")))
            }
            (option, _) => {
                let what = known.map_or(what.clone(), |known| format!("{what}; {known}"));
                let error = match option {
                    Some(option) => {
                        Error::usage(format!("option `{option}` of driver `{driver}`: {what}"))
                            .of_field(option)
                    }
                    None => Error::usage(format!("options of driver `{driver}`: {what}")),
                };
                error.hint(list)
            }
        }
    }

    fn new(mismatch: Mismatch) -> FieldError {
        FieldError { mismatch: Box::new(mismatch), path: Vec::new(), at: None }
    }

    /// This error, of a field below the field or list item `name`.
    fn in_field(mut self, name: String) -> FieldError {
        self.path.push(name);
        self
    }

    /// With the place of the innermost value it came from.
    fn with_start(mut self, at: usize) -> FieldError {
        self.at.get_or_insert(at);
        self
    }

    fn unfit(given: Unexpected<'_>, expected: &dyn Expected) -> FieldError {
        let negative = matches!(given, Unexpected::Signed(n) if n < 0);
        let expected = expected.to_string();
        // The names serde has for types of Rust, in words; everything else is words already.
        let expected = match (expected.as_str(), negative) {
            ("u64" | "u32" | "u16", true) => "a whole number, 0 or above".to_owned(),
            ("u64", _) => "a whole number below 2^64".to_owned(),
            ("u32", _) => format!("a whole number, at most {}", u32::MAX),
            ("u16", _) => format!("a whole number from 0 to {}", u16::MAX),
            ("f64", _) => "a number".to_owned(),
            ("a boolean", _) => "true or false".to_owned(),
            ("a string", _) => "text in quotes".to_owned(),
            ("a sequence", _) => "a list: [..]".to_owned(),
            (other, _) if other.starts_with("struct ") || other == "a map" => {
                "a table: {..}".to_owned()
            }
            _ => expected,
        };
        let given = match given {
            Unexpected::Bool(b) => format!("`{b}`"),
            Unexpected::Signed(n) => format!("`{n}`"),
            Unexpected::Unsigned(n) => format!("`{n}`"),
            Unexpected::Float(x) => format!("`{x}`"),
            Unexpected::Str(s) => format!("`{s}`"),
            Unexpected::Seq => "a list".to_owned(),
            Unexpected::Map => "a table".to_owned(),
            other => other.to_string(),
        };
        FieldError::new(Mismatch::Unfit { given, expected })
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {:?}", self.mismatch, self.path)
    }
}

impl std::error::Error for FieldError {}

impl de::Error for FieldError {
    fn custom<T: fmt::Display>(text: T) -> FieldError {
        FieldError::new(Mismatch::Text(text.to_string()))
    }
    fn invalid_type(given: Unexpected<'_>, expected: &dyn Expected) -> FieldError {
        FieldError::unfit(given, expected)
    }
    fn invalid_value(given: Unexpected<'_>, expected: &dyn Expected) -> FieldError {
        FieldError::unfit(given, expected)
    }
    fn unknown_variant(given: &str, known: &'static [&'static str]) -> FieldError {
        let given = given.to_owned();
        FieldError::new(Mismatch::UnknownWord { given, known })
    }
    fn unknown_field(given: &str, known: &'static [&'static str]) -> FieldError {
        let given = given.to_owned();
        FieldError::new(Mismatch::UnknownField { given, known })
    }
    fn missing_field(field: &'static str) -> FieldError {
        FieldError::new(Mismatch::Missing(field))
    }
}

/// Reads a whole tree as `T`.
pub(crate) fn read<'de, T: de::Deserialize<'de>>(
    root: &'de Spanned<DeTable<'de>>,
) -> Result<T, FieldError> {
    T::deserialize(TableReader(root.get_ref())).map_err(|e| e.with_start(root.span().start))
}

/// A table to read. Fields that a struct does not have are refused here, whatever its serde
/// attributes: plans of the same types in old and newer manifests are read leniently.
struct TableReader<'de>(&'de DeTable<'de>);

impl<'de> de::Deserializer<'de> for TableReader<'de> {
    type Error = FieldError;
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_map(FieldReader { rest: self.0.iter(), value: None })
    }
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        let unknown = self.0.keys().find(|key| !fields.contains(&key.get_ref().as_ref()));
        if let Some(key) = unknown {
            let error: FieldError = de::Error::unknown_field(key.get_ref(), fields);
            return Err(error.with_start(key.span().start));
        }
        self.deserialize_any(visitor)
    }
    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Any value to read.
struct ValueReader<'de>(&'de Spanned<DeValue<'de>>);

impl<'de> de::Deserializer<'de> for ValueReader<'de> {
    type Error = FieldError;
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        let read = match self.0.get_ref() {
            DeValue::String(text) => visitor.visit_str(text),
            DeValue::Integer(n) => integer(n, visitor),
            DeValue::Float(x) => match x.as_str().parse() {
                Ok(x) => visitor.visit_f64(x),
                Err(_) => Err(de::Error::custom(format!("`{x}` is not a number"))),
            },
            DeValue::Boolean(b) => visitor.visit_bool(*b),
            DeValue::Datetime(time) => {
                let given = time.to_string();
                Err(de::Error::invalid_type(Unexpected::Other(&format!("`{given}`")), &visitor))
            }
            DeValue::Array(items) => visitor.visit_seq(ItemReader(items.iter().enumerate())),
            DeValue::Table(table) => TableReader(table).deserialize_any(visitor),
        };
        read.map_err(|e| e.with_start(self.0.span().start))
    }
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_some(self)
    }
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        visitor.visit_newtype_struct(self)
    }
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        let read = match self.0.get_ref() {
            DeValue::Table(table) => TableReader(table).deserialize_struct(name, fields, visitor),
            // A kind without parameters may stand for its table.
            DeValue::String(_) if fields.first() == Some(&"kind") => {
                let kind = std::iter::once(("kind", ValueReader(self.0)));
                visitor.visit_map(MapDeserializer::new(kind))
            }
            DeValue::Array(_) => Err(de::Error::invalid_type(Unexpected::Seq, &visitor)),
            _ => return self.deserialize_any(visitor),
        };
        read.map_err(|e| e.with_start(self.0.span().start))
    }
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        match self.0.get_ref() {
            DeValue::String(word) => StrDeserializer::<FieldError>::new(word)
                .deserialize_enum(name, variants, visitor)
                .map_err(|e| e.with_start(self.0.span().start)),
            _ => self.deserialize_any(visitor),
        }
    }
    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

impl<'de> de::IntoDeserializer<'de, FieldError> for ValueReader<'de> {
    type Deserializer = Self;
    fn into_deserializer(self) -> Self {
        self
    }
}

fn integer<'de, V: Visitor<'de>>(
    n: &toml::de::DeInteger<'_>,
    visitor: V,
) -> Result<V::Value, FieldError> {
    if let Ok(n) = i64::from_str_radix(n.as_str(), n.radix()) {
        return visitor.visit_i64(n);
    }
    match u64::from_str_radix(n.as_str(), n.radix()) {
        Ok(n) => visitor.visit_u64(n),
        Err(_) => Err(de::Error::invalid_value(Unexpected::Other(&format!("`{n}`")), &visitor)),
    }
}

/// The fields of a table in turn.
struct FieldReader<'de, I> {
    rest: I,
    /// The value of the name read last.
    value: Option<(&'de str, &'de Spanned<DeValue<'de>>)>,
}

impl<'de, I> de::MapAccess<'de> for FieldReader<'de, I>
where
    I: Iterator<Item = (&'de Spanned<std::borrow::Cow<'de, str>>, &'de Spanned<DeValue<'de>>)>,
{
    type Error = FieldError;
    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, FieldError> {
        let Some((key, value)) = self.rest.next() else {
            return Ok(None);
        };
        self.value = Some((key.get_ref(), value));
        seed.deserialize(BorrowedStrDeserializer::new(key.get_ref()))
            .map(Some)
            .map_err(|e: FieldError| e.with_start(key.span().start))
    }
    fn next_value_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<S::Value, FieldError> {
        match self.value.take() {
            Some((name, value)) => {
                seed.deserialize(ValueReader(value)).map_err(|e| e.in_field(name.to_owned()))
            }
            None => Err(de::Error::custom("a value was read before its name")),
        }
    }
}

/// The items of a list in turn, with their index.
struct ItemReader<I>(I);

impl<'de, I> de::SeqAccess<'de> for ItemReader<I>
where
    I: Iterator<Item = (usize, &'de Spanned<DeValue<'de>>)>,
{
    type Error = FieldError;
    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, FieldError> {
        let Some((i, item)) = self.0.next() else {
            return Ok(None);
        };
        seed.deserialize(ValueReader(item)).map(Some).map_err(|e| e.in_field(i.to_string()))
    }
}
