//! The exit code of several runs together: which code counts, and which one ends a series. Meanings are in
//! `taillight_core::exit`.

use taillight_core::exit::Exit;

/// Every code but `Ok`, in the documented order: the first that applies counts.
const ORDER: [Exit; 10] = [
    Exit::Usage,
    Exit::Refused,
    Exit::Unavailable,
    Exit::Interrupted,
    Exit::Terminated,
    Exit::TargetFailed,
    Exit::IoErrors,
    Exit::GateFailed,
    Exit::GateUndecided,
    Exit::Internal,
];

/// The one that stands first in the documented order.
pub fn worst(a: Exit, b: Exit) -> Exit {
    let first = ORDER.into_iter().find(|e| *e == a || *e == b);
    first.unwrap_or(Exit::Ok)
}

/// Whether no further run makes sense after a run that ended so.
pub fn ends_series(exit: Exit) -> bool {
    !matches!(exit, Exit::Ok | Exit::IoErrors | Exit::GateFailed | Exit::GateUndecided)
}

/// The exit with this number, if there is one.
pub fn from_code(code: u8) -> Option<Exit> {
    let mut all = ORDER.into_iter().chain([Exit::Ok]);
    all.find(|e| e.code() == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_exit_counts() {
        assert_eq!(worst(Exit::Ok, Exit::IoErrors), Exit::IoErrors);
        assert_eq!(worst(Exit::GateFailed, Exit::Refused), Exit::Refused);
        assert_eq!(worst(Exit::Ok, Exit::Ok), Exit::Ok);
    }

    #[test]
    fn codes_read_back() {
        for exit in ORDER {
            assert_eq!(from_code(exit.code()), Some(exit));
        }
        assert_eq!((from_code(0), from_code(99)), (Some(Exit::Ok), None));
    }
}
