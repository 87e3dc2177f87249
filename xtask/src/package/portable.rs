//! The portable binary: built against an old C library, so that it runs on distributions since 2018 (RHEL 8, Debian 10,
//! Ubuntu 20.04), and loads their RocksDB and LevelDB.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{NAME, Product, TARGET, out, put, tree};
use crate::{setup, tool};

/// The C library that it is built against.
const GLIBC: (u32, u32) = (2, 28);

/// Where the binary lies once it is built.
pub fn binary() -> PathBuf {
    out().join("build").join(TARGET).join("release").join(NAME)
}

/// Builds it with zig as linker and C compiler, in a target directory of its own.
pub fn build() -> Result<PathBuf> {
    let tools = setup::python_tools(&["cargo-zigbuild==0.24.1", "ziglang==0.17.1"])?;
    let zigbuild = tools.join("cargo-zigbuild");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(tools).chain(std::env::split_paths(&path)))?;
    let (major, minor) = GLIBC;
    let mut cargo = Command::new(zigbuild);
    cargo.current_dir(tool::root());
    cargo.args(["zigbuild", "--release", "--locked", "--package", "taillight-cli"]);
    cargo.arg(format!("--target={TARGET}.{major}.{minor}"));
    cargo.env("PATH", path).env("CARGO_TARGET_DIR", out().join("build"));
    // Paths of this machine have no place in it, and two machines should give the same bytes.
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    let home = home.context("neither CARGO_HOME nor HOME is set")?;
    let map = |from: &PathBuf, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    let flags = [map(&tool::root(), "/src"), map(&home, "/cargo")].join(" ");
    tool::run(cargo.env("RUSTFLAGS", flags).env("CARGO_INCREMENTAL", "0"))?;
    Ok(binary())
}

/// The tree as an archive that is unpacked anywhere; its command tests itself. Errors also when the
/// binary asks for a newer C library than it says.
pub fn make(product: &Product) -> Result<PathBuf> {
    let (major, minor) = product.glibc;
    ensure!(
        product.glibc <= GLIBC,
        "the binary wants glibc {major}.{minor}, a portable one at most {}.{}",
        GLIBC.0,
        GLIBC.1
    );
    let dir = tree::stage(product, "portable")?;
    // Debian has the texts; others need them.
    for file in ["LICENSE", "NOTICE"] {
        let to = dir.join("usr/share/doc").join(NAME).join(file);
        put(&to, std::fs::read(tool::root().join(file))?, 0o644)?;
    }
    let name = format!("{NAME}-{}-{TARGET}-glibc{major}.{minor}", product.version);
    let file = product.out.join(format!("{name}.tar.gz"));
    tree::tar(product, &dir.join("usr"), &name, &file)?;
    tool::output(Command::new(dir.join("usr/bin").join(NAME)).args(["selftest", "--quiet"]))?;
    Ok(file)
}
