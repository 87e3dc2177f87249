//! `jvm`: any YCSB binding and any JDBC database, in a Java virtual machine inside this process.
//!
//! To the rest of the program it is a plug-in whose functions are ours (`sys.rs`): sessions, mark, guard and the cost
//! of the bridge are those of [`crate::plugin`]. There is one VM a process, with one class path.

mod classpath;
mod pauses;
mod probe;
mod sql;
mod sys;

use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::capability::Capabilities;
use taillight_core::plan::{Plan, TargetPlan};
use taillight_core::progress::OnProgress;
use taillight_core::samples::{SampleDisplay, SampleFigure, SamplePanel, SamplePhrase, SampleUnit};
use taillight_core::{Error, OpKind, Result};

use crate::contract::{BoundDriver, Driver, OpenSpec, Target};
use crate::options::{DriverOptions, OptionSet, complete, numbered};
use crate::plugin::target::{PluginRequest, PluginTarget, check};
use crate::plugin::{self, Plugin, PluginCarrier, PluginDescription, PluginSettings, PluginUse};
#[cfg(any(test, feature = "testing"))]
use crate::test_target::{TestSetup, TestTarget};
pub use sql::JdbcStatements;
use sys::Jvm;

/// Options of the driver `jvm`: `class` for a YCSB binding, or `jdbc` for a database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JvmOptions {
    /// The binding: a class that extends `site.ycsb.DB`. With `jdbc`: the driver's class, where it does not register
    /// itself.
    #[schemars(title = "name of a class")]
    pub class: String,
    /// Jars and directories, `:` between them; `DIR/*` is every jar in it.
    #[schemars(title = "paths")]
    pub classpath: String,
    /// Properties of the binding or of the JDBC connection. No secrets: they stand in every run directory.
    #[schemars(with = "std::collections::BTreeMap<String, String>", title = "table")]
    pub properties: toml::Table,
    /// A file of properties that Java reads, for secrets: only its name is kept.
    #[schemars(title = "path of a file")]
    pub properties_file: String,
    /// Table that records are in; never a table that others use, so not YCSB's `usertable`.
    #[schemars(title = "name")]
    pub table: String,
    /// Table for the record that says whose the others are, for stores whose scans would else meet it; empty: `table`.
    #[schemars(title = "name")]
    pub mark_table: String,
    /// libjvm.so, or the directory of a JDK or JRE; empty: `$JAVA_HOME`, then where `java` on the path is.
    #[schemars(title = "path")]
    pub jvm: String,
    /// Arguments of the VM: `["-Xmx4g"]`.
    #[schemars(title = "list of texts")]
    pub jvm_args: Vec<String>,
    /// Writes that the binding only collects (`BATCHED_OK`) count as done; else they are failed I/Os.
    pub batched: bool,
    /// Operations that one call takes to Java, at most: as deep as `queue_depth` may be. All of them end when the call
    /// returns.
    #[schemars(title = "1 to 1024")]
    pub per_call: u32,
    /// Reads return what was written; false for a binding that does nothing.
    pub stores_data: bool,
    /// Statements of a database behind JDBC, with its `url`.
    #[schemars(title = "table")]
    pub jdbc: JdbcStatements,
    /// Records stay after the run, with the mark that says whose they are.
    pub keep: bool,
    /// Nothing is written, no mark either: reads what somebody else stored. Keys of the plan are believed to be there.
    pub read_only: bool,
}

impl Default for JvmOptions {
    fn default() -> JvmOptions {
        JvmOptions {
            class: String::new(),
            classpath: String::new(),
            properties: toml::Table::new(),
            properties_file: String::new(),
            table: "taillight".into(),
            mark_table: String::new(),
            jvm: String::new(),
            jvm_args: Vec::new(),
            batched: false,
            per_call: 1,
            stores_data: true,
            jdbc: JdbcStatements::default(),
            keep: false,
            read_only: false,
        }
    }
}

