//! `taillight drivers`: the drivers of this build with their operations, abilities and options, as text, JSON or the
//! pages of the documentation, from what the drivers say of themselves. `--check` is `plugin_check`'s.

use std::fmt::Write;

use serde::Serialize;
use taillight_core::Result;
use taillight_core::capability::MAX_BATCH;
use taillight_core::exit::Exit;
use taillight_core::plan::TargetPlan;
use taillight_driver::{DRIVERS, Driver};
use taillight_report::table::{self, wrap};

use crate::args::DriversArgs;
use crate::{output, plugin_check};

/// Prints all drivers, or the one that is named: `--json` before `--markdown`, else text, of all with their options
/// only where the program is to say more (`-v`). With `--check` it checks a plug-in instead. Errors: `Usage` for an
/// unknown driver; those of `--check`.
pub fn main(args: &DriversArgs) -> Result<Exit> {
    if let Some(library) = &args.check {
        return plugin_check::main(args, library);
    }
    if args.json {
        let list: Vec<DriverEntry> = match &args.name {
            Some(name) => vec![entry(taillight_driver::named(name)?)],
            None => DRIVERS.iter().map(|d| entry(*d)).collect(),
        };
        output::json(&list)?;
        return Ok(Exit::Ok);
    }
    let text = match (&args.name, args.markdown) {
        (None, false) if output::mode().verbose => {
            DRIVERS.iter().map(|d| plain(*d)).collect::<Vec<_>>().join("\n\n")
        }
        (None, false) => table(),
        (None, true) => DRIVERS.iter().map(|d| markdown(*d)).collect::<Vec<_>>().join("\n"),
        (Some(name), false) => plain(taillight_driver::named(name)?),
        (Some(name), true) => markdown(taillight_driver::named(name)?),
    };
    output::text(&text)?;
    Ok(Exit::Ok)
}

/// One line per driver, and where more is to be found.
fn table() -> String {
    let mut rows = vec![vec!["DRIVER".to_owned(), "DOES (OPERATIONS)".to_owned()]];
    rows.extend(
        DRIVERS.iter().map(|d| {
            vec![d.name().to_owned(), format!("{} ({})", d.about(), facts(*d).operations)]
        }),
    );
    output::columns(&rows)
        + "\nOptions of one: taillight drivers NAME\nOptions of all: taillight drivers -v\n\
           Other stores:   docs/stores.md\n"
}

/// A driver, for programs.
#[derive(Serialize)]
struct DriverEntry {
    name: &'static str,
    about: &'static str,
    operations: Vec<String>,
    abilities: Vec<String>,
    options: Vec<OptionEntry>,
}

/// An option of a driver, for programs; see `OptionDoc` of `taillight-driver`.
#[derive(Serialize)]
struct OptionEntry {
    name: String,
    values: String,
    default: String,
    about: String,
}

fn entry(driver: &dyn Driver) -> DriverEntry {
    let Facts { operations, abilities } = facts(driver);
    let options = driver.options().into_iter().map(|option| OptionEntry {
        name: option.name,
        values: option.values,
        default: option.default,
        about: option.about,
    });
    DriverEntry {
        name: driver.name(),
        about: driver.about(),
        operations: operations.split_whitespace().map(str::to_owned).collect(),
        abilities,
        options: options.collect(),
    }
}

/// A driver's operations and abilities with default options, as words; `-` and none where it cannot be had without
/// options.
struct Facts {
    operations: String,
    abilities: Vec<String>,
}

fn facts(driver: &dyn Driver) -> Facts {
    // A driver whose defaults are not enough shows no abilities here.
    let Ok(bound) = driver.bind(&TargetPlan::default()) else {
        return Facts { operations: "-".to_owned(), abilities: Vec::new() };
    };
    let can = bound.capabilities();
    let names: Vec<_> = can.ops.iter().map(|op| op.name()).collect();
    let depth = match can.max_depth {
        0 | 1 => "one operation at a time".to_owned(),
        n => format!("queue up to {n} deep"),
    };
    let words = [
        (can.direct, "can bypass the page cache"),
        (can.sync && !can.keyed(), "can sync after writes, timed apart"),
        (can.sync && can.keyed(), "can make writes durable before they are acknowledged"),
        (can.stores_data, "stores what it is given"),
        (can.virtual_time, "runs on virtual time"),
        (can.guarded, "guarded: overwrites only what Taillight made, unless told twice"),
    ];
    let mut abilities = vec![depth];
    if !can.batches.is_empty() {
        let ops: Vec<&str> = can.batches.iter().map(|op| op.name()).collect();
        abilities.push(format!(
            "batches of up to {MAX_BATCH} records in one operation: {}",
            ops.join(" ")
        ));
    }
    abilities.extend(words.iter().filter(|(has, _)| *has).map(|(_, w)| (*w).to_owned()));
    Facts { operations: names.join(" "), abilities }
}

/// A driver with its options, for a terminal.
fn plain(driver: &dyn Driver) -> String {
    let facts = facts(driver);
    let width = table::width();
    let about = format!("{}: {}", driver.name(), driver.about());
    let mut text = wrap(&about, width).join("\n") + "\n";
    let _ = writeln!(text, "\nOperations: {}", facts.operations);
    for ability in &facts.abilities {
        let _ = writeln!(text, "  - {}", wrap(ability, width - 4).join("\n    "));
    }
    let options = driver.options();
    if options.is_empty() {
        return text + "\nIt has no options.\n";
    }
    text.push_str("\nOptions of [target.options]:\n");
    for option in options {
        let _ = writeln!(text, "\n  {} = {}", option.name, option.default);
        let _ = writeln!(text, "      {}", option.values);
        for line in wrap(&option.about, width - 6) {
            let _ = writeln!(text, "      {line}");
        }
    }
    text
}

/// A text with a capital letter in front.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}

/// A driver's page of the documentation.
fn markdown(driver: &dyn Driver) -> String {
    let facts = facts(driver);
    let mut text = format!(
        "# Driver `{name}`\n\n\
         Generated by `taillight drivers {name} --markdown`; do not edit.\n\n\
         {about}.\n\n- operations: {ops}\n",
        name = driver.name(),
        about = sentence(driver.about()),
        ops = facts.operations
    );
    for ability in &facts.abilities {
        let _ = writeln!(text, "- {ability}");
    }
    let options = driver.options();
    if options.is_empty() {
        return text + "\nIt has no options.\n";
    }
    text.push_str("\n## `[target.options]`\n\n| Option | Values | Default | Meaning |\n");
    text.push_str("|---|---|---|---|\n");
    let cell = |s: &str| s.replace('|', "\\|");
    for o in options {
        let _ = writeln!(
            text,
            "| `{}` | {} | `{}` | {} |",
            o.name,
            cell(&o.values),
            cell(&o.default),
            cell(&o.about)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_driver_has_a_page() {
        for driver in DRIVERS {
            assert!(markdown(*driver).contains("- operations: "));
            let unwrapped = plain(*driver).split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(unwrapped.contains(driver.about()), "{unwrapped}");
        }
        assert!(table().contains("null"));
    }
}
