//! `taillight --version`, and with -v what a bug report needs: commit, build, compiler, features, checksum of the BPF
//! object, and which libraries of drivers are found here.

use sha2::{Digest, Sha256};
use taillight_core::Result;
use taillight_core::exit::Exit;
use taillight_trace::availability::libraries;

use crate::output;

/// Cargo features of this build, with whether it has them.
const FEATURES: [(&str, bool); 2] = [("s3", cfg!(feature = "s3")), ("tui", cfg!(feature = "tui"))];

/// Runs it. Errors: `Unavailable` when standard output cannot be written; `Internal` when the BPF object is damaged.
pub fn main(verbose: bool) -> Result<Exit> {
    output::text(&if verbose { long()? } else { line() })?;
    Ok(Exit::Ok)
}

fn line() -> String {
    format!("taillight {}\n", env!("CARGO_PKG_VERSION"))
}

/// The version and the commit in one line.
pub fn with_commit() -> String {
    format!("taillight {} ({})", env!("CARGO_PKG_VERSION"), env!("TAILLIGHT_COMMIT"))
}

fn long() -> Result<String> {
    let features = FEATURES.map(|(name, has)| match has {
        true => name.to_owned(),
        false => format!("no {name}"),
    });
    let object = Sha256::digest(taillight_trace::bpf_object()?);
    let object: String = object.iter().map(|b| format!("{b:02x}")).collect();
    let mut rows = vec![
        row("commit", env!("TAILLIGHT_COMMIT")),
        row("build", &format!("{}, {}", env!("TAILLIGHT_TARGET"), env!("TAILLIGHT_PROFILE"))),
        row("compiler", env!("TAILLIGHT_RUSTC")),
        row("features", &features.join(", ")),
        row("BPF sha256", &object),
    ];
    for driver in taillight_driver::DRIVERS {
        let Some(name) = driver.library() else { continue };
        let found = match libraries::find(name, &libraries::directories()) {
            Some(found) => {
                let version = driver.library_version().or(found.version).unwrap_or_default();
                format!("{version} {}", found.path.display()).trim().to_owned()
            }
            None => "not found".to_owned(),
        };
        rows.push(row(name, &found));
    }
    Ok(line() + &output::columns(&rows))
}

fn row(name: &str, value: &str) -> Vec<String> {
    vec![name.to_owned(), value.to_owned()]
}
