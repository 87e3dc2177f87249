//! `plugin`: any store behind a shared library with one exported function (`sdk/taillight_driver.h`).
//!
//! Options and capabilities come from what the library says of itself, sessions work over memory of the host, the
//! host's mark is a record in the store, and the cost of the bridge is measured before a run. The library runs in this
//! process, which nothing protects from its crash.

mod carrier;
mod describe;
mod mark;
mod noop;
pub(crate) mod session;
pub(crate) mod sys;
pub(crate) mod target;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::capability::Capabilities;
use taillight_core::plan::{TargetPlan, WorkShare};
use taillight_core::progress::OnProgress;
use taillight_core::samples::{SampleDisplay, SamplePanel, SampleUnit};
use taillight_core::{Error, Result};

use crate::contract::{BoundDriver, Driver, OpenSpec, Target};
use crate::options::{DriverOptions, OptionSet, complete};
use crate::process::{self, DriverProgram, ProcessOptions};
#[cfg(any(test, feature = "testing"))]
use crate::test_target::{TestSetup, TestTarget};
pub(crate) use carrier::PluginCarrier;
pub use describe::PluginDescription;
use sys::PluginLibrary;
pub use sys::{before_last_words, crash_by_signal};
pub(crate) use target::{PluginTarget, check};

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
    const NAMES: &[&str] = &["library", "keep", "read_only"];
}

/// How the host uses a plug-in, whatever carries it.
#[derive(Debug, Clone, Default)]
pub struct PluginUse {
    /// The library or the command, as the job has it; with driver `jvm` the table.
    pub name: String,
    pub keep: bool,
    pub read_only: bool,
    /// The plug-in runs in a process of its own.
    pub apart: bool,
}

/// A plug-in that is there, and what it says of itself.
pub struct Plugin {
    pub(crate) carrier: PluginCarrier,
    pub description: PluginDescription,
}

/// Plug-ins that were loaded or started, by whether they are programs and the name that they were
/// asked for.
static LOADED: Mutex<Vec<((bool, String), &'static Plugin)>> = Mutex::new(Vec::new());

impl Plugin {
    /// Loads a library once. Errors: `Usage` without a name, `Unavailable` when it cannot be used.
    pub fn load(name: &str) -> Result<&'static Plugin> {
        if name.is_empty() {
            return Err(Error::usage("the driver `plugin` needs a library")
                .of_field("library")
                .hint("name it: --set target.options.library=./mine.so; docs/stores.md says what there is"));
        }
        Plugin::once(false, name, || {
            let library = PluginLibrary::load(name)?;
            let described = library.describe();
            let parse = |text: String| PluginDescription::parse(&text, PluginOptions::NAMES);
            let description = described.and_then(parse).map_err(|e| e.with("library", name))?;
            Ok(Plugin { carrier: PluginCarrier::Library(library), description })
        })
    }

    /// Starts a program once, and again when it ended. Errors: `Usage` when it is none that serves operations.
    pub fn start(options: &ProcessOptions) -> Result<&'static Plugin> {
        let patience = Duration::from_nanos(options.patience.0);
        let plugin = Plugin::once(true, &options.command, || {
            let (program, text) = DriverProgram::start(&options.command, patience)?;
            let described = PluginDescription::parse(&text, ProcessOptions::NAMES);
            // The job names a program that is no driver: nothing was touched.
            let description = described.map_err(|e| {
                Error::usage(e.to_string())
                    .with("command", &options.command)
                    .hint_some(e.hint_text().map(str::to_owned))
            })?;
            Ok(Plugin { carrier: PluginCarrier::Program(program), description })
        })?;
        if let PluginCarrier::Program(program) = &plugin.carrier {
            program.set_patience(patience);
        }
        Ok(plugin)
    }

    fn once(
        apart: bool,
        name: &str,
        make: impl FnOnce() -> Result<Plugin>,
    ) -> Result<&'static Plugin> {
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.retain(|(_, plugin)| match &plugin.carrier {
            PluginCarrier::Library(_) => true,
            PluginCarrier::Program(program) => program.is_alive(),
        });
        if let Some((_, plugin)) =
            loaded.iter().find(|((kind, known), _)| *kind == apart && known == name)
        {
            return Ok(plugin);
        }
        let plugin: &'static Plugin = Box::leak(Box::new(make()?));
        loaded.push(((apart, name.to_owned()), plugin));
        Ok(plugin)
    }
}

