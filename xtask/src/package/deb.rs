//! The Debian package: the tree with a control file, by `dpkg-deb`. What the command needs is read from
//! the binary, so that one built against an old C library installs on old distributions.
//!
//! Installed and tested in a bare root by `image`, whose first layer is that root.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::{NAME, Product, lacking, put, tree};
use crate::tool;

/// Not an address to write to: the project has none yet.
const MAINTAINER: &str = "Taillight maintainers <maintainers@taillight.invalid>";

/// Why none can be made here.
pub fn missing() -> Option<String> {
    lacking(&["dpkg-deb", "dpkg"])
}

/// Makes it and looks at it with lintian, where that is installed.
pub fn make(product: &Product) -> Result<PathBuf> {
    let file = build(product)?;
    if let Some(why) = lacking(&["lintian"]) {
        println!("{why}: the package is not checked");
        return Ok(file);
    }
    let mut lint = product.command("lintian");
    lint.args(["--fail-on=error,warning", "--allow-root", "--tag-display-limit=0"]);
    tool::run(lint.arg(&file))?;
    Ok(file)
}

/// Makes it, once.
pub fn build(product: &Product) -> Result<PathBuf> {
    if let Some(made) = product.deb.get() {
        return Ok(made.clone());
    }
    let tree = tree::stage(product, "deb")?;
    let share = tree.join("usr/share");
    put(&share.join("lintian/overrides").join(NAME), include_str!("overrides"), 0o644)?;
    let version = format!("{}-1", product.version);
    let changes = share.join("doc").join(NAME).join("changelog.Debian");
    let mut date = product.command("date");
    let date = tool::output(date.args(["-R", "-d"]).arg(format!("@{}", product.epoch)))?;
    let entry = format!(
        "{NAME} ({version}) unstable; urgency=medium\n\n  * Packaged by its makers; see changelog.gz.\n\n \
         -- {MAINTAINER}  {date}"
    );
    put(&changes, entry, 0o644)?;
    tree::compress(product, std::iter::once(Ok(changes)))?;
    let control = control(product, &tree, &version)?;
    put(&tree.join("DEBIAN/control"), control, 0o644)?;
    let sums = "find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum > DEBIAN/md5sums";
    tool::run(Command::new("sh").args(["-c", sums]).current_dir(&tree))?;
    tool::run(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(&tree))?;
    let file = product.out.join(format!("{NAME}_{version}_{}.deb", architecture()?));
    let mut build = product.command("dpkg-deb");
    build.args(["--build", "--root-owner-group", "-Zxz"]).arg(&tree).arg(&file);
    tool::output(&mut build)?;
    Ok(product.deb.get_or_init(|| file).clone())
}

fn architecture() -> Result<String> {
    let said = tool::output(Command::new("dpkg").arg("--print-architecture"))?;
    Ok(said.trim().to_owned())
}

fn control(product: &Product, tree: &Path, version: &str) -> Result<String> {
    let said = tool::output(Command::new("du").args(["-sk", "--apparent-size"]).arg(tree))?;
    let size = said.split_whitespace().next().unwrap_or("0").to_owned();
    let linked = tool::output(Command::new("objdump").arg("-p").arg(&product.binary))?;
    let (major, minor) = product.glibc;
    let mut needs = format!("libc6 (>= {major}.{minor})");
    if linked.contains("libgcc_s.so.1") {
        needs += ", libgcc-s1";
    }
    Ok(format!(
        "Package: {NAME}\nVersion: {version}\nArchitecture: {}\nMaintainer: {MAINTAINER}\n\
         Installed-Size: {size}\nDepends: {needs}\n\
         Recommends: ca-certificates, libleveldb1d, librocksdb7.8\n\
         Section: utils\nPriority: optional\n\
         Description: storage benchmark that measures every I/O, with truthful tails\n \
         Taillight drives files, block devices, key-value stores and object stores,\n \
         keeps every single I/O, and says how slow the slowest are, how sure that is,\n \
         and which layer of the system held them.\n .\n \
         RocksDB and LevelDB are loaded when a job asks for them. Object stores with\n \
         https need the certificates of ca-certificates.\n",
        architecture()?
    ))
}