impl DriverOptions for JvmOptions {
    fn check(&self) -> Result<()> {
        let nested = |value: &toml::Value| value.is_table() || value.is_array();
        if let Some((name, _)) = self.properties.iter().find(|(_, value)| nested(value)) {
            return Err(Error::usage("a property is a text, a number or a truth value")
                .of_field("properties")
                .with("property", name));
        }
        if self.table.is_empty() {
            return Err(Error::usage("the table needs a name").of_field("table"));
        }
        if !(1..=PER_CALL_MAX).contains(&self.per_call) {
            return Err(Error::usage(format!("a call takes 1 to {PER_CALL_MAX} operations"))
                .of_field("per_call"));
        }
        // Zero bytes stand between the words that Java is told.
        let JvmOptions { class, table, mark_table, properties_file, jdbc, .. } = self;
        let names = [class, table, mark_table, properties_file, &jdbc.url, &jdbc.create];
        let statements = jdbc.texts().map(|(_, sql)| sql);
        let properties = self.properties.iter();
        let properties = properties
            .flat_map(|(name, value)| [name.as_str(), value.as_str().unwrap_or_default()]);
        let mut texts = names.into_iter().map(String::as_str).chain(statements).chain(properties);
        if texts.any(|text| text.contains('\0')) {
            return Err(Error::usage("a text with a zero byte in it cannot be told to Java"));
        }
        Ok(())
    }
}

/// Most operations of a call.
const PER_CALL_MAX: u32 = 1024;

