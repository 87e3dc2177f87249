//! What `--version -v` says of the build (commit, target, profile, compiler), and the date of the manual. A packager
//! who builds without git gives commit and date in TAILLIGHT_COMMIT and TAILLIGHT_DATE.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=TAILLIGHT_COMMIT");
    println!("cargo::rerun-if-env-changed=TAILLIGHT_DATE");
    println!("cargo::rustc-env=TAILLIGHT_COMMIT={}", commit());
    println!("cargo::rustc-env=TAILLIGHT_DATE={}", date());
    println!("cargo::rustc-env=TAILLIGHT_TARGET={}", env("TARGET"));
    println!("cargo::rustc-env=TAILLIGHT_PROFILE={}", env("PROFILE"));
    let rustc = output(&mut Command::new(env("RUSTC")), &["--version"]);
    println!("cargo::rustc-env=TAILLIGHT_RUSTC={}", rustc.unwrap_or_else(|| "unknown".to_owned()));
}

fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

fn output(command: &mut Command, args: &[&str]) -> Option<String> {
    let output = command.args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// Day of the commit, so that the manual is the same whenever it is made; empty without git and TAILLIGHT_DATE.
fn date() -> String {
    let given = env("TAILLIGHT_DATE");
    if !given.is_empty() {
        return given;
    }
    let mut git = Command::new("git");
    git.current_dir(env("CARGO_MANIFEST_DIR"));
    output(&mut git, &["show", "--no-patch", "--format=%cs"]).unwrap_or_default()
}

/// The commit of the sources, with ", changed" where they differ from it; "unknown" where git does not tell.
fn commit() -> String {
    let given = env("TAILLIGHT_COMMIT");
    if !given.is_empty() {
        return given;
    }
    let here = env("CARGO_MANIFEST_DIR");
    let git = |args: &[&str]| output(Command::new("git").current_dir(&here), args);
    // A tree inside somebody else's repository has no commit of its own.
    let ours = git(&["ls-files", "--error-unmatch", "Cargo.toml"]).is_some();
    let Some(commit) = ours.then(|| git(&["rev-parse", "--short=12", "HEAD"])).flatten() else {
        return "unknown".to_owned();
    };
    // Git writes these at a commit or checkout.
    for log in ["logs/HEAD", "index"] {
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", log])
            && Path::new(&path).is_file()
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    for dir in std::fs::read_dir(Path::new(&here).join("..")).into_iter().flatten().flatten() {
        println!("cargo::rerun-if-changed={}", dir.path().join("src").display());
    }
    let changed = git(&["status", "--porcelain", "--untracked-files=no", "--", ".."]);
    match changed.is_some_and(|list| !list.is_empty()) {
        true => format!("{commit}, changed"),
        false => commit,
    }
}
