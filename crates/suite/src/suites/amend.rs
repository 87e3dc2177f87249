//! Changes to the tables of a suite file before it is read: the values of a scale, and
//! `--set suite.PATH=VALUE`. Two forms of a suite are compared in [`crate::differences`].

use std::collections::BTreeMap;

use taillight_core::{Error, Result};
use toml::{Table, Value};

use crate::differences::{ChangedField, names};

/// The prefix of a `--set` that changes the suite, not its jobs.
const PREFIX: &str = "suite.";

/// An assignment `suite.PATH=VALUE`: path and value; none for one to the jobs. Errors: `Usage` for
/// a value that is begun as TOML and is none.
pub(super) fn assignment(text: &str) -> Result<Option<(String, Value)>> {
    let Some((path, value)) = text.strip_prefix(PREFIX).and_then(|t| t.split_once('=')) else {
        return Ok(None);
    };
    let value = value.trim();
    let parsed = format!("v = {value}").parse::<Table>();
    let value = match parsed.map(|mut t| t.remove("v")) {
        Ok(Some(value)) => value,
        _ if value.starts_with(['[', '{', '"', '\'']) => {
            return Err(Error::usage(format!("--set {text}: the value is no TOML")));
        }
        _ => Value::String(value.to_owned()),
    };
    Ok(Some((path.trim().to_owned(), value)))
}

/// Puts each value at its dotted path. Errors: as `put`.
pub(super) fn put_all(suite: &mut Table, set: &BTreeMap<String, Value>) -> Result<()> {
    set.iter().try_for_each(|(path, value)| put(suite, path, Some(value.clone())))
}

/// Puts `value` at a dotted path; `None` removes what is there. Items of a list are named by their `name`, or by their
/// place from 0 on; tables that are missing are made. Errors: `Usage`, naming the part that leads nowhere.
pub(super) fn put(suite: &mut Table, path: &str, value: Option<Value>) -> Result<()> {
    let lost = |part: &str, known: Vec<String>| {
        Err(Error::usage(format!("the suite has no `{path}`: `{part}` leads nowhere"))
            .hint(format!("there are {}", known.join(", "))))
    };
    let all = parts_of(path);
    let (last, parents) = all.split_last().unwrap_or((&path, &[]));
    let mut table = suite;
    let mut parts = parents.iter().copied();
    while let Some(part) = parts.next() {
        let entry = table.entry(part.to_owned()).or_insert_with(|| Value::Table(Table::new()));
        table = match entry {
            Value::Table(inner) => inner,
            Value::Array(items) => {
                let wanted = parts.next().unwrap_or_default();
                let known = names(items);
                let place = known.iter().position(|name| name == wanted);
                let place = place.or_else(|| wanted.parse().ok());
                match place.and_then(|at| items.get_mut(at)) {
                    Some(Value::Table(item)) => item,
                    _ => return lost(wanted, known),
                }
            }
            _ => return lost(part, Vec::new()),
        };
    }
    match value {
        Some(value) => table.insert((*last).to_owned(), value),
        None => table.remove(*last),
    };
    Ok(())
}

/// The parts of a dotted path; one in double quotes may have dots.
fn parts_of(path: &str) -> Vec<&str> {
    let (mut parts, mut start, mut quoted) = (Vec::new(), 0, false);
    for (at, c) in path.char_indices() {
        quoted ^= c == '"';
        if c == '.' && !quoted {
            parts.push(&path[start..at]);
            start = at + 1;
        }
    }
    parts.push(&path[start..]);
    let plain = |part: &'_ str| !part.is_empty();
    parts.into_iter().map(|part| part.trim_matches('"')).filter(|part| plain(part)).collect()
}

/// The tables of `over` laid over those of `base`; lists and values take the place of what is there.
pub(super) fn merge(base: &mut Table, over: &Table) {
    for (key, value) in over {
        match (base.get_mut(key), value) {
            (Some(Value::Table(inner)), Value::Table(value)) => merge(inner, value),
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Whether a difference is about the field of a job at `field` or something in it; the jobs of phases too,
/// as far as `phases` names them.
pub(super) fn is_of(changed: &ChangedField, field: &str, phases: &dyn Fn(&str) -> bool) -> bool {
    let of_phase = || {
        let (phase, rest) = changed.path.strip_prefix("phase.")?.split_once('.')?;
        let own = rest.strip_prefix("job.").or_else(|| rest.strip_prefix("set."))?;
        phases(phase).then_some(own)
    };
    let own = changed.path.strip_prefix("job.").or_else(of_phase);
    let rest = own.and_then(|own| own.strip_prefix(field));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Table {
        text.parse().expect("TOML")
    }

    const SUITE: &str = "a = 1\n[job.run]\nduration = \"60s\"\n[[phase]]\nname = \"p\"\n\
                         [[phase.loop]]\npath = \"x\"\nvalues = [1, 2]\n[[phase]]\nname = \"q\"\n";

    #[test]
    fn values_are_put_by_name_and_by_place_and_listed_as_deviations() {
        let (standard, mut suite) = (table(SUITE), table(SUITE));
        for text in [
            "suite.job.run.duration=1s",
            "suite.phase.p.loop.0.values=[1]",
            "suite.phase.1.steady.max_rounds = 7",
            "suite.phase.p.set.\"workload.0.mix\" = read",
        ] {
            let (path, value) = assignment(text).expect("TOML").expect("to the suite");
            put(&mut suite, &path, Some(value)).expect("there");
        }
        let found = crate::differences::differences(&standard.into(), &suite.into());
        let texts: Vec<&str> = found.iter().map(|d| d.text.as_str()).collect();
        let of = |field| found.iter().filter(|d| is_of(d, field, &|phase| phase == "q")).count();
        assert_eq!((of("run.duration"), of("run"), of("run.dur"), of("steady")), (1, 1, 0, 0));
        assert_eq!(
            texts,
            [
                "job.run.duration: 1s, not 60s",
                "phase.p.loop.0.values: [1], not [1, 2]",
                "phase.p.set: { \"workload.0.mix\" = \"read\" }",
                "phase.q.steady: { max_rounds = 7 }"
            ]
        );
    }

    #[test]
    fn paths_that_lead_nowhere_are_refused() {
        let mut suite = table(SUITE);
        let e = put(&mut suite, "phase.r.about", Some(1.into())).expect_err("refused");
        assert!(e.hint_text().is_some_and(|h| h.contains("p, q")), "{e}");
        assert!(put(&mut suite, "a.b", Some(1.into())).is_err());
        assert!(assignment("suite.a={").is_err());
        assert_eq!(assignment("run.name=x").expect("text"), None);
    }

    #[test]
    fn tables_are_merged_and_lists_replaced() {
        let mut base = table("[run]\na = 1\nb = 2\n[[workload]]\nx = 1\n[[workload]]\nx = 2\n");
        merge(&mut base, &table("[run]\nb = 3\n[[workload]]\ny = 1\n"));
        assert_eq!(base, table("[run]\na = 1\nb = 3\n[[workload]]\ny = 1\n"));
    }
}