/// The plug-ins that stand for bindings and databases, by their descriptions; made once each and never freed.
static KNOWN: Mutex<Vec<(String, &'static Plugin)>> = Mutex::new(Vec::new());
/// The VM, its version in words, and its library with the arguments that it was started with.
static STARTED: Mutex<Option<(&'static Jvm, String, Vec<String>)>> = Mutex::new(None);

impl JvmOptions {
    fn is_jdbc(&self) -> bool {
        !self.jdbc.url.is_empty()
    }

    /// The plug-in that stands for binding or database. Errors: `Usage` where neither a class nor a database is named.
    fn plugin(&self) -> Result<&'static Plugin> {
        if !self.is_jdbc() && self.class.is_empty() {
            return Err(Error::usage("the driver `jvm` needs a YCSB binding or a database")
                .of_field("class")
                .hint(
                    "set options.class = \"site.ycsb.db...\" and options.classpath, or \
                     options.jdbc = { url = \"jdbc:...\" }; docs/stores.md shows both",
                ));
        }
        let ops = match self.is_jdbc() {
            true => self.jdbc.ops(),
            false => vec!["get", "insert", "update", "delete", "scan"],
        };
        let said = serde_json::json!({
            "name": if self.is_jdbc() { "jdbc" } else { self.class.as_str() },
            "kind": "keyed",
            "ops": ops,
            "fields": !self.is_jdbc(),
            "max_depth": self.per_call,
            "stores_data": self.stores_data,
        })
        .to_string();
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, plugin)) = known.iter().find(|(text, _)| *text == said) {
            return Ok(plugin);
        }
        let library =
            sys::library().ok_or_else(|| Error::internal("the bridge lacks a function"))?;
        let description = PluginDescription::parse(&said, &[])?;
        let carrier = PluginCarrier::Library(library);
        let plugin: &'static Plugin = Box::leak(Box::new(Plugin { carrier, description }));
        known.push((said, plugin));
        Ok(plugin)
    }

    /// The properties of a connection; of those in the file, which may be secrets, the names alone. A file that
    /// cannot be read counts as empty here: Java says so when it reads it.
    fn connected_with(&self) -> toml::Table {
        let file = std::fs::read(&self.properties_file).unwrap_or_default();
        let file = String::from_utf8_lossy(&file);
        let names = sql::property_names(&file).map(|name| (name.to_owned(), true.into()));
        self.properties.clone().into_iter().chain(names).collect()
    }

    /// The options as the target of a plug-in takes them.
    fn settings(&self, plugin: &'static Plugin, plan: &Plan) -> PluginSettings {
        let options = PluginUse { name: self.table.clone(), ..self.host() };
        let words = self.session_arguments(plan).into_iter().map(toml::Value::String).collect();
        let own = toml::Table::from_iter([("words".to_owned(), toml::Value::Array(words))]);
        PluginSettings { plugin, options, own, host: toml::Table::new() }
    }

    fn host(&self) -> PluginUse {
        PluginUse { keep: self.keep, read_only: self.read_only, ..PluginUse::default() }
    }

    /// The arguments with which Java is asked for a session: `jdbc` or `ycsb`, then names and values in turn.
    fn session_arguments(&self, plan: &Plan) -> Vec<String> {
        let values = plan.workloads.iter().find_map(|w| w.value.as_ref());
        let fields = values.map_or(1, |v| v.fields.max(1)).to_string();
        let workers: u64 = plan.workloads.iter().map(|w| u64::from(w.workers)).sum();
        let prefix = values.map_or("field", |v| v.prefix.as_str());
        let mut all = vec![if self.is_jdbc() { "jdbc" } else { "ycsb" }.to_owned()];
        let mut say = |name: &str, value: &str| all.extend([name.to_owned(), value.to_owned()]);
        say("fields", &fields);
        say("prefix", prefix);
        say("class", &self.class);
        say("table", &self.table);
        say("marks", if self.mark_table.is_empty() { &self.table } else { &self.mark_table });
        say("file", &self.properties_file);
        say("batched", &self.batched.to_string());
        if self.is_jdbc() {
            say("url", &self.jdbc.url);
            say("text", &self.jdbc.text.to_string());
            self.jdbc.texts().for_each(|(name, sql)| say(name, sql));
        } else {
            // Bindings that make statements of their own ask these of the workload.
            say("p:table", &self.table);
            say("p:fieldcount", &fields);
            say("p:threadcount", &workers.to_string());
        }
        for (name, value) in &self.properties {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            say(&format!("p:{name}"), &text);
        }
        all
    }

    /// The VM, started for good if none runs yet, and its version in words. Errors: `Usage` for a class path that is
    /// not there, or for other arguments than those of the VM that runs; `Unavailable` where there is no VM.
    fn vm(&self) -> Result<(&'static Jvm, String)> {
        let library = classpath::libjvm(&self.jvm)?;
        // Signals stay ours.
        let mut args = vec!["-Xrs".to_owned()];
        // Standard output is ours: the VM warns there by default, and tells its end.
        let quiet = ["-Xlog:disable", "-Xlog:all=warning:stderr", "-XX:+DisplayVMOutputToStderr"];
        args.extend(quiet.map(str::to_owned));
        let asked = |args: &[String]| [std::slice::from_ref(&library), args].concat();
        args.push(format!("-Djava.class.path={}", classpath::expanded(&self.classpath)?));
        args.extend(self.jvm_args.iter().cloned());
        // Last, so that no argument turns it off.
        args.push(pauses::argument());
        let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((jvm, about, with)) = &*started {
            return same_vm(with, &asked(&args)).map(|()| (*jvm, about.clone()));
        }
        pauses::prepare()?;
        let vm = Jvm::start(&library, &args);
        pauses::begin();
        let (jvm, about) = vm?;
        let jvm: &'static Jvm = Box::leak(Box::new(jvm));
        *started = Some((jvm, about.clone(), asked(&args)));
        Ok((jvm, about))
    }

    /// Starts the VM, and finds the class or the database's driver in it; facts of both. Errors: those of `vm`; `Usage`
    /// for a class that is not there or is no binding.
    fn found(&self) -> Result<(&'static Jvm, Vec<(String, String)>)> {
        let (jvm, about) = self.vm()?;
        let mut facts = vec![("jvm.version".to_owned(), about)];
        let mut find = |class: &str, base: &str, wanted: &str| {
            let from = jvm.ask(&["class", class, base]).map_err(|e| {
                Error::usage(format!("{wanted} cannot be used: {}", e.message()))
                    .of_field(if class == BASE { "classpath" } else { "class" })
                    .with("class", class)
                    .with("class path", &self.classpath)
            })?;
            facts.push((if class == BASE { "ycsb.core" } else { "store.client" }.to_owned(), from));
            Ok::<(), Error>(())
        };
        if self.is_jdbc() {
            if !self.class.is_empty() {
                find(&self.class, "java.sql.Driver", "the JDBC driver")?;
            }
        } else {
            find(BASE, "", "YCSB's core")?;
            find(&self.class, BASE, "the binding")?;
            jvm.define_ycsb()?;
        }
        Ok((jvm, facts))
    }

    /// Refuses scans against the order of keys, which no binding has. Errors: `Usage`.
    fn fit(&self, plan: &Plan) -> Result<()> {
        let scans = |reverse: &taillight_core::plan::Scan| reverse.reverse;
        let backwards = plan.workloads.iter().any(|w| {
            let scan = w.mix.iter().any(|part| part.op == OpKind::Scan);
            scan && w.scan.as_ref().is_some_and(scans)
        });
        if backwards && !self.is_jdbc() {
            return Err(Error::usage("YCSB's bindings do not scan against the order of keys"));
        }
        Ok(())
    }
}

