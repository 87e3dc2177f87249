//! What a plug-in says of itself: JSON with its name, operations, capabilities and options.
//!
//! Words that are left out are the careful choice. Words that this host does not know are left aside, so that a
//! newer plug-in works with an older host; `taillight drivers --check` names them.

use serde::Deserialize;
use serde_json::Value;
use taillight_core::capability::{AdminAction, Capabilities, DriverFacts, TargetKind};
use taillight_core::samples::SampleDisplay;
use taillight_core::{Error, OpKind, Result, suggest};

use super::PluginUse;

/// Deepest queue of a session: slots of a token.
const DEEPEST: u32 = 4096;
const FILE_OPS: [OpKind; 4] = [OpKind::Read, OpKind::Write, OpKind::Trim, OpKind::Fsync];
const KEYED_OPS: [OpKind; 6] =
    [OpKind::Get, OpKind::Put, OpKind::Insert, OpKind::Update, OpKind::Delete, OpKind::Scan];
const BATCH_OPS: [OpKind; 4] = [OpKind::Get, OpKind::Put, OpKind::Insert, OpKind::Update];
/// Administration by name.
const ACTIONS: [(&str, AdminAction); 3] = [
    ("flush", AdminAction::Flush),
    ("compact", AdminAction::Compact),
    ("drop_caches", AdminAction::DropCaches),
];

/// Whether data is named by offset or by key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PluginKind {
    File,
    Keyed,
}

/// The words of a plug-in; `sdk/taillight_driver.h` says what they mean.
#[derive(Debug, Clone, Deserialize)]
pub struct PluginDescription {
    pub name: String,
    #[serde(default)]
    pub about: String,
    #[serde(default)]
    pub version: String,
    kind: PluginKind,
    #[serde(default)]
    ops: Vec<String>,
    #[serde(default)]
    max_depth: u32,
    #[serde(default)]
    pub submit_batch: u32,
    #[serde(default)]
    batches: Vec<String>,
    #[serde(default = "yes")]
    pub stores_data: bool,
    #[serde(default)]
    sync: bool,
    /// It updates single fields.
    #[serde(default)]
    pub fields: bool,
    #[serde(default)]
    admin: Vec<String>,
    /// How its statistics are shown.
    #[serde(default)]
    pub samples: SampleDisplay,
    #[serde(default)]
    pub options: Vec<PluginOption>,
    /// Names of the host's own options, which stand beside these.
    #[serde(skip)]
    host: &'static [&'static str],
    /// Words that this host does not know.
    #[serde(flatten)]
    pub unknown: serde_json::Map<String, Value>,
}

fn yes() -> bool {
    true
}

/// An option of a plug-in.
#[derive(Debug, Clone, Deserialize)]
pub struct PluginOption {
    pub name: String,
    pub default: Value,
    #[serde(default)]
    pub about: String,
    #[serde(default)]
    pub values: String,
}

