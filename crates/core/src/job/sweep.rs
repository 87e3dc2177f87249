//! `[sweep]` and `--sweep`: fields of the job and the values that each takes in turn. A job with a sweep has
//! no plan of its own: the sweep is a suite of one phase, and `taillight-suite` makes and runs its points.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::Job;
use crate::{Error, Result};

/// The order in which points are run.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum PointOrder {
    /// As the values stand; the last field is the fastest.
    #[default]
    Ordered,
    /// Drawn with the seed of the run, anew in each round: what drifts with time then falls on no
    /// value more than on another.
    Shuffled,
}

/// A field of the job and the values it takes.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FieldLoop {
    /// Dotted path of the field, like `workload.0.queue_depth`.
    pub path: String,
    /// Values, in order.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub values: Vec<toml::Value>,
}

/// `[sweep]`: the job once for each combination of values. Fields are dotted paths of the job, each
/// with a list of values: `workload.0.queue_depth = [1, 4, 16]`. `run.repeat` measures every
/// combination as often, in rounds over all of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SweepTable {
    /// The order of points.
    pub order: PointOrder,
    /// Fields, the slowest first.
    pub loops: Vec<FieldLoop>,
}

/// The one field of the table that is no path.
const ORDER: &str = "order";

impl Serialize for SweepTable {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry(ORDER, &self.order)?;
        for field in &self.loops {
            map.serialize_entry(&field.path, &field.values)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for SweepTable {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct SweepVisitor;
        impl<'de> Visitor<'de> for SweepVisitor {
            type Value = SweepTable;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table: {..}")
            }
            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<SweepTable, A::Error> {
                let mut sweep = SweepTable::default();
                while let Some(name) = map.next_key::<String>()? {
                    if name == ORDER {
                        sweep.order = map.next_value()?;
                        continue;
                    }
                    let value = map.next_value()?;
                    collect(name, value, &mut sweep.loops).map_err(A::Error::custom)?;
                }
                Ok(sweep)
            }
        }
        from.deserialize_map(SweepVisitor)
    }
}

/// Collects the lists in `value` with their dotted paths: `a.b = [1]` is written as one name or as a table in a table.
fn collect(
    path: String,
    value: toml::Value,
    into: &mut Vec<FieldLoop>,
) -> std::result::Result<(), String> {
    match value {
        toml::Value::Array(values) => into.push(FieldLoop { path, values }),
        toml::Value::Table(table) if !table.is_empty() => {
            for (name, value) in table {
                collect(format!("{path}.{name}"), value, into)?;
            }
        }
        _ => return Err(format!("a sweep needs a list of values, like {path} = [1, 2, 4]")),
    }
    Ok(())
}

impl JsonSchema for SweepTable {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Sweep".into()
    }
    fn json_schema(g: &mut SchemaGenerator) -> Schema {
        let mut order = g.subschema_for::<PointOrder>();
        order.insert(
            "description".to_owned(),
            "The order in which points are run. Default: ordered.".into(),
        );
        json_schema!({
            "type": "object",
            "properties": { "order": order },
            "additionalProperties": {
                "description": "A dotted path of the job, whole or as nested tables, with its values.",
                "anyOf": [{ "type": "array", "minItems": 1 }, { "type": "object" }],
            },
        })
    }
}

/// Fields that the series gives each run itself.
const OWN: [&str; 3] = ["run.output", "run.name", "run.repeat"];

impl SweepTable {
    fn check(&self) -> Result<()> {
        let wrong = |path: &str, what: &str, fix: &str| {
            Err(Error::usage(format!("sweep of `{path}`: {what}")).hint(fix.to_owned()))
        };
        if self.loops.is_empty() {
            return Err(Error::usage("the sweep has no field")
                .hint("write workload.0.queue_depth = [1, 2, 4] in [sweep]"));
        }
        for (i, field) in self.loops.iter().enumerate() {
            let path = field.path.as_str();
            let inside = |other: &FieldLoop| {
                let below =
                    |a: &str, b: &str| a.strip_prefix(b).is_some_and(|r| r.starts_with('.'));
                other.path == path || below(path, &other.path) || below(&other.path, path)
            };
            let owned = |own: &&str| {
                let rest = own.strip_prefix(path).and_then(|rest| rest.strip_prefix('.'));
                let has = |value: &toml::Value| rest.is_some_and(|r| value.get(r).is_some());
                *own == path || field.values.iter().any(has)
            };
            if OWN.iter().any(owned) || path == "sweep" || path.starts_with("sweep.") {
                return wrong(path, "the series gives it to each run", "leave it out of the sweep");
            }
            if self.loops[..i].iter().any(inside) {
                return wrong(path, "it is swept twice", "give one list of values for it");
            }
            if field.values.is_empty() {
                return wrong(path, "the list is empty", "give the values it is to take");
            }
            let twice = |(n, value)| field.values[..n].contains(value);
            if field.values.iter().enumerate().any(twice) {
                return wrong(path, "a value stands there twice", "run.repeat measures each again");
            }
        }
        Ok(())
    }
}

