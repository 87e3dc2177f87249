//! Refuses words that no command line may hold: a secret, which everybody on the machine sees, and for commands that
//! keep their command line in manifests, what is no UTF-8 text. Called before the command line is parsed.

use std::ffi::OsString;
use std::path::Path;

use clap::Command;
use taillight_core::secret::{self, SecretKind};
use taillight_core::{Error, Result};

/// Commands that run something; manifests and series keep their words.
const KEPT: [&str; 5] = ["run", "search", "suite", "ab", "watch"];
/// Flags whose value is a new file or directory of any name.
const NEW_PATHS: [&str; 3] = ["--output", "-o", "--junit"];
/// Flags whose value is a field and what it is set to.
const FIELDS: [&str; 5] = ["--set", "--set-a", "--set-b", "--sweep", "-p"];

/// Errors: `Usage` for a word that holds a secret, which is not repeated, and for one that is not UTF-8 where it
/// would be kept.
pub fn check(words: &[OsString], cli: &Command) -> Result<()> {
    let kept = words.iter().skip(1).find_map(|w| cli.find_subcommand(w));
    let kept = kept.is_some_and(|command| KEPT.contains(&command.get_name()));
    for (number, word) in words.iter().enumerate().skip(1) {
        let text = word.to_string_lossy();
        if let Some(kind) = secret_of(&words[number - 1].to_string_lossy(), &text) {
            return Err(Error::usage("a command line holds no password, key or token")
                .with("argument", number)
                .with("taken for one", kind)
                .hint(format!(
                    "{}; a new file or directory of such a name is written with ./ before it",
                    secret::INSTEAD
                )));
        }
        if kept && word.to_str().is_none() {
            return Err(Error::usage("an argument is not UTF-8 text").with("argument", text).hint(
                "manifests keep the command, and they are text: rename the file or directory",
            ));
        }
    }
    Ok(())
}

/// The secret that a word holds, where `before` is the word before it. The name of something that is there, or the
/// value of [`NEW_PATHS`], is none, unless the flag's own name is that of a secret.
fn secret_of(before: &str, word: &str) -> Option<SecretKind> {
    let joined = word.split_once('=').filter(|_| word.starts_with("--"));
    let (flag, value) = joined.unwrap_or((before, word));
    if FIELDS.contains(&flag) {
        let path = value.split_once('=').map_or("", |(path, _)| path);
        let name = path.rsplit('.').next().unwrap_or_default();
        let named = secret::is_secret_name(name).then(|| SecretKind::ValueOf(name.to_owned()));
        return named.or_else(|| secret::secret_in(value));
    }
    let there = || Path::new(value).symlink_metadata().is_ok();
    let path = !value.contains("://") && (NEW_PATHS.contains(&flag) || there());
    let secret_flag = joined.is_some() && secret::is_secret_name(flag);
    if path && !secret_flag { None } else { secret::secret_in(word) }
}
