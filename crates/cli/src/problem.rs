//! An error as text on standard error, and as an exit code.

use taillight_core::Error;
use taillight_core::exit::Exit;

use crate::output;

/// Prints what clap has to say: help and version are no errors, the rest is a bad command line.
pub fn command_line(e: &clap::Error) -> Exit {
    // Nothing to do when nobody reads it.
    let _ = e.print();
    if e.use_stderr() {
        Exit::Usage
    } else {
        Exit::Ok
    }
}

/// Prints an error and gives its exit code.
pub fn show(e: &Error) -> Exit {
    output::note(&text(e));
    e.exit()
}

/// "error: ..." and, where known, "hint: ...".
fn text(e: &Error) -> String {
    let mut text = format!("error: {e}");
    if let Some(hint) = e.hint_text() {
        text.push_str("\nhint: ");
        text.push_str(hint);
    }
    if e.exit() == Exit::Internal {
        text.push_str("\nThis is a bug in Taillight; please report it with the command you ran.");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_have_a_line_of_their_own() {
        let e = Error::usage("size is missing")
            .with("at", "--size")
            .hint("give one");
        assert_eq!(
            text(&e),
            "error: size is missing (at: --size)\nhint: give one"
        );
        assert!(text(&Error::internal("x")).contains("bug"));
    }
}