impl Job {
    /// Applies `--sweep`: `workload.0.queue_depth=1,2,4`. It takes the place of a list of the file for the same
    /// field; whether there is such a field is not checked. Errors: `Usage` for what has no values.
    pub fn add_sweep(&mut self, assignment: &str) -> Result<()> {
        let example = "write --sweep PATH=V,V, for example --sweep workload.0.queue_depth=1,2,4";
        let Some((path, values)) = assignment.split_once('=') else {
            return Err(Error::usage(format!("--sweep `{assignment}` has no `=`")).hint(example));
        };
        let wrong = |what: &str| {
            Error::usage(format!("--sweep {}: {what}", path.trim()))
                .with("value", values)
                .hint(example)
        };
        let parts = split(values).ok_or_else(|| wrong("a bracket or a quote is not closed"))?;
        if parts.iter().any(|part| part.trim().is_empty()) {
            return Err(wrong("a value is missing"));
        }
        let value = |part: &&str| value(part.trim()).ok_or_else(|| wrong("a value is not TOML"));
        let values = parts.iter().map(value).collect::<Result<_>>()?;
        self.sweeps.push(FieldLoop { path: path.trim().to_owned(), values });
        Ok(())
    }

    /// Takes the sweep out of the job, which then has a plan; `None` where it asks for none. Errors: `Usage` for a
    /// sweep that makes no sense, or of a field that the command line sets.
    pub fn take_sweep(&mut self) -> Result<Option<SweepTable>> {
        let flags = std::mem::take(&mut self.sweeps);
        let written = self.written()?.sweep;
        self.sweep_taken = true;
        if written.is_none() && flags.is_empty() {
            return Ok(None);
        }
        let mut sweep = written.unwrap_or_default();
        let given = |l: &FieldLoop| flags.iter().position(|f| f.path == l.path);
        // In the place of the list of the file, so that the order of fields stays.
        let mut replaced = Vec::new();
        for field in &mut sweep.loops {
            if let Some(n) = given(field) {
                *field = flags[n].clone();
                replaced.push(n);
            }
        }
        let new = flags.iter().enumerate().filter(|(n, _)| !replaced.contains(n));
        sweep.loops.extend(new.map(|(_, field)| field.clone()));
        sweep.check()?;
        for field in &sweep.loops {
            if self.is_set(&field.path) {
                return Err(Error::usage(format!(
                    "`{}` is set on the command line and swept",
                    field.path
                ))
                .hint("leave one of them out"));
            }
        }
        Ok(Some(sweep))
    }
}

