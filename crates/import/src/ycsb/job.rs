//! A workload as two job files: one that loads, one that does the transactions.

use super::lengths;
use super::read::{Lengths, Request, Spec};
use crate::ImportedJob;
use crate::toml_text::{Table, comment, quoted};

/// Width of comments.
const WIDTH: usize = 98;
/// Where nothing is said about the store.
pub const ANY_STORE: &str = "YCSB's files name no store: this one is in memory, so that the job runs \
                         as it is; name yours with --driver and --path, or here";

pub fn load(spec: &Spec, name: &str, source: &str) -> ImportedJob {
    let mut run = Table::default();
    let name = format!("{name}-load");
    run.text("name", &name);
    run.raw("operations", spec.insert_count.to_string());
    let mut workload = Table::default();
    workload.text("name", "load");
    workload.raw("workers", spec.threads.to_string());
    workload.text("mix", "insert");
    rate(spec, &mut workload);
    // Nothing is there yet: inserts begin at the first key.
    data(spec, 0, &mut workload);
    whole(spec, name, source, "the load phase", &run, &workload)
}

pub fn run(spec: &Spec, name: &str, source: &str) -> ImportedJob {
    let mut run = Table::default();
    run.text("name", name);
    if let Some(n) = spec.operations {
        run.raw("operations", n.to_string());
    }
    if let Some(s) = spec.seconds {
        run.text("duration", &format!("{s}s"));
    }
    let mut workload = Table::default();
    workload.text("name", "run");
    workload.raw("workers", spec.threads.to_string());
    let mut mix = Table::default();
    for (op, weight) in &spec.mix {
        mix.raw(op, weight.to_string());
    }
    workload.raw("mix", mix.inline());
    workload.raw("access", access(&spec.request));
    rate(spec, &mut workload);
    data(spec, spec.insert_count, &mut workload);
    if spec.mix.iter().any(|(op, _)| *op == "scan") {
        let mut scan = Table::default();
        scan.raw("min", spec.scan.0.to_string());
        scan.raw("max", spec.scan.1.to_string());
        scan.text("spread", spec.scan_word);
        workload.raw("scan", scan.inline());
    }
    let name = name.to_owned();
    whole(spec, name, source, "the transactions", &run, &workload)
}

fn rate(spec: &Spec, workload: &mut Table) {
    if let Some(rate) = spec.rate {
        workload.raw(
            "arrival",
            format!("{{ kind = \"constant\", rate = \"{rate}/s\" }}"),
        );
    }
}

fn access(request: &Request) -> String {
    match request {
        Request::Word(word) => quoted(word),
        Request::Hotspot(space, share) => format!(
            "{{ kind = \"hotspot\", hot = {{ space = {}, share = {} }} }}",
            decimal(*space),
            decimal(*share)
        ),
        Request::Exponential(percentile, space) => format!(
            "{{ kind = \"exponential\", reach = {{ percentile = {}, space = {} }} }}",
            decimal(*percentile),
            decimal(*space)
        ),
    }
}

/// Keys, values and their bytes: the same for both phases. `count` records are there.
fn data(spec: &Spec, count: u64, workload: &mut Table) {
    workload.raw("block_size", block_size(&spec.lengths));
    let mut keys = Table::default();
    keys.raw("count", count.to_string());
    if spec.insert_start > 0 {
        keys.raw("start", spec.insert_start.to_string());
    }
    keys.text("naming", if spec.hashed { "hashed" } else { "ordered" });
    if spec.digits != 1 {
        keys.raw("digits", spec.digits.to_string());
    }
    workload.raw("keys", keys.inline());
    let mut value = Table::default();
    value.raw("fields", spec.fields.to_string());
    if spec.prefix != "field" {
        value.text("prefix", &spec.prefix);
    }
    value.raw("read_all", spec.read_all.to_string());
    value.raw("write_all", spec.write_all.to_string());
    if spec.integrity {
        value.raw("integrity", "true");
    }
    workload.raw("value", value.inline());
    workload.text("payload", "text");
}

fn block_size(lengths: &Lengths) -> String {
    match lengths {
        Lengths::Constant(n) => quoted(&format!("{n}B")),
        Lengths::Uniform(min, max) => {
            format!("{{ min = \"{min}B\", max = \"{max}B\", step = \"1B\" }}")
        }
        Lengths::Zipfian(min, max) => {
            let parts = lengths::weighted(*min, *max);
            let parts = parts
                .iter()
                .map(|(size, weight)| format!("{{ size = \"{size}B\", weight = {weight} }}"));
            format!("[{}]", parts.collect::<Vec<_>>().join(", "))
        }
        Lengths::Histogram(file) => format!("{{ file = {} }}", quoted(file)),
    }
}

/// A number that TOML reads as a decimal.
fn decimal(x: f64) -> String {
    format!("{x:?}")
}

fn whole(
    spec: &Spec,
    name: String,
    source: &str,
    phase: &str,
    run: &Table,
    workload: &Table,
) -> ImportedJob {
    let mut notes = spec.notes.clone();
    let mut target = Table::default();
    match &spec.store {
        Some(store) => {
            target.text("driver", store.driver);
            if let Some(path) = &store.path {
                target.text("path", path);
            }
            // The transactions find what was loaded.
            target.raw("options", "{ keep = true }");
        }
        None => {
            target.text("driver", "memory");
            notes.push(ANY_STORE.to_owned());
        }
    }
    let mut text = String::new();
    let made = format!("Made by `taillight import` from {source}: {phase}.");
    comment(&made, WIDTH, &mut text);
    notes.iter().for_each(|n| comment(n, WIDTH, &mut text));
    run.write("[run]", &mut text);
    target.write("[target]", &mut text);
    workload.write("[[workload]]", &mut text);
    ImportedJob {
        name,
        toml: text,
        notes,
    }
}
