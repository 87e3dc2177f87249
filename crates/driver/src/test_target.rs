//! Where a driver says that it can be tested, for `Driver::test_target`.

use std::path::Path;

/// A place on this machine where a driver can be tested.
pub struct TestTarget {
    /// `target.path`.
    pub path: String,
    /// `[target.options]`, as text; the suite runs once with each.
    pub options: Vec<String>,
    /// Where the driver scans, it scans against the order of keys, too.
    pub reverse: bool,
    /// Names what a run left behind there: nothing, when the driver cleans up. May own the server
    /// that the driver is tested with.
    pub leftovers: Box<dyn Fn() -> Vec<String>>,
}

/// The place, or why there is none on this machine.
pub type TestSetup = std::result::Result<TestTarget, String>;

impl TestTarget {
    /// At `name` in `dir`, which is empty.
    pub fn local(dir: &Path, name: &str, options: &[&str]) -> TestTarget {
        let here = dir.to_owned();
        let names = move || {
            let entries = std::fs::read_dir(&here).into_iter().flatten().flatten();
            entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect()
        };
        TestTarget {
            path: format!("{}/{name}", dir.display()),
            options: options.iter().map(|o| (*o).to_owned()).collect(),
            reverse: true,
            leftovers: Box::new(names),
        }
    }
}
