//! Whether this process may use `io_uring`, and what stops it if not.

use taillight_machine::rights::{Capability, hint};
use taillight_machine::{Sys, field};

/// The answer for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UringAccess {
    /// A ring can be made and entered.
    Works,
    /// One of the two fails: why, and what to do.
    Blocked { why: String, fix: String },
}

/// Makes a small ring, enters it and lets it go.
pub fn probe(sys: &Sys) -> UringAccess {
    match io_uring::IoUring::new(2).and_then(|ring| ring.submit()) {
        Ok(_) => UringAccess::Works,
        Err(e) => blocked(sys, &e),
    }
}

/// The reason: the kernel's switch where it is set, else what the error says, a seccomp filter taken into account.
fn blocked(sys: &Sys, e: &std::io::Error) -> UringAccess {
    let switch = sys.number("/proc/sys/kernel/io_uring_disabled").unwrap_or(0);
    let status = sys.text("/proc/self/status").unwrap_or_default();
    let filtered = field(&status, ':', "Seccomp") == Some("2");
    let errno = e.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    let uring_hint = format!(
        "join the group of kernel.io_uring_group; or {}",
        hint(sys, &[Capability::SysAdmin])
    );
    let (why, fix) = match (errno, switch) {
        (_, 2) => (
            "switched off for everyone (kernel.io_uring_disabled = 2)".to_owned(),
            "sysctl kernel.io_uring_disabled=0",
        ),
        (_, 1) => (
            "switched off for this user (kernel.io_uring_disabled = 1)".to_owned(),
            uring_hint.as_str(),
        ),
        (Some(rustix::io::Errno::NOSYS), _) if !filtered => (
            "the kernel has no io_uring".to_owned(),
            "use a kernel from 5.1 on with CONFIG_IO_URING",
        ),
        (Some(rustix::io::Errno::NOMEM), _) => {
            ("not enough locked memory".to_owned(), "raise `ulimit -l`")
        }
        _ if filtered => (
            format!("a seccomp filter refuses it ({e})"),
            "allow the io_uring system calls in the container's seccomp profile",
        ),
        _ => (e.to_string(), "use engine = \"sync\""),
    };
    UringAccess::Blocked { why, fix: fix.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(disabled: &str, seccomp: &str) -> (tempfile::TempDir, Sys) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc/sys/kernel")).unwrap();
        std::fs::create_dir_all(dir.path().join("proc/self")).unwrap();
        let put = |p: &str, t: &str| std::fs::write(dir.path().join(p), t).unwrap();
        put("proc/sys/kernel/io_uring_disabled", disabled);
        put("proc/self/status", &format!("Name:\tx\nSeccomp:\t{seccomp}\n"));
        let sys = Sys::at(dir.path());
        (dir, sys)
    }

    fn why(disabled: &str, seccomp: &str, errno: rustix::io::Errno) -> String {
        let (_dir, sys) = with(disabled, seccomp);
        match blocked(&sys, &errno.into()) {
            UringAccess::Blocked { why, .. } => why,
            UringAccess::Works => String::new(),
        }
    }

    #[test]
    fn every_reason_has_words() {
        use rustix::io::Errno;
        assert!(why("2", "0", Errno::PERM).contains("for everyone"));
        assert!(why("1", "0", Errno::PERM).contains("for this user"));
        assert!(why("0", "2", Errno::PERM).contains("seccomp"));
        assert!(why("0", "2", Errno::NOSYS).contains("seccomp"));
        assert!(why("0", "0", Errno::NOSYS).contains("no io_uring"));
        assert!(why("0", "0", Errno::NOMEM).contains("locked memory"));
    }
}
