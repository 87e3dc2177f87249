//! Two jobs in turns, on virtual time, where runs vary as on a machine: how often a difference is found, and
//! how often one is claimed that is none.

use std::path::Path;

use crate::common::{SimHost, plan, source};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use taillight_compare::{CompareRequest, DropRule};
use taillight_core::plan::Plan;
use taillight_core::units::Span;
use taillight_rundir::JsonFile;
use taillight_rundir::compare::{CompareFile, CompareVerdict};
use taillight_rundir::series::SeriesFile;
use taillight_suite::ab::{AbMethod, AbRequest, AbSide, pairs_of};
use taillight_suite::method::{Method, Next};
use taillight_suite::runner::{SeriesSetup, run_series};

const SERIES: u64 = 20;
/// Standard deviation of the level of a run.
const VARIES: f64 = 0.015;

/// Four channels that take 1 ms and a fifth more or less, times so much.
fn side(name: &str, times: f64) -> AbSide {
    let ns = |us: f64| (us * 1e3 * times).round();
    let job = source(&format!(
        "[run]\noperations = 2000\nseed = 3\n[target]\ndriver = \"sim\"\nsize = \"1GiB\"\n\
         options = {{ channels = 4, service = {{ kind = \"uniform\", min = \"{}ns\", max = \"{}ns\" }} }}\n\
         [[workload]]\nqueue_depth = 4\n",
        ns(800.0),
        ns(1200.0)
    ));
    AbSide { name: name.to_owned(), plan: plan(&job, &[]).expect("a plan"), job: Some(job) }
}

fn request() -> AbRequest {
    AbRequest { pairs: 6, drop: DropRule::Stolen, compare: CompareRequest::default() }
}

/// Gives each run draws and a level of its own.
fn world(seed: u64) -> impl FnMut(&mut Plan) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    move |plan| {
        plan.run.seed = random.random();
        let [u, v]: [f64; 2] = [random.random(), random.random()];
        let normal = (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos();
        let level = (VARIES * normal).exp();
        let service = plan.target.options["service"].as_table_mut().expect("a table");
        for end in ["min", "max"] {
            let span: Span = service[end].as_str().expect("a time").parse().expect("a time");
            let ns = (span.0 as f64 * level).round();
            service.insert(end.to_owned(), format!("{ns}ns").into());
        }
    }
}

fn series(dir: &Path, seed: u64, sides: [AbSide; 2]) -> CompareFile {
    let mut method = AbMethod::new(sides, request()).expect("two jobs");
    let mut host = SimHost { world: Some(Box::new(world(seed))), ..SimHost::default() };
    let setup = SeriesSetup { dir: dir.to_owned(), command: Vec::new(), resumed: None };
    run_series(&mut method, &mut host, setup).expect("it runs");
    method.found().expect("pairs").clone()
}

fn verdicts(times: f64) -> Vec<CompareVerdict> {
    let home = tempfile::tempdir().expect("a directory");
    let verdict = |seed: u64| {
        let dir = home.path().join(seed.to_string());
        let found = series(&dir, seed, [side("a", 1.0), side("b", times)]);
        let p50 = found.figures.iter().find(|f| f.figure == "p50");
        p50.expect("p50").verdict
    };
    (0..SERIES).map(verdict).collect()
}

fn count(verdicts: &[CompareVerdict], wanted: &[CompareVerdict]) -> usize {
    verdicts.iter().filter(|v| wanted.contains(v)).count()
}

#[test]
fn a_service_slower_by_five_per_cent_is_found_with_six_pairs() {
    let found = verdicts(1.05);
    assert!(count(&found, &[CompareVerdict::Worse]) >= 18, "{found:?}");
    assert_eq!(count(&found, &[CompareVerdict::Better, CompareVerdict::Equal]), 0, "{found:?}");
}

#[test]
fn a_job_against_itself_rarely_differs() {
    let found = verdicts(1.0);
    // One in twenty is what 5 % allow.
    assert!(count(&found, &[CompareVerdict::Worse, CompareVerdict::Better]) <= 1, "{found:?}");
    assert!(count(&found, &[CompareVerdict::Equal]) >= 15, "{found:?}");
}

#[test]
fn the_pairs_of_a_series_are_read_back_with_the_same_answer() {
    let home = tempfile::tempdir().expect("a directory");
    let found = series(home.path(), 1, [side("a", 1.0), side("b", 1.05)]);
    let file = SeriesFile::read(home.path()).expect("readable").expect("there");
    let pairs = pairs_of(home.path(), &file).expect("readable");
    let order: String = pairs.iter().map(|p| if p.base_first { "AB " } else { "BA " }).collect();
    assert_eq!(order, "AB BA BA AB BA AB ");
    assert_eq!(request().judge(&pairs).figures, found.figures);
    assert_eq!(file.decisions.len(), 4, "a look at the median after pairs 3 to 6");
}

#[test]
fn sides_of_different_depth_have_one_engine() {
    let side = |name: &str, depth: u32| {
        let job = source(&format!(
            "[run]\nduration = \"1s\"\nseed = 3\n[target]\ndriver = \"file\"\npath = \"x\"\n\
             size = \"1GiB\"\n[[workload]]\nmix = \"read\"\nqueue_depth = {depth}\n"
        ));
        AbSide { name: name.to_owned(), plan: plan(&job, &[]).expect("a plan"), job: Some(job) }
    };
    let mut method = AbMethod::new([side("a", 1), side("b", 8)], request()).expect("two jobs");
    let Next::Point(first) = method.next(&[]).expect("a point") else { panic!("no pair") };
    assert_eq!(first.plan.workloads[0].queue_depth, 1);
    assert_eq!(first.plan.target.options["engine"].as_str(), Some("uring"));
}
