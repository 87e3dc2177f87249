//! Checks of what tracing the layers below needs: in short, and with `--trace` or `-v` in detail, with each trace
//! program that is missing, and the backend that a traced run would take here.

use std::path::Path;

use taillight_core::Error;
use taillight_machine::Sys;
use taillight_machine::block::disks_below;
use taillight_machine::rights::{Capability, TRACING, has, hint};
use taillight_rundir::trace_info::{ProgramInfo, TracingBackend};
use taillight_trace::availability::rights;
use taillight_trace::tracing::{self, BackendAttempt};

use super::Check;

/// Above this an unprivileged user may not watch even his own threads.
const PARANOID_MOST: i64 = 2;

pub fn checks(sys: &Sys) -> Vec<Check> {
    vec![
        capabilities(sys),
        types(rights::has_btf(sys)),
        trace_points(rights::tracefs(sys)),
        lockdown(rights::lockdown(sys).as_deref()),
    ]
}

fn capabilities(sys: &Sys) -> Check {
    let missing = rights::missing_for_tracing(sys);
    if missing.is_empty() {
        return Check::ok("tracing rights", "this process may load trace programs");
    }
    Check::no("tracing rights", format!("missing {}", missing.join(" and ")), &hint(sys, &TRACING))
}

fn types(there: bool) -> Check {
    if there {
        return Check::ok("kernel types", "/sys/kernel/btf/vmlinux is there");
    }
    Check::no(
        "kernel types",
        "no /sys/kernel/btf/vmlinux",
        "tracing needs a kernel built with CONFIG_DEBUG_INFO_BTF",
    )
}

fn trace_points(dir: Option<&str>) -> Check {
    match dir {
        Some(dir) => Check::ok("trace points", format!("block events in {dir}")),
        None => Check::warn(
            "trace points",
            "tracefs is not mounted or not readable",
            "mount -t tracefs tracefs /sys/kernel/tracing",
        ),
    }
}

fn lockdown(mode: Option<&str>) -> Check {
    match mode {
        None | Some("none") => Check::ok("lockdown", "off"),
        Some("confidentiality") => Check::no(
            "lockdown",
            "confidentiality: trace programs may not read kernel memory",
            "boot without lockdown=confidentiality",
        ),
        Some(mode) => Check::ok("lockdown", format!("{mode}, which allows tracing")),
    }
}

/// What else a traced run needs, trace programs that are missing, the backend it takes; each is loaded for a moment.
pub fn detailed(sys: &Sys, path: &Path) -> Vec<Check> {
    let mut all = vec![symbols(sys), paranoid(sys)];
    all.extend(accounting(sys, path));
    let tried = tracing::try_backends(sys);
    if let Some(programs) = tried.iter().find_map(|t| t.found.as_ref().ok()) {
        all.extend(programs.iter().filter_map(missing));
    }
    all.extend(tried.iter().map(backend));
    all.push(taken(&tried));
    all
}

/// Whether addresses of kernel functions are shown: by them it is known why a thread slept.
fn symbols(sys: &Sys) -> Check {
    let name = "kernel symbols";
    let text = sys.text("/proc/kallsyms").unwrap_or_default();
    let shown = text.lines().take(64).any(|l| !l.starts_with("0000000000000000"));
    if shown {
        return Check::ok(name, "/proc/kallsyms shows addresses");
    }
    Check::warn(
        name,
        "/proc/kallsyms hides addresses: reasons for sleeping stay unknown, and which of several I/Os in \
         flight a part is of",
        &hint(sys, &[Capability::Syslog]),
    )
}

/// Whether threads can be watched by perf events.
fn paranoid(sys: &Sys) -> Check {
    let name = "perf events";
    let file = "/proc/sys/kernel/perf_event_paranoid";
    match sys.text(file).and_then(|t| t.parse::<i64>().ok()) {
        Some(n) if has(sys, Capability::Perfmon) => {
            Check::ok(name, format!("CAP_PERFMON is there (perf_event_paranoid is {n})"))
        }
        Some(n) if n <= PARANOID_MOST => {
            Check::ok(name, format!("perf_event_paranoid is {n}: own threads can be watched"))
        }
        Some(n) => Check::warn(
            name,
            format!("perf_event_paranoid is {n}: watching threads takes CAP_PERFMON"),
            "sysctl kernel.perf_event_paranoid=2",
        ),
        None => Check::warn(
            name,
            "the kernel has no perf events",
            "tracing without rights needs a kernel built with CONFIG_PERF_EVENTS",
        ),
    }
}

