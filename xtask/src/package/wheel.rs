//! A wheel that carries the command, for `pip`, `pipx` and `uv`. The name `taillight` belongs to
//! another project of that registry, hence `taillight-bench`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{NAME, Product, fresh, notices, put, sbom};
use crate::{setup, tool};

const DISTRIBUTION: &str = "taillight-bench";
const FILE: &str = "taillight_bench";

/// Why no wheel can be made here.
pub fn missing() -> Option<String> {
    setup::python_tools(&["wheel"]).err().map(|why| format!("{why:#}"))
}

/// Makes it, installs it into a new environment and lets it test itself.
pub fn make(product: &Product) -> Result<PathBuf> {
    let tools = setup::python_tools(&["wheel"])?;
    let dir = fresh(product, "wheel")?;
    let info = dir.join(format!("{FILE}-{}.dist-info", product.version));
    let scripts = dir.join(format!("{FILE}-{}.data/scripts", product.version));
    put(&scripts.join(NAME), std::fs::read(&product.binary)?, 0o755)?;
    let (major, minor) = product.glibc;
    let tag = format!("py3-none-manylinux_{major}_{minor}_{}", std::env::consts::ARCH);
    let wheel =
        format!("Wheel-Version: 1.0\nGenerator: taillight\nRoot-Is-Purelib: false\nTag: {tag}\n");
    put(&info.join("WHEEL"), wheel, 0o644)?;
    let root = tool::root();
    let mut head = format!(
        "Metadata-Version: 2.4\nName: {DISTRIBUTION}\nVersion: {}\n\
         Summary: Storage benchmark: every I/O measured, truthful tails\n\
         License-Expression: Apache-2.0 AND (MIT OR GPL-2.0-only)\n",
        product.version
    );
    for file in ["LICENSE", "NOTICE"] {
        put(&info.join("licenses").join(file), std::fs::read(root.join(file))?, 0o644)?;
        head += &format!("License-File: {file}\n");
    }
    put(&info.join("licenses/THIRD-PARTY"), notices::text()?, 0o644)?;
    head += "License-File: THIRD-PARTY\nDescription-Content-Type: text/markdown\n\n";
    head += &std::fs::read_to_string(root.join("README.md"))?;
    put(&info.join("METADATA"), head, 0o644)?;
    put(&info.join("sboms/taillight.cdx.json"), sbom::text(product)?, 0o644)?;
    let mut pack = product.command(tools.join("python"));
    pack.args(["-m", "wheel", "pack"]).arg(&dir).arg("--dest-dir").arg(&product.out);
    tool::output(&mut pack)?;
    let made = product.out.join(format!("{FILE}-{}-{tag}.whl", product.version));
    ensure!(made.is_file(), "{} was not made", made.display());
    installs(product, &made)?;
    Ok(made)
}

/// As a user would: a new environment, no other package, the command at work.
fn installs(product: &Product, wheel: &Path) -> Result<()> {
    let home = fresh(product, "wheel-try")?;
    let python = tool::which("python3").context("python3 is missing")?;
    tool::output(Command::new(python).args(["-m", "venv"]).arg(&home))?;
    let mut pip = Command::new(home.join("bin/pip"));
    pip.args(["install", "--quiet", "--no-index", "--disable-pip-version-check"]).arg(wheel);
    tool::output(&mut pip)?;
    let command = home.join("bin").join(NAME);
    let said = tool::output(Command::new(&command).arg("--version"))?;
    ensure!(said.contains(&product.version), "it says {said}");
    tool::output(Command::new(&command).args(["selftest", "--quiet"]))?;
    std::fs::remove_dir_all(&home)?;
    Ok(())
}
