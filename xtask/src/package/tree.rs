//! What packages install, as one tree of files from `usr/` down: the command, its manual and
//! completions, the suites, jobs and dashboards, notices and the list of parts.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{NAME, Product, fresh, notices, put, sbom};
use crate::tool;

/// Data that users look at, copy and change.
const DATA: &[&str] = &["suites", "jobs", "dashboards"];

/// Completions of shells and where Debian's shells look for them.
const SHELLS: &[(&str, &str)] = &[
    ("bash", "bash-completion/completions/taillight"),
    ("zsh", "zsh/vendor-completions/_taillight"),
    ("fish", "fish/vendor_completions.d/taillight.fish"),
];

/// Makes the tree in a fresh directory of that name.
pub fn stage(product: &Product, name: &str) -> Result<PathBuf> {
    let tree = fresh(product, name)?;
    let share = tree.join("usr/share");
    let command = || Command::new(&product.binary);
    put(&tree.join("usr/bin").join(NAME), std::fs::read(&product.binary)?, 0o755)?;
    for (shell, place) in SHELLS {
        let script = tool::output(command().args(["completions", shell]))?;
        put(&share.join(place), script, 0o644)?;
    }
    let pages = share.join("man/man1");
    tool::output(command().arg("man").arg(&pages))?;
    compress(product, std::fs::read_dir(&pages)?.map(|page| Ok(page?.path())))?;
    for path in tool::files()? {
        if DATA.iter().any(|dir| path.starts_with(dir)) {
            let bytes = std::fs::read(tool::root().join(&path))?;
            put(&share.join(NAME).join(&path), bytes, 0o644)?;
        }
    }
    let doc = share.join("doc").join(NAME);
    let copyright = include_str!("copyright");
    put(&doc.join("copyright"), copyright, 0o644)?;
    let changes = std::fs::read(tool::root().join("CHANGELOG.md")).context("CHANGELOG.md")?;
    put(&doc.join("changelog"), changes, 0o644)?;
    put(&doc.join("THIRD-PARTY"), notices::text()?, 0o644)?;
    put(&doc.join("sbom.cdx.json"), sbom::text(product)?, 0o644)?;
    let long = ["changelog", "THIRD-PARTY"];
    compress(product, long.iter().map(|name| Ok(doc.join(name))))?;
    Ok(tree)
}

/// Packs files in place, without their names and times.
pub fn compress(
    product: &Product,
    files: impl Iterator<Item = std::io::Result<PathBuf>>,
) -> Result<()> {
    let files: Vec<PathBuf> = files.collect::<std::io::Result<_>>()?;
    tool::run(product.command("gzip").args(["-9n", "--force"]).args(files))
}

/// `dir` as a tar file packed by gzip, which is the same whoever makes it and whenever.
pub fn tar(product: &Product, dir: &Path, inside: &str, to: &Path) -> Result<()> {
    let mut tar = product.command("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    tar.arg(format!("--mtime=@{}", product.epoch)).arg(format!("--transform=s,^\\.,{inside},"));
    tar.args(["--use-compress-program=gzip -9n", "-cf"]).arg(to).arg("-C").arg(dir).arg(".");
    tool::run(&mut tar)
}
