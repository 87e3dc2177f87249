//! The container image: a bare Debian root with the package in it, as an OCI archive, made without a
//! daemon. The root is also where the Debian package proves itself: `dpkg -i` and `taillight selftest`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::Value;

use super::{NAME, Product, deb, fresh, lacking, tree};
use crate::tool;

/// The distribution whose libraries of RocksDB and LevelDB the drivers were tried with.
const SUITE: &str = "bookworm";
const PACKAGES: &str = "ca-certificates,libleveldb1d,librocksdb7.8";
/// Left out of the root, as images do, but for licences and what is ours.
const LEAVE: &[&str] = &[
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-include=/usr/share/doc/taillight/*",
];

/// Why none can be made here.
pub fn missing() -> Option<String> {
    if !tool::is_root() {
        return Some("a bare root is made by root only".to_owned());
    }
    lacking(&["dpkg-deb", "mmdebstrap", "umoci", "skopeo"])
}

/// Makes it and reads it back.
pub fn make(product: &Product) -> Result<PathBuf> {
    let deb = deb::build(product)?;
    let dir = fresh(product, "image")?;
    let root = dir.join("root.tar");
    bare_root(product, &deb, &root)?;
    let layout = dir.join("layout");
    write_layout(product, &root, &layout)?;
    let file = product.out.join(format!("{NAME}-{}-oci.tar", product.version));
    tree::tar(product, &layout, ".", &file)?;
    reads_back(product, &file, &layout, &dir)?;
    std::fs::remove_dir_all(&dir)?;
    Ok(file)
}

/// A root with nothing but the essential packages, the libraries that the package recommends, and the
/// package, which has tested itself there.
fn bare_root(product: &Product, deb: &Path, to: &Path) -> Result<()> {
    let mut make = product.command("mmdebstrap");
    make.args(["--mode=root", "--variant=essential", "--quiet"]);
    make.arg(format!("--include={PACKAGES}"));
    make.args(LEAVE.iter().map(|rule| format!("--dpkgopt={rule}")));
    let copy = format!("copy-in {} /tmp", deb.display());
    for hook in [
        copy.as_str(),
        "chroot \"$1\" sh -c 'dpkg -i /tmp/*.deb && rm /tmp/*.deb'",
        "chroot \"$1\" taillight selftest --quiet",
        "mkdir -p \"$1/data\"",
    ] {
        make.arg(format!("--customize-hook={hook}"));
    }
    tool::run(make.arg(SUITE).arg(to))
}

fn write_layout(product: &Product, root: &Path, layout: &Path) -> Result<()> {
    let image = format!("{}:{}", layout.display(), product.version);
    let umoci = |args: &[&str]| tool::output(product.command("umoci").args(args)).map(drop);
    umoci(&["init", "--layout", &layout.display().to_string()])?;
    umoci(&["new", "--image", &image])?;
    let mut date = product.command("date");
    let date = tool::output(date.args(["+%FT%TZ", "-d"]).arg(format!("@{}", product.epoch)))?;
    let date = date.trim();
    let layer = root.display().to_string();
    let said = format!("--history.created={date}");
    umoci(&["raw", "add-layer", &said, "--image", &image, &layer])?;
    let mut config = product.command("umoci");
    config.args(["config", &said, "--image", &image, "--created", date]);
    config.args(["--config.entrypoint", NAME, "--config.workingdir", "/data"]);
    for (label, value) in [
        ("title", "Taillight"),
        ("description", "Storage benchmark: every I/O measured, truthful tails"),
        ("version", &product.version),
        ("created", date),
        ("licenses", "Apache-2.0 AND (MIT OR GPL-2.0-only)"),
    ] {
        config.arg(format!("--config.label=org.opencontainers.image.{label}={value}"));
    }
    tool::output(&mut config)?;
    umoci(&["gc", "--layout", &layout.display().to_string()])
}

/// Another program reads the archive, and what it holds runs.
fn reads_back(product: &Product, file: &Path, layout: &Path, dir: &Path) -> Result<()> {
    let archive = format!("oci-archive:{}", file.display());
    let said = tool::output(Command::new("skopeo").args(["inspect", &archive]))?;
    let said: Value = serde_json::from_str(&said)?;
    let label = &said["Labels"]["org.opencontainers.image.version"];
    ensure!(*label == product.version.as_str(), "the image says version {label}");
    let unpacked = dir.join("unpacked");
    let image = format!("{}:{}", layout.display(), product.version);
    tool::output(Command::new("umoci").args(["unpack", "--image", &image]).arg(&unpacked))?;
    let mut run = Command::new("chroot");
    let said = tool::output(run.arg(unpacked.join("rootfs")).args([NAME, "--version", "-v"]))?;
    ensure!(said.contains("librocksdb  7.8"), "the image's command says\n{said}");
    Ok(())
}
