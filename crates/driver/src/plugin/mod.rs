//! `plugin`: any store behind a shared library with one exported function (`sdk/taillight_driver.h`).
//!
//! Options and capabilities come from what the library says of itself, sessions work over memory of the host, the
//! host's mark is a record in the store, and the cost of the bridge is measured before each run. The library runs in
//! this process, which nothing protects from its crash.

mod cost;
mod describe;
mod mark;
mod session;
mod sys;
mod target;

use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::capability::Capabilities;
use taillight_core::plan::TargetPlan;
use taillight_core::progress::OnProgress;
use taillight_core::{Error, Result};

#[cfg(any(test, feature = "testing"))]
use crate::conformance::{TestSetup, TestTarget};
use crate::contract::{Driver, OpenSpec, Target};
use crate::options::{DriverOptions, OptionSet, complete};
pub use describe::PluginDescription;
use sys::PluginLibrary;

/// Options of the driver `plugin`; beside them stand those of the plug-in itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PluginOptions {
    /// The plug-in: a shared library, with a directory (`./mine.so`). `taillight drivers --check ./mine.so` shows
    /// what it is and lists its own options, which stand beside these.
    #[schemars(title = "path of a file")]
    pub library: String,
    /// Records stay after the run, with the mark that says whose they are.
    pub keep: bool,
    /// Nothing is written, no mark either: reads what somebody else stored. Keys of the plan are believed to be there.
    pub read_only: bool,
}

impl DriverOptions for PluginOptions {}

impl PluginOptions {
    /// What no option of a plug-in may be called.
    pub const NAMES: [&str; 3] = ["library", "keep", "read_only"];
}

/// A plug-in in this process, and what it says of itself.
pub struct Plugin {
    library: PluginLibrary,
    pub description: PluginDescription,
}

/// Those that were loaded, by the name that they were asked for.
static LOADED: Mutex<Vec<(String, &'static Plugin)>> = Mutex::new(Vec::new());

impl Plugin {
    /// Loads it once. Errors: `Usage` without a name, `Unavailable` when it cannot be used.
    pub fn load(name: &str) -> Result<&'static Plugin> {
        if name.is_empty() {
            return Err(Error::usage("the driver `plugin` needs a library")
                .of_field("library")
                .hint("name it: --set target.options.library=./mine.so; docs/stores.md says what there is"));
        }
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, plugin)) = loaded.iter().find(|(known, _)| known == name) {
            return Ok(plugin);
        }
        let library = PluginLibrary::load(name)?;
        let description = library.describe().and_then(|text| PluginDescription::parse(&text));
        let description = description.map_err(|e| e.with("library", name))?;
        let plugin: &'static Plugin = Box::leak(Box::new(Plugin { library, description }));
        loaded.push((name.to_owned(), plugin));
        Ok(plugin)
    }
}

/// Options of the host and those of the plug-in, apart.
pub struct PluginSettings {
    plugin: &'static Plugin,
    options: PluginOptions,
    /// All of the plug-in's own.
    own: toml::Table,
}

impl PluginSettings {
    /// From options as written. Errors: `Usage` for options that are not there; as [`Plugin::load`].
    pub fn of(target: &TargetPlan) -> Result<PluginSettings> {
        let (mut host, mut own) = (toml::Table::new(), toml::Table::new());
        for (name, value) in &target.options {
            let side =
                if PluginOptions::NAMES.contains(&name.as_str()) { &mut host } else { &mut own };
            side.insert(name.clone(), value.clone());
        }
        let options = PluginOptions::parse(PluginDriver::NAME, &host)?;
        let plugin = Plugin::load(&options.library)?;
        Ok(PluginSettings { own: plugin.description.complete(&own)?, options, plugin })
    }
}

/// The driver.
pub struct PluginDriver;

impl PluginDriver {
    const NAME: &str = "plugin";
}

impl Driver for PluginDriver {
    fn name(&self) -> &'static str {
        PluginDriver::NAME
    }
    fn about(&self) -> &'static str {
        "any store behind a shared library with one function, in C, Rust, Go or what makes one"
    }
    fn option_set(&self) -> OptionSet {
        OptionSet::of::<PluginOptions>()
    }
    fn resolve(&self, target: &TargetPlan) -> Result<toml::Table> {
        let settings = PluginSettings::of(target)?;
        let mut all = complete(&settings.options)?;
        all.extend(settings.own);
        Ok(all)
    }
    fn capabilities(&self, target: &TargetPlan) -> Result<Capabilities> {
        let settings = PluginSettings::of(target)?;
        Ok(settings.plugin.description.capabilities(&settings.options))
    }
    fn check(&self, spec: &OpenSpec<'_>) -> Result<()> {
        target::check(spec).map(drop)
    }
    fn open(&self, spec: &OpenSpec<'_>, _: &mut OnProgress<'_>) -> Result<Box<dyn Target>> {
        Ok(Box::new(target::PluginTarget::open(spec)?))
    }
    #[cfg(any(test, feature = "testing"))]
    fn test_target(&self, dir: &std::path::Path) -> TestSetup {
        let libraries = testing::examples()?;
        let options = libraries.iter().map(|l| format!("library = {:?}", l.display().to_string()));
        let options: Vec<String> = options.collect();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        Ok(TestTarget::local(dir, "data", &options))
    }
}

/// Plug-ins made of C files, for tests.
#[cfg(any(test, feature = "testing"))]
pub mod testing {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    fn sdk() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk")
    }

    /// Compiles a C file to a library in the directory of temporary files, under a name of its own. Errors: what
    /// the compiler says, or that there is none.
    pub fn compile(source: &Path) -> Result<PathBuf, String> {
        let stem = source.file_stem().unwrap_or_default().to_string_lossy();
        let out = std::env::temp_dir();
        let out = out.join(format!("taillight-plugin-{stem}-{}.so", std::process::id()));
        let mut cc = Command::new("cc");
        cc.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread"]);
        cc.arg("-I").arg(sdk()).arg("-o").arg(&out).arg(source);
        let made = cc.output().map_err(|e| format!("no C compiler: {e}"))?;
        match made.status.success() {
            true => Ok(out),
            false => Err(String::from_utf8_lossy(&made.stderr).into_owned()),
        }
    }

    /// The examples of the SDK.
    pub fn examples() -> Result<Vec<PathBuf>, String> {
        ["null.c", "records.c"]
            .iter()
            .map(|name| compile(&sdk().join("examples/c").join(name)))
            .collect()
    }
}