impl PluginDescription {
    /// Reads the words; `host` names the host's own options. Errors: `Unavailable`, saying what is wrong and where.
    pub fn parse(text: &str, host: &'static [&'static str]) -> Result<PluginDescription> {
        let bad = |what: &str| {
            Error::unavailable(format!("what the plug-in says of itself {what}"))
                .hint("sdk/taillight_driver.h lists the words of `describe`")
        };
        let mut said: PluginDescription = serde_json::from_str(text).map_err(|e| {
            let what = if e.is_data() { "lacks a word, or has a wrong one" } else { "is no JSON" };
            bad(what).source(e)
        })?;
        if said.name.is_empty() || said.name.chars().any(char::is_control) {
            return Err(bad("has no name that can be shown"));
        }
        let kinds = if said.keyed() { &KEYED_OPS[..] } else { &FILE_OPS[..] };
        if said.ops.is_empty() {
            return Err(bad("names no operations"));
        }
        ops(&said.ops, kinds)
            .map_err(|word| bad("names an operation that its kind has not").with("ops", word))?;
        ops(&said.batches, &BATCH_OPS)
            .map_err(|word| bad("names a batch that there is not").with("batches", word))?;
        if said.max_depth > DEEPEST {
            return Err(bad("has a queue deeper than 4096").with("max_depth", said.max_depth));
        }
        if let Some(word) = said.admin.iter().find(|a| action(a).is_none()) {
            return Err(bad("names an action that there is not").with("admin", word));
        }
        if let Some(text) =
            said.samples.texts().into_iter().find(|t| t.chars().any(char::is_control))
        {
            return Err(bad("has words for its samples that cannot be shown")
                .with("samples", text.escape_debug()));
        }
        for option in &said.options {
            if host.contains(&option.name.as_str()) {
                return Err(
                    bad("has an option whose name is the host's").with("option", &option.name)
                );
            }
            toml_of(&option.default).ok_or_else(|| {
                bad("has an option whose default is no truth value, number or text")
                    .with("option", &option.name)
            })?;
        }
        said.host = host;
        Ok(said)
    }

    pub fn keyed(&self) -> bool {
        self.kind == PluginKind::Keyed
    }

    /// Operations in flight at most.
    pub fn depth(&self) -> u32 {
        self.max_depth.max(1)
    }

    /// What it can do, as the rest of the program asks it.
    pub fn capabilities(&self, options: &PluginUse) -> Capabilities {
        let kinds = if self.keyed() { &KEYED_OPS[..] } else { &FILE_OPS[..] };
        let mut all = ops(&self.ops, kinds).unwrap_or_default();
        let mut batches = ops(&self.batches, &BATCH_OPS).unwrap_or_default();
        let mut admin: Vec<_> = self.admin.iter().filter_map(|a| action(a)).collect();
        if self.keyed() && !admin.contains(&AdminAction::Flush) {
            // A plug-in without flush has nothing to flush: the host answers.
            admin.push(AdminAction::Flush);
        }
        if options.read_only {
            all.retain(|op| !op.writes());
            batches.retain(|op| !op.writes());
        } else if self.keyed() {
            if all.contains(&OpKind::Get) && all.contains(&OpKind::Update) {
                all.push(OpKind::Rmw);
            }
            if all.contains(&OpKind::Delete) && self.stores_data {
                // The host deletes what the run wrote, record by record.
                admin.push(AdminAction::Purge);
            }
        }
        let kind = if self.keyed() { TargetKind::Keyed } else { TargetKind::File };
        Capabilities {
            ops: all,
            max_depth: self.depth(),
            batches,
            sync: self.sync,
            stores_data: self.stores_data,
            guarded: self.stores_data,
            admin,
            facts: DriverFacts { kind, in_process: !options.apart, ..DriverFacts::default() },
            ..Capabilities::default()
        }
    }

    /// Whether the plug-in itself does an action.
    pub fn does(&self, wanted: AdminAction) -> bool {
        self.admin.iter().any(|a| action(a) == Some(wanted))
    }

    /// Its options as a table with every default filled in, and those of `written` in their place. Errors: `Usage`
    /// for unknown ones, with a suggestion, and values of another type than the default's.
    pub fn complete(&self, written: &toml::Table) -> Result<toml::Table> {
        let mut all = toml::Table::new();
        for option in &self.options {
            all.extend(toml_of(&option.default).map(|value| (option.name.clone(), value)));
        }
        for (name, value) in written {
            let Some(default) = all.get_mut(name) else {
                let known =
                    self.options.iter().map(|o| o.name.as_str()).chain(self.host.iter().copied());
                let known: Vec<_> = known.collect();
                return Err(Error::usage(format!(
                    "plug-in `{}` has no option `{name}`",
                    self.name
                ))
                .of_field(name)
                .hint(suggest::did_you_mean(name, &known)));
            };
            *default = match (&*default, value) {
                (toml::Value::Float(_), toml::Value::Integer(n)) => toml::Value::Float(*n as f64),
                (was, new) if was.type_str() == new.type_str() => new.clone(),
                (was, new) => {
                    let wanted = was.type_str();
                    return Err(Error::usage(format!(
                        "option `{name}` of plug-in `{}`: `{new}` is no {wanted}",
                        self.name
                    ))
                    .of_field(name)
                    .hint(format!("its default is {was}")));
                }
            };
        }
        Ok(all)
    }
}

/// Operations by name. Errors: the word that is none of `among`.
fn ops<'a>(words: &'a [String], among: &[OpKind]) -> std::result::Result<Vec<OpKind>, &'a str> {
    let one = |word: &'a String| {
        OpKind::from_name(word).filter(|op| among.contains(op)).ok_or(word.as_str())
    };
    words.iter().map(one).collect()
}

