//! What a binding or database can do, tried before the load: bindings answer NOT_IMPLEMENTED only when they are
//! asked. A database also makes its table here, where that is asked.

use taillight_core::plan::Plan;
use taillight_core::{Clock, Error, MonoClock, OpKind, Result, Status};

use super::JvmOptions;
use super::sys::Jvm;
use crate::plugin::target::PluginTarget;

/// A key that no plan makes.
const KEY: &[u8; 16] = b"taillight--probe";
const PATIENCE_NS: u64 = 60_000_000_000;
/// `ENOSYS`, as which Java's side tells NOT_IMPLEMENTED.
const NOT_IMPLEMENTED: Status = Status(38);

/// Connects and makes the table where that is asked and its loss confirmed; facts of database and client. Errors:
/// `Unavailable` with the words of the database.
pub fn database(
    jvm: &Jvm,
    options: &JvmOptions,
    confirmed: bool,
    plan: &Plan,
) -> Result<Vec<(String, String)>> {
    let mut words = options.session_arguments(plan);
    words.extend(["create".to_owned(), options.jdbc.create.clone()]);
    debug_assert!(confirmed || options.jdbc.create.is_empty());
    words[0] = "jdbc-about".to_owned();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let about = jvm.ask(&words).map_err(|e| {
        Error::unavailable(format!("the database cannot be reached: {}", e.message()))
            .with("url", &options.jdbc.url)
            .hint("the JDBC driver's jar has to be on options.classpath; options.class names its class")
    })?;
    let names = ["store.server", "store.client"];
    Ok(names.iter().zip(about.lines()).map(|(n, v)| ((*n).to_owned(), v.to_owned())).collect())
}

/// An error with what Java said of it.
pub fn explained(jvm: &Jvm, e: Error) -> Error {
    let said = jvm.ask(&["failures"]).unwrap_or_default();
    e.with_some("the JVM says", Some(said).filter(|said| !said.is_empty()))
}

/// Tries each operation of the plan on a record with a key of its own, once the mark has let the run in; it inserts
/// only what it then deletes. Errors: `Unavailable` where an operation is not there or fails.
pub fn operations(
    jvm: &Jvm,
    target: &PluginTarget,
    options: &JvmOptions,
    plan: &Plan,
) -> Result<()> {
    let mut wanted: Vec<OpKind> = Vec::new();
    for part in plan.workloads.iter().flat_map(|w| &w.mix) {
        match part.op {
            OpKind::Rmw => wanted.extend([OpKind::Get, OpKind::Update]),
            op => wanted.push(op),
        }
    }
    if !options.read_only && !options.keep {
        wanted.push(OpKind::Delete);
    }
    let order = [OpKind::Get, OpKind::Scan, OpKind::Insert, OpKind::Update, OpKind::Delete];
    let mut host = target.host(1)?;
    for op in order.into_iter().filter(|op| wanted.contains(op)) {
        if op == OpKind::Insert && !wanted.contains(&OpKind::Delete) {
            // It would stay; the mark was inserted as well.
            continue;
        }
        let size = if op.writes() { 16 } else { 0 };
        let until = MonoClock.now().plus(PATIENCE_NS);
        // As the mark: one field, and where no scan of the load meets it.
        let done = host.one(op, KEY, size, crate::plugin::session::MARK, until)?;
        match done.status {
            Status::OK | Status::NOT_FOUND => {}
            NOT_IMPLEMENTED => {
                return Err(Error::unavailable(format!(
                    "the binding does not implement `{}`",
                    op.name()
                ))
                .with("class", &options.class)
                .hint(match op {
                    OpKind::Delete => {
                        "set options.keep = true where the run need not delete; its records stay"
                    }
                    _ => "leave it out of the mix",
                }));
            }
            other => {
                let e = Error::unavailable(format!("the store cannot `{}`", op.name()));
                return Err(explained(jvm, e.with("it answered", other)));
            }
        }
    }
    Ok(())
}
