//! `taillight drivers --check`: whether a plug-in keeps the contract, rule by rule, in plain words.
//!
//! A plug-in is a shared library, or the command of a program. The rules are those of `taillight_driver::conformance`,
//! by which the built-in drivers are tested. They run in a process of their own, so that a plug-in that crashes or
//! never returns is named as one that does.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use taillight_core::exit::Exit;
use taillight_core::job::BoundTarget;
use taillight_core::plan::TargetPlan;
use taillight_core::units::ByteSize;
use taillight_core::{Error, ErrorKind, OpKind, Result};
use taillight_driver::conformance::{self, CheckResult, TestCase, plan_for};
use taillight_driver::plugin::{PluginDescription, PluginSettings, crash_by_signal};

use crate::args::DriversArgs;
use crate::output;

/// How long all rules may take together.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often the child is looked at.
const GLANCE: Duration = Duration::from_millis(20);
/// How the process of the check ends where all is well: 0 is what a plug-in gives that calls exit.
const KEPT: Exit = Exit::GateUndecided;
/// Which stores the rules are tried on.
const CHECKED: &str = "checked is a store that the plug-in makes at its path as it opens, one that \
                       says that it is empty (TL_EMPTY), or one with the mark of a check; --path \
                       or --option names another";
/// Bytes of a data set of blocks.
const DATA_SET: u64 = 1 << 20;
/// Depths that are tried, where the plug-in has a queue.
const DEPTHS: [u32; 3] = [1, 8, 32];

/// Runs the command. `GateFailed` for a broken rule, `TargetFailed` for a plug-in that crashes, hangs or exits,
/// `Unavailable` when it is no plug-in, `Usage` for options it has not, `Refused` where it might overwrite foreign
/// data, which counts as not checked.
pub fn main(args: &DriversArgs, library: &str) -> Result<Exit> {
    if args.in_process {
        // The parent names the signal.
        crash_by_signal();
        return check(args, library);
    }
    let program =
        std::env::current_exe().map_err(|e| Error::internal("no program of my own").source(e))?;
    let mut command = Command::new(program);
    command.args(["drivers", "--in-process", "--check", library]);
    command.args(args.path.iter().flat_map(|path| ["--path", path.as_str()]));
    command.args(args.options.iter().flat_map(|option| ["--option", option.as_str()]));
    let failed = |e| Error::unavailable("cannot start the check in a process of its own").source(e);
    let mut child = command.spawn().map_err(failed)?;
    let end = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if Instant::now() > end {
            let _ = child.kill();
            let _ = child.wait();
            output::line(
                "\nThe plug-in did not come back: a call of it takes for ever (poll must end at until_ns).",
            );
            return Ok(Exit::TargetFailed);
        }
        std::thread::sleep(GLANCE);
    };
    if let Some(signal) = status.signal() {
        output::line(&format!(
            "\nThe plug-in crashed: signal {signal} ({}), in the rule named last.",
            name_of(signal)
        ));
        return Ok(Exit::TargetFailed);
    }
    let all = [Exit::Usage, Exit::Refused, Exit::Unavailable, Exit::GateFailed, Exit::Internal];
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    if code == Some(KEPT.code()) {
        return Ok(Exit::Ok);
    }
    Ok(all.into_iter().find(|exit| Some(exit.code()) == code).unwrap_or_else(|| {
        output::line("\nThe plug-in ended the process: it must not call exit.");
        Exit::TargetFailed
    }))
}

fn name_of(signal: i32) -> &'static str {
    match signal {
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        _ => "another signal",
    }
}

/// Whether the name is a file of a shared library; all else is a command.
fn is_library(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.ends_with(".so") || file.contains(".so.")
}

/// The target that is checked, and what the plug-in says of itself. Errors: `Unavailable` or `Usage` when it is none.
fn target(library: &str) -> Result<(TargetPlan, &'static PluginDescription)> {
    let (driver, option) = match is_library(library) {
        true => ("plugin", "library"),
        false => ("process", "command"),
    };
    let mut target = TargetPlan { driver: driver.to_owned(), ..TargetPlan::default() };
    target.options.insert(option.to_owned(), library.into());
    let said = PluginSettings::of(&target)?.description();
    Ok((target, said))
}