/// How long Java may take for its end.
const END: Duration = Duration::from_secs(2);

/// Has Java end in order, as this program ends with `exit`: clients unpack libraries into the directory of temporary files, and
/// delete them then.
pub fn end(exit: u8) {
    let started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(jvm) = started.as_ref().map(|(jvm, ..)| *jvm) else { return };
    drop(started);
    let (done, ended) = mpsc::channel();
    let thread = std::thread::Builder::new().spawn(move || {
        jvm.shut_down(exit);
        let _ = done.send(());
    });
    if thread.is_ok() {
        // What hangs in it is left to the end of the process.
        let _ = ended.recv_timeout(END);
    }
}

/// Errors: `Usage` where the VM that runs is another one, or runs with other arguments.
fn same_vm(with: &[String], asked: &[String]) -> Result<()> {
    if with == asked {
        return Ok(());
    }
    Err(Error::usage("a process has one JVM, and it is another one or runs with other arguments")
        .with("it runs with", with.join(" "))
        .with("asked", asked.join(" "))
        .hint("give all targets of the driver `jvm` the same jvm, classpath and jvm_args"))
}

/// In words, how much of the time in which the VM compiles most a run leaves out.
fn warmup(plan: &Plan) -> String {
    match plan.run.warmup.0 {
        0 => "what it compiles in this run is measured with it; run.warmup leaves out the first"
            .to_owned(),
        ns => format!("its first {:.1} s are not measured (run.warmup)", ns as f64 / 1e9),
    }
}

/// The class that bindings extend.
const BASE: &str = "site.ycsb.DB";

/// What the load left behind: pauses of the VM, and the words of failures.
fn end_facts() -> Vec<(String, String)> {
    let mut facts = vec![("jvm.pauses".to_owned(), pauses::describe())];
    let jvm = STARTED.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|s| s.0);
    let failures = jvm.and_then(|jvm| jvm.ask(&["failures"]).ok()).unwrap_or_default();
    let failures = failures.lines().enumerate();
    facts.extend(failures.map(|(n, words)| (format!("store.failure.{}", n + 1), words.to_owned())));
    facts
}

/// What a session is made with, out of the plan as the plug-in's `open` gets it.
fn session_words(plan: &str) -> Result<(&'static Jvm, Vec<String>)> {
    #[derive(Deserialize)]
    struct Said {
        options: Words,
    }
    #[derive(Deserialize)]
    struct Words {
        words: Vec<String>,
    }
    let said: Said = serde_json::from_str(plan)
        .map_err(|e| Error::internal("the plan of a JVM has no words").source(e))?;
    let started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    let jvm = started.as_ref().map(|(jvm, ..)| *jvm);
    Ok((jvm.ok_or_else(|| Error::internal("no JVM runs"))?, said.options.words))
}

