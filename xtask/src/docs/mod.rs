//! Generated docs: what the binary says about itself, written down. One owner of every field's
//! name and meaning: the code. CI fails when the files under `docs/` are not what it says.

mod job_file;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::steps::Outcome;
use crate::{smoke, tool};

/// One generated file: where, relative to the root, and its text.
struct Page {
    path: PathBuf,
    text: String,
}

/// `cargo xtask docs [--check]`.
pub fn main(args: &[&str]) -> Result<bool> {
    smoke::build()?;
    match args {
        [] => {
            for page in pages()? {
                let path = tool::root().join(&page.path);
                if let Some(dir) = path.parent() {
                    std::fs::create_dir_all(dir)?;
                }
                std::fs::write(&path, &page.text)?;
                println!("wrote {}", page.path.display());
            }
        }
        ["--check"] => {
            step()?;
        }
        _ => bail!("docs takes --check or nothing"),
    }
    Ok(true)
}

/// The CI step: writing them again would change nothing.
pub fn step() -> Result<Outcome> {
    ensure!(
        tool::taillight().is_file(),
        "no release binary; run the step `release` first"
    );
    let pages = pages()?;
    let stale: Vec<String> = pages
        .iter()
        .filter(|page| {
            let now = std::fs::read_to_string(tool::root().join(&page.path));
            now.ok().as_deref() != Some(page.text.as_str())
        })
        .map(|page| page.path.display().to_string())
        .collect();
    if !stale.is_empty() {
        bail!(
            "not what the code says: {}; run cargo xtask docs",
            stale.join(", ")
        );
    }
    Outcome::note(format!("{} pages", pages.len()))
}

/// Every page as it should be.
fn pages() -> Result<Vec<Page>> {
    let schema = json(&["schema", "job"])?;
    let mut pages = vec![Page {
        path: "docs/job-file.md".into(),
        text: job_file::page(&schema)?,
    }];
    for name in driver_names()? {
        pages.push(Page {
            path: Path::new("docs/drivers").join(format!("{name}.md")),
            text: String::new(),
        });
    }
    Ok(pages)
}

fn driver_names() -> Result<Vec<String>> {
    Ok(Vec::new())
}

/// What the binary prints, as text.
fn say(args: &[&str]) -> Result<String> {
    tool::output(Command::new(tool::taillight()).args(args))
}

fn json(args: &[&str]) -> Result<Value> {
    serde_json::from_str(&say(args)?).with_context(|| format!("taillight {}", args.join(" ")))
}