/// Ends the programs that were started, as this one ends.
pub fn end_programs() {
    let loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    for (_, plugin) in loaded.iter() {
        if let PluginCarrier::Program(program) = &plugin.carrier {
            program.end();
        }
    }
}

/// Options of the host and those of the plug-in, apart.
#[derive(Clone)]
pub struct PluginSettings {
    pub(crate) plugin: &'static Plugin,
    pub(crate) options: PluginUse,
    /// All of the plug-in's own.
    pub(crate) own: toml::Table,
    /// All of the host's.
    pub(crate) host: toml::Table,
}

impl PluginSettings {
    /// From options as written, of either driver. Errors: `Usage` for options that are not there; as
    /// [`Plugin::load`] and [`Plugin::start`].
    pub fn of(target: &TargetPlan) -> Result<PluginSettings> {
        let apart = target.driver == process::NAME;
        let names = if apart { ProcessOptions::NAMES } else { PluginOptions::NAMES };
        let (mut host, mut own) = (toml::Table::new(), toml::Table::new());
        for (name, value) in &target.options {
            let side = if names.contains(&name.as_str()) { &mut host } else { &mut own };
            side.insert(name.clone(), value.clone());
        }
        let (plugin, options, host) = if apart {
            let asked = ProcessOptions::parse(process::NAME, &host)?;
            let host = complete(&asked)?;
            let plugin = Plugin::start(&asked)?;
            let ProcessOptions { command: name, keep, read_only, .. } = asked;
            (plugin, PluginUse { name, keep, read_only, apart }, host)
        } else {
            let asked = PluginOptions::parse(LIBRARY_NAME, &host)?;
            let host = complete(&asked)?;
            let plugin = Plugin::load(&asked.library)?;
            let PluginOptions { library: name, keep, read_only } = asked;
            (plugin, PluginUse { name, keep, read_only, apart }, host)
        };
        Ok(PluginSettings { own: plugin.description.complete(&own)?, options, plugin, host })
    }

    pub fn description(&self) -> &'static PluginDescription {
        &self.plugin.description
    }
}

/// A driver whose store is a plug-in, by what carries it.
pub struct PluginDriver {
    pub name: &'static str,
    pub about: &'static str,
    pub options: fn() -> OptionSet,
    /// Options that name the examples of the SDK. Errors: why they cannot be made here.
    #[cfg(any(test, feature = "testing"))]
    pub examples: fn() -> std::result::Result<Vec<String>, String>,
}

/// A library in this process.
pub static LIBRARY: PluginDriver = PluginDriver {
    name: LIBRARY_NAME,
    about: "any store behind a shared library with one function, in C, Rust, Go or what makes one",
    options: OptionSet::of::<PluginOptions>,
    #[cfg(any(test, feature = "testing"))]
    examples: || {
        let of = |path: &std::path::PathBuf| format!("library = {:?}", path.display().to_string());
        Ok(testing::examples()?.iter().map(of).collect())
    },
};
const LIBRARY_NAME: &str = "plugin";

impl Driver for PluginDriver {
    fn name(&self) -> &'static str {
        self.name
    }
    fn about(&self) -> &'static str {
        self.about
    }
    fn option_set(&self) -> OptionSet {
        (self.options)()
    }
    fn bind(&self, target: &TargetPlan) -> Result<Box<dyn BoundDriver>> {
        Ok(Box::new(PluginSettings::of(target)?))
    }
    #[cfg(any(test, feature = "testing"))]
    fn test_target(&self, dir: &std::path::Path) -> TestSetup {
        let options = (self.examples)()?;
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        Ok(TestTarget::local(dir, "data", &options))
    }
}