/// An action of the plug-in's: whether a table is empty, which few bindings can tell.
fn administered(jvm: &Jvm, words: &[String], action: u32) -> Result<bool> {
    if action != crate::plugin::target::EMPTY {
        return Err(Error::unavailable("a binding has no such action"));
    }
    let first = format!("{}-empty", words.first().map_or("", String::as_str));
    let mut asked = vec![first.as_str()];
    asked.extend(words.iter().skip(1).map(String::as_str));
    jvm.ask(&asked).map(|answer| answer == "1")
}

/// The driver.
pub struct JvmDriver;

impl JvmDriver {
    const NAME: &str = "jvm";
}

impl Driver for JvmDriver {
    fn name(&self) -> &'static str {
        JvmDriver::NAME
    }
    fn about(&self) -> &'static str {
        "any YCSB binding and any JDBC database, in a Java virtual machine in the process"
    }
    fn option_set(&self) -> OptionSet {
        OptionSet::of::<JvmOptions>()
    }
    fn bind(&self, target: &TargetPlan) -> Result<Box<dyn BoundDriver>> {
        let options = JvmOptions::parse(JvmDriver::NAME, &target.options)?;
        Ok(Box::new(BoundJvm { plugin: options.plugin()?, options }))
    }
    /// Ranks share the store: each has a table, and a table of the mark, of its number.
    fn rank_options(&self, options: &mut toml::Table, rank: u32) {
        numbered(options, "table", &JvmOptions::default().table, rank);
        if options.get("mark_table").and_then(toml::Value::as_str).is_some_and(|t| !t.is_empty()) {
            numbered(options, "mark_table", "", rank);
        }
    }
    #[cfg(any(test, feature = "testing"))]
    fn test_target(&self, dir: &std::path::Path) -> TestSetup {
        let classes = testing::binding(dir)?;
        let options = format!(
            "class = \"Records\"\nclasspath = {:?}\nmark_table = \"marks\"\njvm_args = [\"-Xmx64m\"]",
            classes.display().to_string()
        );
        let deep = format!("{options}\nper_call = 8");
        Ok(TestTarget { reverse: false, ..TestTarget::local(dir, "data", &[&options, &deep]) })
    }
}

/// A binding, or a database by its JDBC driver.
struct BoundJvm {
    options: JvmOptions,
    plugin: &'static Plugin,
}

impl BoundJvm {
    /// What the target is opened with, as far as that needs no VM. Errors: as
    /// [`BoundDriver::open`], for a plan that does not fit, the guard of [`check`], or statements
    /// beyond the own table.
    fn request(&self, spec: &OpenSpec<'_>) -> Result<PluginRequest> {
        let options = &self.options;
        options.fit(spec.plan)?;
        let asked = check(spec, options.settings(self.plugin, spec.plan))?;
        // What is confirmed is the loss of the table, so that a path is no name for it.
        let path = spec.plan.target.path.as_deref();
        let named = asked.confirmed && path.is_none_or(|path| path == options.table);
        if options.is_jdbc()
            && !named
            && let Some(e) = options.jdbc.beyond(&options.table, &options.connected_with())
        {
            return Err(e);
        }
        Ok(asked)
    }
}