fn action(word: &str) -> Option<AdminAction> {
    ACTIONS.iter().find(|(name, _)| *name == word).map(|(_, action)| *action)
}

/// A default as an option can have it.
fn toml_of(value: &Value) -> Option<toml::Value> {
    match value {
        Value::Bool(is) => Some(toml::Value::Boolean(*is)),
        Value::Number(n) => {
            n.as_i64().map(toml::Value::Integer).or(n.as_f64().map(toml::Value::Float))
        }
        Value::String(text) => Some(toml::Value::String(text.clone())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &[&str] = &["library"];
    const STORE: &str = r#"{"name": "s", "kind": "keyed", "ops": ["get", "update", "delete"], "newer": 1,
        "options": [{"name": "cache", "default": 4}, {"name": "share", "default": 0.5}]}"#;

    #[test]
    fn what_is_left_out_is_the_careful_choice() {
        let said = PluginDescription::parse(STORE, HOST).unwrap();
        let can = said.capabilities(&PluginUse::default());
        assert!(can.guarded && can.stores_data && can.keyed() && can.max_depth == 1 && !can.sync);
        assert!(can.ops.contains(&OpKind::Rmw) && can.batches.is_empty());
        assert_eq!(can.admin, [AdminAction::Flush, AdminAction::Purge]);
        assert_eq!(said.unknown.keys().collect::<Vec<_>>(), ["newer"]);
        let options = PluginUse { read_only: true, ..PluginUse::default() };
        assert_eq!(said.capabilities(&options).ops, [OpKind::Get]);
    }

    #[test]
    fn options_have_the_type_of_their_default() {
        let said = PluginDescription::parse(STORE, HOST).unwrap();
        let complete = |text: &str| said.complete(&text.parse().unwrap());
        assert_eq!(complete("cache = 7\nshare = 1").unwrap()["share"].as_float(), Some(1.0));
        assert_eq!(complete("").unwrap()["cache"].as_integer(), Some(4));
        for (text, says) in
            [("cahce = 1", "did you mean `cache`?"), ("cache = \"x\"", "its default is 4")]
        {
            let e = complete(text).unwrap_err();
            assert!(e.hint_text().unwrap().contains(says), "{e}");
            assert_eq!(e.kind(), taillight_core::ErrorKind::Usage);
        }
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (text, says) in [
            ("no", "is no JSON"),
            ("{}", "lacks a word"),
            (r#"{"name": "", "kind": "file"}"#, "no name"),
            (r#"{"name": "x", "kind": "file", "ops": []}"#, "no operations"),
            (
                r#"{"name": "x", "kind": "file", "ops": ["get"]}"#,
                "an operation that its kind has not",
            ),
            (r#"{"name": "x", "kind": "keyed", "ops": ["get"], "batches": ["scan"]}"#, "a batch"),
            (r#"{"name": "x", "kind": "file", "ops": ["read"], "max_depth": 5000}"#, "deeper"),
            (r#"{"name": "x", "kind": "file", "ops": ["read"], "admin": ["purge"]}"#, "an action"),
            (
                r#"{"name": "x", "kind": "file", "ops": ["read"],
                    "options": [{"name": "library", "default": ""}]}"#,
                "the host's",
            ),
            (
                r#"{"name": "x", "kind": "file", "ops": ["read"],
                    "options": [{"name": "a", "default": []}]}"#,
                "no truth value",
            ),
            (
                r#"{"name": "x", "kind": "file", "ops": ["read"],
                    "samples": {"panels": [{"title": "a\n", "unit": "bytes", "lines": []}]}}"#,
                "cannot be shown",
            ),
        ] {
            let e = PluginDescription::parse(text, HOST).unwrap_err();
            assert!(e.message().contains(says), "{text}: {e}");
        }
        // A plug-in may know units that a host of before does not.
        let newer = r#"{"name": "x", "kind": "file", "ops": ["read"],
                        "samples": {"panels": [{"title": "a", "unit": "furlongs", "lines": []}]}}"#;
        assert!(PluginDescription::parse(newer, HOST).is_ok());
    }
}
