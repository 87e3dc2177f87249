//! `cargo xtask package`: the command as others get it. One binary goes in, packages come out; only
//! `portable` builds one. What each kind was tried with: docs/install.md.
//!
//! Not here: signing, uploading.

mod deb;
mod image;
mod notices;
mod parts;
mod portable;
mod sbom;
mod tree;
mod wheel;

use std::cell::OnceCell;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::steps::StepOutcome;
use crate::tool;

/// What packages are called: the names of the project and of its command.
const NAME: &str = "taillight";
/// The target that the portable binary and the list of parts are made for.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// What every kind is made from.
pub struct Product {
    /// The command, ready built.
    pub binary: PathBuf,
    pub version: String,
    /// The C library that it needs at least.
    pub glibc: (u32, u32),
    /// Seconds of the commit: the same sources give the same packages.
    pub epoch: String,
    /// Where packages go.
    pub out: PathBuf,
    /// The Debian package, once it is made.
    pub deb: OnceCell<PathBuf>,
}

impl Product {
    fn new(binary: PathBuf) -> Result<Product> {
        ensure!(
            binary.is_file(),
            "{} is missing; first: cargo xtask package portable, or --binary FILE",
            binary.display()
        );
        let said = tool::output(Command::new(&binary).arg("--version"))?;
        let version = said.trim().rsplit(' ').next().context("no version")?.to_owned();
        let epoch = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(given) => given,
            Err(_) => tool::output(
                Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(tool::root()),
            )?,
        };
        let out = out();
        std::fs::create_dir_all(&out)?;
        let glibc = glibc_of(&binary)?;
        Ok(Product {
            binary,
            version,
            glibc,
            epoch: epoch.trim().to_owned(),
            out,
            deb: OnceCell::new(),
        })
    }

    /// A command with the product's time as the only one (`SOURCE_DATE_EPOCH`), one locale and one time zone.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("SOURCE_DATE_EPOCH", &self.epoch).env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        command
    }
}

fn out() -> PathBuf {
    tool::target_dir().join("package")
}

/// A kind of package: its name and what makes it; the file that it made.
type Make = fn(&Product) -> Result<PathBuf>;
const KINDS: &[(&str, Make)] = &[
    ("portable", portable::make),
    ("notices", notices::make),
    ("sbom", sbom::make),
    ("deb", deb::make),
    ("wheel", wheel::make),
    ("image", image::make),
];

/// `cargo xtask package KIND... [--binary FILE]`.
pub fn main(args: &[&str]) -> Result<bool> {
    let mut binary = None;
    let mut kinds = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match (*arg, KINDS.iter().find(|(name, _)| name == arg)) {
            ("--binary", _) => binary = Some(PathBuf::from(args.next().context("which file?")?)),
            (_, Some(kind)) => kinds.push(kind),
            (other, None) => {
                let known: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
                bail!("package takes {} and --binary FILE, not {other}", known.join(", "));
            }
        }
    }
    ensure!(!kinds.is_empty(), "which kind? See cargo xtask help");
    let builds = kinds.iter().any(|(name, _)| *name == "portable") && binary.is_none();
    let binary = match binary {
        Some(given) => std::path::absolute(given)?,
        None if builds => portable::build()?,
        None => portable::binary(),
    };
    let product = Product::new(binary)?;
    for (name, make) in kinds {
        let made = make(&product)?;
        println!("{name}: {} ({})", made.display(), size(&made)?);
    }
    Ok(true)
}

fn size(path: &Path) -> Result<String> {
    let said = tool::output(Command::new("du").args(["-sh", "--apparent-size"]).arg(path))?;
    Ok(said.split_whitespace().next().unwrap_or("?").to_owned())
}

/// The CI step: every kind but `portable`, of the binary that the step `release` built; those that install are tried as
/// their users would. What has no tools here is left out, and said.
pub fn step() -> Result<StepOutcome> {
    let product = Product::new(tool::taillight())?;
    let mut notes = Vec::new();
    for (name, make) in KINDS {
        let missing = match *name {
            // Another build of everything: by hand.
            "portable" => Some("built by hand".to_owned()),
            "deb" => deb::missing(),
            "wheel" => wheel::missing(),
            "image" => image::missing(),
            _ => None,
        };
        notes.push(match missing {
            Some(why) => format!("{name} left out: {why}"),
            None => format!("{name} {}", size(&make(&product)?)?),
        });
        println!("{}", notes.last().map_or("", String::as_str));
    }
    StepOutcome::note(notes.join(", "))
}

/// The newest C library that a program asks for, by its symbols.
fn glibc_of(binary: &Path) -> Result<(u32, u32)> {
    let symbols = tool::output(Command::new("objdump").arg("-T").arg(binary))?;
    newest_glibc(&symbols).with_context(|| format!("{}: no GLIBC symbols", binary.display()))
}

fn newest_glibc(symbols: &str) -> Option<(u32, u32)> {
    let of = |rest: &str| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let mut parts = rest[..end].split('.').map(str::parse);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    };
    symbols.split("GLIBC_").skip(1).filter_map(of).max()
}

/// Writes a file with its directories; `mode` as for chmod.
fn put(path: &Path, text: impl AsRef<[u8]>, mode: u32) -> Result<()> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    std::fs::write(path, text).with_context(|| path.display().to_string())?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    Ok(())
}

/// An empty directory of that name under the packages.
fn fresh(product: &Product, name: &str) -> Result<PathBuf> {
    let dir = product.out.join(name);
    if dir.exists() {
        std::fs::remove_dir_all(&dir)?;
    }
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// The first program of a list that is not installed, as a reason.
fn lacking(programs: &[&str]) -> Option<String> {
    let missing = programs.iter().find(|program| tool::which(program).is_none())?;
    Some(format!("{missing} is not installed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_c_library_is_found_by_number() {
        let symbols = "0 DF *UND* 0 (GLIBC_2.2.5) read\n0 (GLIBC_2.28) x\n0 (GLIBC_2.3.4) y\n";
        assert_eq!(newest_glibc(symbols), Some((2, 28)));
        assert_eq!(newest_glibc("0 (GLIBC_PRIVATE) z"), None);
    }
}
