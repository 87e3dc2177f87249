//! Resolves `arrival` of a workload as written into the plan's [`Arrival`]: each kind needs its fields and takes no
//! others.

use super::check::ValidationError;
use super::forms::{ArrivalForm, ArrivalKind, ArrivalTable};
use crate::plan::Arrival;
use crate::units::Rate;

/// Names of the fields that are written, `kind` left out.
fn written(t: &ArrivalTable) -> Vec<&'static str> {
    [
        ("rate", t.rate.is_some()),
        ("on", t.on.is_some()),
        ("off", t.off.is_some()),
        ("steps", t.steps.is_some()),
        ("from", t.from.is_some()),
        ("to", t.to.is_some()),
        ("over", t.over.is_some()),
        ("file", t.file.is_some()),
    ]
    .into_iter()
    .filter_map(|(name, there)| there.then_some(name))
    .collect()
}

/// How a kind is written: its name, the fields that it needs, an example for messages.
struct ArrivalSyntax {
    name: &'static str,
    fields: &'static [&'static str],
    example: &'static str,
}

fn syntax(kind: ArrivalKind) -> ArrivalSyntax {
    let (name, fields, example): (_, &[&str], _) = match kind {
        ArrivalKind::Burst => ("burst", &[], "arrival = \"burst\""),
        ArrivalKind::Constant => (
            "constant",
            &["rate"],
            "arrival = { kind = \"constant\", rate = \"1000/s\" } or --rate 1000/s",
        ),
        ArrivalKind::Poisson => {
            ("poisson", &["rate"], "arrival = { kind = \"poisson\", rate = \"1000/s\" }")
        }
        ArrivalKind::Bursts => (
            "bursts",
            &["rate", "on", "off"],
            "arrival = { kind = \"bursts\", rate = \"1000/s\", on = \"1s\", off = \"4s\" }",
        ),
        ArrivalKind::Steps => (
            "steps",
            &["steps"],
            "arrival = { kind = \"steps\", steps = [{ rate = \"1000/s\", time = \"10s\" }] }",
        ),
        ArrivalKind::Ramp => (
            "ramp",
            &["from", "to", "over"],
            "arrival = { kind = \"ramp\", from = \"100/s\", to = \"10000/s\", over = \"60s\" }",
        ),
        ArrivalKind::Replay => {
            ("replay", &["file"], "arrival = { kind = \"replay\", file = \"times.txt\" }")
        }
    };
    ArrivalSyntax { name, fields, example }
}

/// Completes the arrival of the workload whose rate a search varies: Poisson where a rate is written without a
/// kind; a constant or Poisson kind without a rate gets that from which the search begins.
pub(super) fn searched(form: ArrivalForm, from: Rate) -> ArrivalForm {
    let mut table = form.0;
    let alone = written(&table) == ["rate"];
    match table.kind {
        None if alone => table.kind = Some(ArrivalKind::Poisson),
        Some(ArrivalKind::Constant | ArrivalKind::Poisson) => {
            table.rate = table.rate.or(Some(from));
        }
        _ => {}
    }
    ArrivalForm(table)
}

/// The arrival of a workload. Without a kind it is constant where a rate is written, else burst. Errors: a field of
/// another kind, or a missing one.
pub(super) fn arrival(form: Option<ArrivalForm>, path: &str) -> Result<Arrival, ValidationError> {
    let t = form.map(|f| f.0).unwrap_or_default();
    let kind = t.kind.unwrap_or(match t.rate {
        Some(_) => ArrivalKind::Constant,
        None => ArrivalKind::Burst,
    });
    let ArrivalSyntax { name, fields, example } = syntax(kind);
    if let Some(extra) = written(&t).into_iter().find(|f| !fields.contains(f)) {
        let what = if kind == ArrivalKind::Burst && extra == "rate" {
            "burst runs at full speed and takes no rate".to_owned()
        } else {
            format!("a {name} arrival has no field `{extra}`")
        };
        let fix = if kind == ArrivalKind::Burst {
            "leave the rate out, or use kind = \"constant\"".to_owned()
        } else {
            format!("write {example}")
        };
        return Err(ValidationError::new(path, what, fix));
    }
    let built = match kind {
        ArrivalKind::Burst => Some(Arrival::Burst),
        ArrivalKind::Constant => t.rate.map(|rate| Arrival::Constant { rate }),
        ArrivalKind::Poisson => t.rate.map(|rate| Arrival::Poisson { rate }),
        ArrivalKind::Bursts => {
            t.rate.zip(t.on.zip(t.off)).map(|(rate, (on, off))| Arrival::Bursts { rate, on, off })
        }
        ArrivalKind::Steps => t.steps.map(|steps| Arrival::Steps { steps }),
        ArrivalKind::Ramp => {
            t.from.zip(t.to.zip(t.over)).map(|(from, (to, over))| Arrival::Ramp { from, to, over })
        }
        ArrivalKind::Replay => t.file.map(|file| Arrival::Replay { file }),
    };
    built.ok_or_else(|| {
        let names = fields.join(", ");
        let article = if fields.len() == 1 { "a " } else { "" };
        ValidationError::new(
            path,
            format!("a {name} arrival needs {article}{names}"),
            format!("write {example}"),
        )
    })
}
