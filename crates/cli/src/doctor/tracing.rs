//! Checks of what tracing the layers below needs.

use taillight_trace::Sys;
use taillight_trace::rights::{self, Rights};

use super::Check;

pub fn checks(sys: &Sys) -> Vec<Check> {
    vec![
        capabilities(Rights::read(sys)),
        types(rights::has_btf(sys)),
        trace_points(rights::tracefs(sys)),
        lockdown(rights::lockdown(sys).as_deref()),
    ]
}

fn capabilities(rights: Rights) -> Check {
    if rights.tracing() {
        return Check::ok("tracing rights", "this process may load trace programs");
    }
    Check::no(
        "tracing rights",
        format!("missing {}", rights.missing_for_tracing().join(" and ")),
        "run as root, or: setcap cap_bpf,cap_perfmon,cap_syslog+ep on the taillight binary",
    )
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

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn lockdown_matters_in_one_mode() {
        assert_eq!(lockdown(None).state, State::Ok);
        assert_eq!(lockdown(Some("integrity")).state, State::Ok);
        assert_eq!(lockdown(Some("confidentiality")).state, State::No);
    }
}