impl BoundDriver for BoundJvm {
    fn options(&self) -> Result<toml::Table> {
        complete(&self.options)
    }
    fn samples(&self) -> SampleDisplay {
        let time = SamplePanel::new("Garbage collection", SampleUnit::PercentOfTime);
        let stopped = SamplePanel::new("JVM pauses", SampleUnit::PercentOfTime);
        let compiled = SamplePanel::new("JVM compiler", SampleUnit::PercentOfTime);
        let heap = SamplePanel::new("Heap", SampleUnit::Bytes);
        let collected = SampleFigure::Rise;
        plugin::inside(SampleDisplay {
            panels: vec![
                time.line("jvm_gc_ms_total", "collecting"),
                stopped.line("jvm_paused_ns_total", "all threads of the JVM stopped"),
                compiled.line("jvm_compile_ms_total", "compiling, all its threads together"),
                heap.line("jvm_heap_used_bytes", "used"),
            ],
            phrases: vec![
                SamplePhrase::new("jvm_gc_total", collected, "{} garbage collections"),
                SamplePhrase::new("jvm_pauses_total", collected, "{} pauses of the JVM"),
                SamplePhrase::new("jvm_paused_ns_total", collected, "paused for {} in all"),
                SamplePhrase::new("jvm_compile_ms_total", collected, "its compiler worked for {}"),
                SamplePhrase::new("jdbc_reconnects_total", collected, "connected anew {} times"),
            ],
        })
    }
    fn capabilities(&self) -> Capabilities {
        self.plugin.description.capabilities(&self.options.host())
    }
    fn plan_notes(&self, plan: &Plan) -> Vec<String> {
        let cold = plan.run.warmup.0 == 0;
        let cold = cold.then(|| format!("A JVM compiles while it runs: {}.", warmup(plan)));
        let deep = plan.workloads.iter().any(|w| w.queue_depth > 1);
        let deep = deep.then(|| {
            "Operations that one call takes to Java are done one after another and end together: the latency of each \
             is that of the call."
                .to_owned()
        });
        cold.into_iter().chain(deep).collect()
    }
    fn check(&self, spec: &OpenSpec<'_>) -> Result<()> {
        self.request(spec)?;
        self.options.found().map(drop)
    }
    fn open(&self, spec: &OpenSpec<'_>, _: &mut OnProgress<'_>) -> Result<Box<dyn Target>> {
        let (options, asked) = (&self.options, self.request(spec)?);
        let (jvm, mut facts) = options.found()?;
        if options.is_jdbc() {
            facts.extend(probe::database(jvm, options, asked.confirmed, spec.plan)?);
        }
        let mut target = PluginTarget::open(spec, asked).map_err(|e| probe::explained(jvm, e))?;
        if let Err(e) = probe::operations(jvm, &target, options, spec.plan) {
            target.withdraw();
            return Err(e);
        }
        target.facts.retain(|(name, _)| name != "target.kind");
        target.facts.push(("target.kind".to_owned(), "JVM".to_owned()));
        target.facts.append(&mut facts);
        target.facts.push(("jvm.warmup".to_owned(), warmup(spec.plan)));
        target.end_facts = end_facts;
        target.pauses = pauses::all;
        target.begins = pauses::forget;
        Ok(Box::new(target))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn another_vm_is_refused_as_other_arguments_are() {
        let asked = |all: &[&str]| all.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let runs = asked(&["/jdk-17/lib/server/libjvm.so", "-Xmx1g"]);
        assert!(super::same_vm(&runs, &runs).is_ok());
        for other in [["/jdk-21/lib/server/libjvm.so", "-Xmx1g"], [&runs[0], "-Xmx2g"]] {
            let e = super::same_vm(&runs, &asked(&other)).unwrap_err();
            assert!(e.hint_text().unwrap().contains("same jvm"), "{e}");
        }
    }
}

/// A binding made of Java files, for tests.
#[cfg(any(test, feature = "testing"))]
pub mod testing {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    /// Compiles the binding `Records` and what it sees of YCSB into a directory below `dir`. Errors: what the compiler
    /// says, or that there is none.
    pub fn binding(dir: &Path) -> Result<PathBuf, String> {
        super::classpath::libjvm("").map_err(|e| e.to_string())?;
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/jvm/testing");
        let out = dir.with_extension("classes");
        javac(&out, &sources, &[sources.join("Records.java")])?;
        Ok(out)
    }

    /// Compiles files, with the sources below `path` where they are needed.
    pub fn javac(out: &Path, path: &Path, files: &[PathBuf]) -> Result<(), String> {
        let mut javac = Command::new("javac");
        javac.args(["--release", "8", "-Xlint:-options", "-g:none", "-sourcepath"]).arg(path);
        let made = javac.arg("-d").arg(out).args(files).output();
        let made = made.map_err(|e| format!("no Java compiler: {e}"))?;
        match made.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&made.stderr).into_owned()),
        }
    }
}
