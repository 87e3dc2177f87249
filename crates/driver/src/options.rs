//! Options of drivers: read as written, completed with defaults, and described.
//!
//! A driver's options are one struct. Its fields give the names and types, `Default` the
//! defaults, doc comments the docs, [`DriverOptions::check`] what no type says. Where the type does
//! not tell which values are allowed, the field does: `#[schemars(title = "1 to 4096")]`. Callers:
//! the drivers, and through [`Driver::options`](crate::Driver::options) whoever shows what there is.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use taillight_core::plan::rank_name;
use taillight_core::{Error, Result};

/// A struct that holds the options of a driver.
pub trait DriverOptions: Default + Serialize + DeserializeOwned + JsonSchema {
    /// Refuses values that cannot be, or that contradict each other. Errors: `Usage`.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Reads options of `driver` as written. Unknown names are refused, with the nearest known one
    /// where one is near, else with how all are listed. Errors: `Usage` for unknown, mistyped or contradicting options.
    fn parse(driver: &str, written: &toml::Table) -> Result<Self> {
        let options: Self = taillight_core::options::from_table(driver, written)?;
        options.check().map(|()| options)
    }
}

/// Options of a driver that has none.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoOptions {}

impl DriverOptions for NoOptions {}

/// What a driver's options are, without their type.
pub struct OptionSet {
    pub docs: fn() -> Vec<OptionDoc>,
}

impl OptionSet {
    pub fn of<T: DriverOptions>() -> OptionSet {
        OptionSet { docs: docs::<T> }
    }
}

/// One option of a driver, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OptionDoc {
    /// Name under `[target.options]`.
    pub name: String,
    /// Type and allowed values: "bool", "sync | uring".
    pub values: String,
    /// Default, as written in a job file; a text without its quotes. `none` where the option has
    /// none.
    pub default: String,
    pub about: String,
}

/// Options as a table with every default filled in. Errors: `Internal` if the options stop being a
/// table.
pub fn complete<T: Serialize>(options: &T) -> Result<toml::Table> {
    toml::Table::try_from(options)
        .map_err(|e| Error::internal("the options are not a table").source(e))
}

/// Describes the fields of `T`: those with a default in their order, then those without one.
fn docs<T: DriverOptions>() -> Vec<OptionDoc> {
    let schema = schemars::schema_for!(T).to_value();
    let defaults = complete(&T::default()).unwrap_or_default();
    let doc = |(name, default): (String, toml::Value)| {
        let field = &schema["properties"][&name];
        OptionDoc {
            values: values(&schema, field),
            default: match default {
                toml::Value::String(text) => text,
                other => other.to_string(),
            },
            about: one_line(field["description"].as_str().unwrap_or_default()),
            name,
        }
    };
    // What is written only where it is given has no default there.
    let described = schema["properties"].as_object().into_iter().flatten();
    let absent = described.filter(|(name, _)| !defaults.contains_key(*name));
    let absent: Vec<_> = absent.map(|(name, _)| (name.clone(), "none".to_owned().into())).collect();
    defaults.into_iter().chain(absent).map(doc).collect()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Allowed values of a field, in words.
fn values(schema: &Value, field: &Value) -> String {
    if let Some(title) = field["title"].as_str() {
        return title.to_owned();
    }
    if let Some(reference) = field["$ref"].as_str() {
        return match reference.rsplit('/').next().unwrap_or_default() {
            "ByteSize" => "size".to_owned(),
            "Span" => "time".to_owned(),
            name => values(schema, &schema["$defs"][name]),
        };
    }
    let all = |list: &[Value], word: &dyn Fn(&Value) -> String| {
        let words: Vec<String> = list.iter().map(word).collect();
        words.join(" | ")
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let forms = field["oneOf"].as_array().or(field["anyOf"].as_array());
    match (field["const"].as_str(), field["enum"].as_array(), forms) {
        (Some(word), ..) => word.to_owned(),
        (_, Some(words), _) => all(words, &text),
        (.., Some(forms)) => all(forms, &|form| values(schema, form)),
        _ => match field["type"].as_str() {
            Some("boolean") => "bool".to_owned(),
            Some(other) => other.to_owned(),
            None => String::new(),
        },
    }
}

/// A value, or whatever the store (or its own option string) says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected \"default\", or a value with its unit like \"64MiB\"")]
pub enum OrDefault<T> {
    /// Left to the store.
    #[default]
    #[serde(with = "word")]
    Default,
    Set(T),
}

impl<T: Copy> OrDefault<T> {
    /// The value, if one is set.
    pub fn set(&self) -> Option<T> {
        match self {
            OrDefault::Default => None,
            OrDefault::Set(value) => Some(*value),
        }
    }
}

impl<T: JsonSchema> JsonSchema for OrDefault<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("OrDefault{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [value, { "const": "default" }] })
    }
}

mod word {
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub fn serialize<S: Serializer>(s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str("default")
    }
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<(), D::Error> {
        match String::deserialize(d)?.as_str() {
            "default" => Ok(()),
            _ => Err(de::Error::custom("not \"default\"")),
        }
    }
}

/// Gives an option that names something of a rank's own the number of the rank: `name` becomes `name_rank_0001`.
pub fn numbered(options: &mut toml::Table, option: &str, default: &str, rank: u32) {
    let name = options.get(option).and_then(toml::Value::as_str).filter(|name| !name.is_empty());
    let name = name.unwrap_or(default);
    let own = format!("{name}_{}", rank_name(rank).replace('-', "_"));
    options.insert(option.to_owned(), own.into());
}

#[cfg(test)]
mod tests {
    use taillight_core::ErrorKind;
    use taillight_core::plan::TargetPlan;

    #[test]
    fn every_option_of_every_driver_is_described() {
        for driver in crate::DRIVERS {
            for doc in driver.options() {
                let name = format!("{}: {}", driver.name(), doc.name);
                assert!(!doc.about.is_empty() && !doc.values.is_empty(), "{name}");
                assert!(
                    !["string", "integer", "array", "object"].contains(&&*doc.values),
                    "{name}: say which values are allowed"
                );
            }
        }
    }

    #[test]
    fn unknown_names_get_a_suggestion() {
        for (driver, written, hint) in [
            ("file", "fixed_bufers", "did you mean `fixed_buffers`?"),
            ("rocksdb", "blom_bits", "did you mean `bloom_bits`?"),
            ("file", "zzz", "`taillight drivers file` lists every option"),
        ] {
            let driver = crate::find(driver).unwrap();
            let mut target =
                TargetPlan { driver: driver.name().to_owned(), ..TargetPlan::default() };
            target.options.insert(written.to_owned(), 1.into());
            let e = driver.bind(&target).err().unwrap();
            assert_eq!(e.kind(), ErrorKind::Usage);
            assert_eq!(e.hint_text(), Some(hint));
        }
    }
}