/// Runs the rules here.
fn check(args: &DriversArgs, library: &str) -> Result<Exit> {
    let (target, said) = target(library)?;
    let dir = std::env::temp_dir().join(format!("taillight-check-{}", std::process::id()));
    std::fs::create_dir(&dir)
        .map_err(|e| Error::unavailable("cannot make a directory").source(e))?;
    let path = args.path.clone().unwrap_or_else(|| dir.join("data").display().to_string());
    let broken = rules(args, target, said, path);
    let left = std::fs::remove_dir(&dir).is_err();
    let mut broken = broken?;
    for word in said.unknown.keys() {
        broken += 1;
        output::line(&format!(
            "  BROKEN   words of describe: `{word}` is none that this version knows"
        ));
    }
    if left {
        broken += 1;
        let names = left_in(&dir);
        output::line(&format!("  BROKEN   nothing is left: {} still has {names}", dir.display()));
    }
    Ok(match broken {
        0 => {
            output::line("\nThe plug-in keeps the contract.");
            KEPT
        }
        n => {
            output::line(&format!(
                "\nThe plug-in breaks {n} {}.",
                if n == 1 { "rule" } else { "rules" }
            ));
            Exit::GateFailed
        }
    })
}

fn left_in(dir: &Path) -> String {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let names: Vec<String> =
        entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.join(", ")
}

/// Tries the rules at each depth that the plug-in has, and prints each; returns how many are broken, counted at each
/// depth. Stops at the first depth at which the rules cannot be gone through.
fn rules(
    args: &DriversArgs,
    target: TargetPlan,
    said: &PluginDescription,
    path: String,
) -> Result<u32> {
    let driver = taillight_driver::named(&target.driver)?;
    // What lies in the directory of the check is its own; what the user named is not, by a path or an option.
    let own = args.path.is_none() && args.options.is_empty();
    let mut target = TargetPlan { path: Some(path.clone()), destroy: own, ..target };
    for option in &args.options {
        let (name, value) = option
            .split_once('=')
            .ok_or_else(|| Error::usage("an option is NAME=VALUE").with("option", option))?;
        let value =
            format!("v = {value}").parse::<toml::Table>().ok().and_then(|t| t.get("v").cloned());
        let text = option[name.len() + 1..].to_owned();
        target.options.insert(name.to_owned(), value.unwrap_or(toml::Value::String(text)));
    }
    let BoundTarget { options, capabilities: can } = driver.bind(&target)?.resolved()?;
    if !own && !can.keyed() && can.stores_data {
        return Err(Error::refused(
            "the check writes over all blocks, and a path or an option may name somebody else's",
        )
        .hint("leave --path and --option out: the check has a directory of its own"));
    }
    target.options = options;
    target.size = (!can.keyed()).then_some(ByteSize(DATA_SET));
    output::line(&format!("plug-in {} {}: {}", said.name, said.version, said.about));
    let names: Vec<_> = can.ops.iter().map(|op| op.name()).collect();
    output::line(&format!(
        "operations: {}; queue up to {} deep",
        names.join(" "),
        can.max_depth.max(1)
    ));
    for option in &said.options {
        output::line(&format!("option {} = {}: {}", option.name, option.default, option.about));
    }
    let mut broken = 0;
    for depth in DEPTHS.into_iter().filter(|d| *d <= can.max_depth.max(1)) {
        for reverse in [false, true] {
            if reverse && !can.ops.contains(&OpKind::Scan) {
                continue;
            }
            let downwards = if reverse { ", scans downwards" } else { "" };
            output::line(&format!("depth {depth}{downwards}"));
            let plan = plan_for(&can, target.clone(), depth, reverse);
            let mut told = |rule: &'static str, outcome: Option<&CheckResult>| {
                let Some(outcome) = outcome else { return begin(rule) };
                broken += u32::from(matches!(outcome, CheckResult::Broken(_)));
                output::line(&match outcome {
                    CheckResult::Kept => "kept".to_owned(),
                    CheckResult::NotForIt(why) => format!("not for it: {why}"),
                    CheckResult::Broken(why) => format!("BROKEN: {why}"),
                });
            };
            let destroy = own.then_some(path.as_str());
            let outcome = conformance::run(&TestCase { driver, plan, destroy }, &mut told);
            let Err(e) = outcome else { continue };
            if e.kind() == ErrorKind::Refused {
                output::line("NOT CHECKED: the store is left alone");
                return Err(e.hint(CHECKED));
            }
            output::line(&format!("BROKEN: {e}"));
            return Ok(broken + 1);
        }
    }
    Ok(broken)
}

/// The rule that is tried now: on the screen before it is, so that a crash is in it.
fn begin(rule: &str) {
    let mut out = std::io::stdout().lock();
    let _ = write!(out, "  {rule} ... ");
    let _ = out.flush();
}