/// Cuts at commas outside brackets and quotes; `None` where a bracket or quote is not closed.
fn split(text: &str) -> Option<Vec<&str>> {
    let (mut parts, mut start, mut depth, mut quote) = (Vec::new(), 0, 0usize, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.checked_sub(1)?,
            (None, ',') if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    (depth == 0 && quote.is_none()).then_some(parts)
}

/// A value as `--set` reads it: what is no TOML value is text; `None` where it begins like a list, a table or a quote.
fn value(text: &str) -> Option<toml::Value> {
    let parsed = toml::from_str::<toml::Table>(&format!("v = {text}")).ok();
    let only = parsed.filter(|table| table.len() == 1).and_then(|mut table| table.remove("v"));
    match only {
        Some(toml::Value::Datetime(_)) => Some(toml::Value::String(text.to_owned())),
        Some(value) => Some(value),
        None if text.starts_with(['[', '{', '"', '\'']) => None,
        None => Some(toml::Value::String(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(text: &str, flags: &[&str]) -> Result<Option<SweepTable>> {
        let mut job = Job::from_toml(text, "job.toml")?;
        for flag in flags {
            job.add_sweep(flag)?;
        }
        job.take_sweep()
    }

    fn shown(sweep: &SweepTable) -> Vec<String> {
        let values = |l: &FieldLoop| toml::Value::Array(l.values.clone()).to_string();
        sweep.loops.iter().map(|l| format!("{}={}", l.path, values(l))).collect()
    }

    #[test]
    fn names_and_nested_tables_are_the_same_paths_in_their_order() {
        let whole = "[sweep]\n\"workload.0.queue_depth\" = [1, 2]\n\"target.size\" = [\"1GiB\"]\n";
        let nested = "[sweep]\nworkload.0.queue_depth = [1, 2]\ntarget.size = [\"1GiB\"]\n";
        let expected = ["workload.0.queue_depth=[1, 2]", "target.size=[\"1GiB\"]"];
        for text in [whole, nested] {
            let it = sweep(text, &[]).expect("a sweep").expect("there");
            assert_eq!(
                (shown(&it), it.order),
                (expected.map(str::to_owned).to_vec(), PointOrder::Ordered)
            );
            let again = toml::to_string(&it).expect("TOML");
            assert_eq!(toml::from_str::<SweepTable>(&again).expect("reads back"), it);
        }
        let it = sweep("[sweep]\norder = \"shuffled\"\nrun.seed = [1]\n", &[]).expect("a sweep");
        assert_eq!(it.expect("there").order, PointOrder::Shuffled);
        assert_eq!(sweep("", &[]).expect("no sweep"), None);
    }

    #[test]
    fn flags_have_the_values_that_set_takes() {
        let flags = [
            "workload.0.block_size=4KiB, 64KiB",
            "workload.0.mix={ read = 70, write = 30 },read",
            "workload.0.access=\"random\",zipf",
            "target.options.direct=true,false",
            "workload.0.queue_depth=1",
        ];
        let text = "[sweep]\nworkload.0.queue_depth = [7]\n";
        let it = sweep("", &flags).expect("a sweep").expect("there");
        assert_eq!(shown(&it)[0], "workload.0.block_size=[\"4KiB\", \"64KiB\"]");
        assert_eq!(shown(&it)[1], "workload.0.mix=[{ read = 70, write = 30 }, \"read\"]");
        assert_eq!(
            shown(&it)[2..],
            [
                "workload.0.access=[\"random\", \"zipf\"]",
                "target.options.direct=[true, false]",
                "workload.0.queue_depth=[1]",
            ]
        );
        let it = sweep(text, &flags[4..]).expect("a sweep").expect("there");
        assert_eq!(shown(&it), ["workload.0.queue_depth=[1]"], "the flag wins");
        let twice = ["workload.0.queue_depth=1", "workload.0.queue_depth=2"];
        assert!(sweep("", &twice).is_err() && sweep(text, &twice).is_err());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (text, flag, what) in [
            ("", "workload.0.queue_depth", "no `=`"),
            ("", "workload.0.queue_depth=", "missing"),
            ("", "workload.0.queue_depth=1,,2", "missing"),
            ("", "workload.0.queue_depth=1,1", "twice"),
            ("", "workload.0.mix={ read = 1", "not closed"),
            ("", "workload.0.mix={ read = }", "not TOML"),
            ("", "run.output=a,b", "gives it to each run"),
            ("", "run.repeat=3,1", "gives it to each run"),
            ("", "sweep.order=a,b", "gives it to each run"),
            ("[sweep]\nrun = [{ name = \"a\" }]\n", "run.seed=1", "gives it to each run"),
            ("[sweep]\nworkload.0 = [{}]\n", "workload.0.queue_depth=1", "twice"),
            ("[sweep]\nworkload.0.queue_depth = 4\n", "run.seed=1", "list"),
            ("[sweep]\nworkload.0.queue_depth = []\n", "run.seed=1", "empty"),
            ("[sweep]\norder = \"random\"\n", "run.seed=1", "unknown word"),
        ] {
            let e = sweep(text, &[flag]).expect_err(flag);
            assert!(e.to_string().contains(what), "{flag}: {e}");
        }
        assert!(sweep("[sweep]\norder = \"ordered\"\n", &[]).is_err(), "no field");
    }
}
