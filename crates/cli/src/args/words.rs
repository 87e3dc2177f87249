//! What no word of a command line may be, whatever the command: a secret, which everybody on the machine sees, or
//! for commands that keep their command line in manifests, no text. Called before the command line is parsed.

use std::ffi::OsString;

use clap::Command;
use taillight_core::{Error, Result, secret};

/// Commands that run something; manifests and series keep their words.
const KEPT: [&str; 3] = ["run", "suite", "ab"];

/// Errors: `Usage` for a word that holds a secret, which is not repeated, and for one that is not UTF-8 where it
/// would be kept.
pub fn check(words: &[OsString], cli: &Command) -> Result<()> {
    let kept = words.iter().skip(1).find_map(|w| cli.find_subcommand(w));
    let kept = kept.is_some_and(|command| KEPT.contains(&command.get_name()));
    for (number, word) in words.iter().enumerate().skip(1) {
        let text = word.to_string_lossy();
        if secret::holds_secret(&text) {
            return Err(Error::usage("a command line holds no password, key or token")
                .with("argument", number)
                .hint(secret::INSTEAD));
        }
        if kept && word.to_str().is_none() {
            return Err(Error::usage("an argument is not UTF-8 text").with("argument", text).hint(
                "manifests keep the command, and they are text: rename the file or directory",
            ));
        }
    }
    Ok(())
}
