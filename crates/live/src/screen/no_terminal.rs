//! In place of the terminal where the feature `tui` was left out: there is never a screen.

use crate::feed::LiveState;

/// Why there is none.
pub fn fits() -> Result<(), &'static str> {
    Err("this program was built without it")
}

/// Nothing is drawn.
pub fn picture(_: &LiveState) -> bool {
    false
}

/// Nothing was taken.
pub fn restore() {}

pub fn restore_on_panic() {}
