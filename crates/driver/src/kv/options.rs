//! What the options of all stores share: reading them as written, and values that may be left to
//! the store.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use taillight_core::{Error, Result};

use crate::contract::OptionDoc;

/// A value, or whatever the store (or its own option string) says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected \"default\", or a value with its unit like \"64MiB\""
)]
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

/// Reads options as written. Unknown names are refused, with the nearest known one.
///
/// # Errors
/// `Usage` for unknown or mistyped options.
pub fn parse<T: DeserializeOwned>(
    driver: &str,
    docs: &[OptionDoc],
    table: &toml::Table,
) -> Result<T> {
    for name in table.keys() {
        if !docs.iter().any(|d| d.name == name) {
            return Err(unknown(driver, docs, name));
        }
    }
    table.clone().try_into().map_err(|e: toml::de::Error| {
        Error::usage(format!(
            "wrong value in [target.options] of driver `{driver}`"
        ))
        .with("why", e.message())
        .hint(format!(
            "`taillight drivers {driver}` lists every option with its values"
        ))
    })
}

/// Options as a table with every default filled in.
///
/// # Errors
/// `Internal` if the options stop being a table.
pub fn table<T: Serialize>(options: &T) -> Result<toml::Table> {
    toml::Table::try_from(options)
        .map_err(|e| Error::internal("the options are not a table").source(e))
}

fn unknown(driver: &str, docs: &[OptionDoc], name: &str) -> Error {
    let near = docs
        .iter()
        .map(|d| (strsim::jaro_winkler(name, d.name), d.name))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(score, _)| *score > 0.7);
    let error = Error::usage(format!("driver `{driver}` has no option `{name}`"));
    match near {
        Some((_, near)) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint(format!("`taillight drivers {driver}` lists every option")),
    }
}