/// Whether the disks below a path keep statistics: without, their requests carry no stamps.
fn accounting(sys: &Sys, path: &Path) -> Vec<Check> {
    let name = "disk statistics";
    let mut all = Vec::new();
    for disk in disks_below(sys, [path]) {
        let number = disk.number;
        let file = format!("/sys/dev/block/{number}/queue/iostats");
        match sys.text(&file).as_deref() {
            Some("0") => all.push(Check::warn(
                name,
                format!("off on {number}: waits for a request cannot be told apart"),
                &format!("echo 1 > {file}"),
            )),
            Some(_) => all.push(Check::ok(name, format!("on for {number}"))),
            None => {}
        }
    }
    all
}

fn missing(program: &ProgramInfo) -> Option<Check> {
    let why = program.missing.as_ref()?;
    let text = format!("{}: {why}; not seen: {}", program.trace_point, program.sees);
    let fix = why
        .strip_prefix("off: ")
        .unwrap_or("this kernel lacks it, or its arguments differ; the rest is traced");
    Some(Check::warn("trace program", text, fix))
}

/// Whether one backend works.
fn backend(tried: &BackendAttempt) -> Check {
    let name = format!("backend {}", tried.backend.name());
    match &tried.found {
        Ok(list) => {
            let there = list.iter().filter(|p| p.missing.is_none()).count();
            let sees = tried.backend.sees();
            Check::ok(&name, format!("works, {there} of {} sources: {sees}", list.len()))
        }
        Err(e) => {
            let fix = e.hint_text().unwrap_or("see the checks above").to_owned();
            Check::warn(&name, e.to_string(), &fix)
        }
    }
}

/// The backend that a traced run takes here.
fn taken(tried: &[BackendAttempt]) -> Check {
    let name = "a traced run";
    let fixes = tried.iter().filter_map(|t| t.found.as_ref().err());
    let fix = fixes.filter_map(Error::hint_text).next();
    let fix = fix.unwrap_or("see the checks above").to_owned();
    match tried.iter().find(|t| t.found.is_ok()) {
        Some(best) => {
            let text = format!("takes backend {} ({})", best.backend.name(), best.backend.sees());
            match best.backend {
                TracingBackend::TracePoints => Check::ok(name, text),
                _ => Check::warn(name, text, &fix),
            }
        }
        None => Check::no(name, "sees no layer: no backend works", &fix),
    }
}

#[cfg(test)]
mod tests {
    use super::super::CheckState;
    use super::*;

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Sys) {
        let home = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = home.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let sys = Sys::at(home.path());
        (home, sys)
    }

    #[test]
    fn each_thing_that_is_missing_is_named_with_its_remedy() {
        let hidden = "0000000000000000 T schedule\n";
        let (_home, sys) =
            machine(&[("proc/kallsyms", hidden), ("proc/sys/kernel/perf_event_paranoid", "3\n")]);
        assert_eq!(symbols(&sys).state, CheckState::Warn);
        let check = paranoid(&sys);
        assert!(check.fix.is_some_and(|f| f.contains("paranoid=2")));
        let (_home, sys) = machine(&[("proc/kallsyms", "ffffffff81000000 T schedule\n")]);
        assert_eq!(symbols(&sys).state, CheckState::Ok);
        let program = ProgramInfo {
            trace_point: "block_rq_issue".into(),
            sees: "x".into(),
            missing: Some("no such type".into()),
        };
        assert!(missing(&program).is_some_and(|c| c.found.contains("block_rq_issue")));
        let off = ProgramInfo {
            missing: Some("off: set kernel.task_delayacct=1".into()),
            ..program.clone()
        };
        let fix = missing(&off).and_then(|c| c.fix);
        assert_eq!(fix.as_deref(), Some("set kernel.task_delayacct=1"));
        let no = |backend| BackendAttempt {
            backend,
            found: Err(Error::unavailable("no rights").hint("get them")),
        };
        let perf = BackendAttempt { backend: TracingBackend::Perf, found: Ok(vec![program]) };
        assert!(backend(&perf).found.contains("0 of 1"));
        let check = backend(&no(TracingBackend::TracePoints));
        assert_eq!((check.state, check.fix.as_deref()), (CheckState::Warn, Some("get them")));
        let check = taken(&[no(TracingBackend::TracePoints), perf]);
        assert!(check.state == CheckState::Warn && check.found.contains("takes backend perf"));
        assert_eq!(check.fix.as_deref(), Some("get them"));
        assert_eq!(taken(&[no(TracingBackend::Perf)]).state, CheckState::No);
    }

    #[test]
    fn lockdown_matters_in_one_mode() {
        assert_eq!(lockdown(None).state, CheckState::Ok);
        assert_eq!(lockdown(Some("integrity")).state, CheckState::Ok);
        assert_eq!(lockdown(Some("confidentiality")).state, CheckState::No);
    }
}