/// What a plug-in states, with a panel of the time inside the store, which the host sums up; where it states
/// nothing all is drawn by unit.
pub(crate) fn inside(mut stated: SampleDisplay) -> SampleDisplay {
    if !stated.panels.is_empty() {
        let panel = SamplePanel::new("Inside the store", SampleUnit::PercentOfTime);
        stated.panels.push(panel.line(INSIDE, "calls of the store, all workers together"));
    }
    stated
}

/// The counter of the time that calls of the store took.
const INSIDE: &str = "store_inside_ns_total";

impl BoundDriver for PluginSettings {
    /// Ranks find by its mark that a store is one, so that it must be able to have one.
    fn check_shared(&self, target: &TargetPlan, _: WorkShare) -> Result<()> {
        let said = &self.plugin.description;
        match said.keyed() && said.stores_data {
            true => Ok(()),
            false => {
                Err(Error::usage("ranks cannot see whether they share a plug-in without records")
                    .with("driver", &target.driver)
                    .hint("leave run.share out: each rank then has a target of its own"))
            }
        }
    }
    fn options(&self) -> Result<toml::Table> {
        let mut all = self.host.clone();
        all.extend(self.own.clone());
        Ok(all)
    }
    fn samples(&self) -> SampleDisplay {
        inside(self.plugin.description.samples.clone())
    }
    fn capabilities(&self) -> Capabilities {
        self.plugin.description.capabilities(&self.options)
    }
    fn check(&self, spec: &OpenSpec<'_>) -> Result<()> {
        check(spec, self.clone()).map(drop)
    }
    fn open(&self, spec: &OpenSpec<'_>, _: &mut OnProgress<'_>) -> Result<Box<dyn Target>> {
        Ok(Box::new(PluginTarget::open(spec, check(spec, self.clone())?)?))
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
        build(&[source.to_owned()], &["-shared", "-fPIC"])
    }

    /// As [`compile`]: a program, unless `flags` say otherwise.
    fn build(sources: &[PathBuf], flags: &[&str]) -> Result<PathBuf, String> {
        let stem = sources[0].file_stem().unwrap_or_default().to_string_lossy();
        let out = std::env::temp_dir();
        let kind = if flags.is_empty() { "program" } else { "so" };
        let out = out.join(format!("taillight-plugin-{stem}-{}.{kind}", std::process::id()));
        let mut cc = Command::new("cc");
        cc.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"]).args(flags);
        cc.arg("-I").arg(sdk()).arg("-o").arg(&out).args(sources);
        let made = cc.output().map_err(|e| format!("no C compiler: {e}"))?;
        match made.status.success() {
            true => Ok(out),
            false => Err(String::from_utf8_lossy(&made.stderr).into_owned()),
        }
    }

    /// The examples of the SDK that are libraries in C.
    pub fn examples() -> Result<Vec<PathBuf>, String> {
        ["null.c", "records.c"]
            .iter()
            .map(|name| compile(&sdk().join("examples/c").join(name)))
            .collect()
    }

    /// The examples of programs, as commands: the store in Python where there is one, and plug-ins in C, each made
    /// a program by the same few lines.
    pub fn programs() -> Result<Vec<String>, String> {
        let sdk = sdk().canonicalize().map_err(|e| e.to_string())?;
        let c = sdk.join("examples/c");
        let mut all = vec![format!("python3 {}", sdk.join("examples/dict.py").display())];
        for sources in
            [vec![sdk.join("examples/dict.c")], vec![c.join("records.c"), c.join("serve.c")]]
        {
            all.push(build(&sources, &[])?.display().to_string());
        }
        Ok(all)
    }
}
