//! Generated docs, `docs/job-file.md` and `docs/drivers/`: what the release binary prints of the job file and of each
//! driver, so that the code alone owns names and meanings of fields. CI fails when these files are not what it prints.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::steps::StepOutcome;
use crate::tool;

/// Where the pages of drivers are.
const DRIVERS: &str = "docs/drivers";

/// One generated file: where, relative to the root, and its text.
struct GeneratedPage {
    path: PathBuf,
    text: String,
}

/// `cargo xtask docs [--check]`.
pub fn main(args: &[&str]) -> Result<bool> {
    tool::build("release")?;
    match args {
        [] => {
            let pages = pages()?;
            for path in left_over(&pages)? {
                std::fs::remove_file(tool::root().join(&path))?;
                println!("removed {}", path.display());
            }
            for page in pages {
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
pub fn step() -> Result<StepOutcome> {
    ensure!(tool::taillight().is_file(), "no release binary; run the step `release` first");
    let pages = pages()?;
    let changed = pages.iter().filter(|page| {
        let now = std::fs::read_to_string(tool::root().join(&page.path));
        now.ok().as_deref() != Some(page.text.as_str())
    });
    let left_over = left_over(&pages)?;
    let stale = changed.map(|page| &page.path).chain(&left_over);
    let stale: Vec<String> = stale.map(|path| path.display().to_string()).collect();
    if !stale.is_empty() {
        bail!("not what the code says: {}; run cargo xtask docs", stale.join(", "));
    }
    StepOutcome::note(format!("{} pages", pages.len()))
}

/// Files in the directory of drivers that are none of the pages: of a driver that is gone, or has another name.
fn left_over(pages: &[GeneratedPage]) -> Result<Vec<PathBuf>> {
    let mut left = Vec::new();
    for entry in std::fs::read_dir(tool::root().join(DRIVERS))? {
        let path = Path::new(DRIVERS).join(entry?.file_name());
        if pages.iter().all(|page| page.path != path) {
            left.push(path);
        }
    }
    Ok(left)
}

/// The generated pages as they should be.
fn pages() -> Result<Vec<GeneratedPage>> {
    let mut pages = vec![GeneratedPage {
        path: "docs/job-file.md".into(),
        text: say(&["schema", "job", "--markdown"])?,
    }];
    for name in driver_names(&say(&["drivers", "--json"])?)? {
        pages.push(GeneratedPage {
            path: Path::new(DRIVERS).join(format!("{name}.md")),
            text: say(&["drivers", &name, "--markdown"])?,
        });
    }
    ensure!(pages.len() > 1, "taillight drivers lists none");
    Ok(pages)
}

/// The names in the list of drivers.
fn driver_names(json: &str) -> Result<Vec<String>> {
    #[derive(Deserialize)]
    struct Listed {
        name: String,
    }
    let list: Vec<Listed> = serde_json::from_str(json).context("taillight drivers --json")?;
    Ok(list.into_iter().map(|driver| driver.name).collect())
}

/// What the binary prints.
fn say(args: &[&str]) -> Result<String> {
    tool::output(Command::new(tool::taillight()).args(args))
}
