//! Process exit codes of the command `taillight`. A test compares their numbers with `docs/exit-codes.md`, which
//! says more about each.

/// How a command ends. Where several apply, the order of `docs/exit-codes.md` decides, not that of these variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Complete, nothing to report.
    Ok = 0,
    /// A bug in Taillight.
    Internal = 1,
    /// Bad command line, job or plan; nothing touched.
    Usage = 2,
    /// Refused by the guard; nothing touched.
    Refused = 3,
    /// Not possible here: rights, library, space, path, server, or an input file that is corrupt; nothing measured.
    Unavailable = 4,
    /// The target failed in the run; partial results kept.
    TargetFailed = 5,
    /// Complete, but with I/O or verification errors.
    IoErrors = 6,
    /// A gate failed: ceiling, compare, search.
    GateFailed = 7,
    /// A gate could not be decided.
    GateUndecided = 8,
    /// Ended by SIGINT; partial results kept.
    Interrupted = 130,
    /// Ended by SIGTERM, SIGHUP or another signal that ends programs; partial results kept.
    Terminated = 143,
}

impl Exit {
    /// The number the process returns.
    pub fn code(self) -> u8 {
        self as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the first column of docs/exit-codes.md.
    fn documented() -> Vec<u8> {
        let page = include_str!("../../../docs/exit-codes.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next());
        let mut codes: Vec<u8> = rows.filter_map(|word| word.parse().ok()).collect();
        codes.sort_unstable();
        // Another table tells cases apart that share a number.
        codes.dedup();
        codes
    }

    #[test]
    fn codes_keep_their_numbers() {
        let all = [
            (Exit::Ok, 0),
            (Exit::Internal, 1),
            (Exit::Usage, 2),
            (Exit::Refused, 3),
            (Exit::Unavailable, 4),
            (Exit::TargetFailed, 5),
            (Exit::IoErrors, 6),
            (Exit::GateFailed, 7),
            (Exit::GateUndecided, 8),
            (Exit::Interrupted, 130),
            (Exit::Terminated, 143),
        ];
        assert!(all.iter().all(|(exit, number)| exit.code() == *number));
        assert_eq!(documented(), all.map(|(_, number)| number));
    }
}
