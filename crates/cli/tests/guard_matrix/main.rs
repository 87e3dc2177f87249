//! Taillight destroys nobody's data: each kind of data that can be lost, under each way to name it (`table`), tried
//! with the binary on loop devices, mounts and servers of the test's own; what is legitimate works;
//! and races. Needs root; without it these tests print one line and pass.
//!
//! `docs/testing.md` has the table of attempts, which must be that of `table`.

#[path = "../common/mod.rs"]
mod common;
mod container;
mod elsewhere;
mod killed;
mod later;
mod legitimate;
mod occupied;
mod races;
mod servers;
mod signatures;
mod stage;
mod stores;
mod sys;
mod table;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::skipped;
use common::traced::not_root;
use stage::{AttackStage, Attempt, SharedBinary};
use table::{CellPlan, NAMINGS, Naming, VICTIMS, VictimKind, plan};

/// What became of a cell.
struct Tried {
    victim: VictimKind,
    naming: Naming,
    attempts: Vec<Attempt>,
    /// Why a case could not be set up.
    failed: Vec<String>,
}

impl Tried {
    /// Whether a confirmed attempt was refused for want of a confirmation. A series that goes on may
    /// ask for it again.
    fn for_another_reason(&self, attempt: &Attempt) -> bool {
        attempt.refused()
            && self.victim.in_spite_of_confirmation()
            && self.naming != Naming::Resumed
            && attempt.said.contains("--destroy")
    }
}

/// Cases at a time: most of a case is waiting.
const AT_A_TIME: usize = 6;

/// All cells that have a meaning, or those with `TAILLIGHT_MATRIX` in their name.
fn try_all(program: &SharedBinary) -> Vec<Tried> {
    let wanted = std::env::var("TAILLIGHT_MATRIX").unwrap_or_default();
    let (mut cells, mut cases) = (Vec::new(), Vec::new());
    // Direct names have most of the long cases: begun first, none of them goes on alone in the end.
    for (naming, victim) in NAMINGS.into_iter().flat_map(|n| VICTIMS.map(|v| (n, v))) {
        let CellPlan::Cases(all) = plan(victim, naming) else { continue };
        if format!("{} / {}", victim.name(), naming.name()).contains(&wanted) {
            let cell = cells.len();
            cases.extend(all.into_iter().map(|case| (cell, case)));
            let (attempts, failed) = (Vec::new(), Vec::new());
            cells.push(Mutex::new(Tried { victim, naming, attempts, failed }));
        }
    }
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some((cell, case)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut stage = AttackStage::new(program);
                    let failed = case(&mut stage).err();
                    let mut cell = cells[*cell].lock().expect("no panic");
                    cell.failed.extend(failed);
                    cell.attempts.append(&mut stage.attempts);
                }
            });
        }
    });
    cells.into_iter().map(|cell| cell.into_inner().expect("no panic")).collect()
}

#[test]
fn guard_matrix() {
    if skipped("guard_matrix", not_root()) {
        return;
    }
    let program = SharedBinary::copied();
    let tried = try_all(&program);
    let mut wrong = Vec::new();
    let (mut attempts, mut refused, mut allowed, mut unknowable, mut destroyed) = (0, 0, 0, 0, 0);
    for cell in &tried {
        let place = format!("{} / {}", cell.victim.name(), cell.naming.name());
        wrong.extend(cell.failed.iter().map(|why| format!("{place}: not tried: {why}")));
        if cell.attempts.is_empty() {
            wrong.push(format!("{place}: nothing was tried"));
        }
        for attempt in &cell.attempts {
            attempts += 1;
            match attempt {
                a if cell.for_another_reason(a) => {
                    wrong.push(format!(
                        "{place}: refused for another reason: {}\n{}",
                        a.what, a.said
                    ));
                }
                a if a.unknowable() => unknowable += 1,
                a if a.refused() => refused += 1,
                a if a.spared() => allowed += 1,
                a => {
                    destroyed += usize::from(!a.intact);
                    let lost = if a.intact { "intact" } else { "LOST" };
                    let said = a.said.lines().find(|l| l.contains("error:")).unwrap_or_default();
                    wrong.push(format!("{place}: {lost}, {:?}: {}\n    {said}", a.code, a.what));
                }
            }
        }
    }
    let product = VICTIMS.len() * NAMINGS.len();
    assert_eq!(product, 169, "a row or a column was dropped, or came: see docs/testing.md");
    let pairs = || VICTIMS.into_iter().flat_map(|v| NAMINGS.into_iter().map(move |n| (v, n)));
    let meaningless =
        pairs().filter(|(v, n)| matches!(plan(*v, *n), CellPlan::Meaningless(_))).count();
    println!(
        "guard_matrix: {} cells tried, {meaningless} without a meaning, of {} x {} = {product}; \
         {attempts} attempts: {refused} refused, {unknowable} unknowable, {allowed} allowed, \
         {destroyed} destroyed",
        tried.len(),
        VICTIMS.len(),
        NAMINGS.len(),
    );
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    if std::env::var_os("TAILLIGHT_MATRIX").is_none() {
        assert_eq!(tried.len() + meaningless, product, "a cell was dropped");
    }
}

/// Somebody's file and disk under options and drivers that write too, files of the kernel, a device of characters: each
/// is refused.
#[test]
fn guard_matrix_other_paths() {
    if skipped("guard_matrix_other_paths", not_root()) {
        return;
    }
    let program = SharedBinary::copied();
    let mut stage = AttackStage::new(&program);
    let thesis = stage.data("thesis", 1 << 20);
    stage.keep_safe(&thesis);
    let thesis = stage::path_text(&thesis);
    let image = stage.image(16);
    let disk = stage.loop_over(&image, &[]).expect("a loop device");
    let name = disk.file_name().expect("a name").to_string_lossy();
    let of_the_kernel = format!("/sys/block/{name}/queue/read_ahead_kb");
    stage.keep_safe(std::path::Path::new(&of_the_kernel));
    stage.keep_safe(std::path::Path::new("/proc/self/oom_score_adj"));
    for line in [
        format!(
            "run --driver sim --ops 10 --rw write --set target.size=1MiB --set target.options.state={thesis}"
        ),
        format!("run --driver null --ops 10 --set capture.dir={thesis}"),
        format!("run --driver filestream --path {thesis} --rw write --ops 8 --bs 4KiB"),
        format!("run --driver filestream --path {} --rw write --ops 8 --bs 4KiB", disk.display()),
        confirmed(&of_the_kernel),
        confirmed(&format!("/proc/{}/oom_score_adj", std::process::id())),
        confirmed("/dev/zero"),
    ] {
        let line = format!("{line} --output out");
        stage.attempt("another path", &[], &line.split_whitespace().collect::<Vec<_>>());
    }
    let done = |a: &&Attempt| !a.intact || !matches!(a.code, Some(2..=4));
    let wrong: Vec<String> =
        stage.attempts.iter().filter(done).map(|a| format!("{:?}: {}", a.code, a.what)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn confirmed(path: &str) -> String {
    format!(
        "run --driver file --path {path} --rw write --ops 1 --bs 4KiB --set target.options.direct=false \
         --set target.destroy=true --destroy {path}"
    )
}

/// Uses that are played, at least.
const LEAST_USES: usize = 40;

#[test]
fn guard_matrix_legitimate_uses() {
    let uses: Vec<legitimate::Use> = legitimate::uses().collect();
    assert!(uses.len() >= LEAST_USES, "{}", uses.len());
    if skipped("guard_matrix_legitimate_uses", not_root()) {
        return;
    }
    let program = SharedBinary::copied();
    let wanted = std::env::var("TAILLIGHT_MATRIX").unwrap_or_default();
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some((name, play)) = uses.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if !name.contains(&wanted) {
                        continue;
                    }
                    if let Err(why) = play(&mut AttackStage::new(&program)) {
                        wrong.lock().expect("no panic").push(format!("{name}: {why}"));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("no panic");
    println!("legitimate uses: {} of {} worked", uses.len() - wrong.len(), uses.len());
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), uses.len(), wrong.join("\n"));
}

/// Rounds of each of the three races: 201 in all.
const ROUNDS: u32 = 67;

#[test]
fn guard_matrix_races() {
    if skipped("guard_matrix_races", not_root()) {
        return;
    }
    let program = SharedBinary::copied();
    let ends = std::thread::scope(|scope| {
        let begin = |race| {
            let program = &program;
            scope.spawn(move || (race, races::play(program, race, ROUNDS)))
        };
        let all = races::Race::ALL.map(begin);
        all.map(|race| race.join().expect("no panic"))
    });
    let mut lost = Vec::new();
    for (race, end) in ends {
        let end = end.expect("a race");
        println!(
            "race of {race:?}: {} rounds, {} ran, {} refused",
            end.rounds, end.ran, end.refused
        );
        assert_eq!(end.rounds, ROUNDS);
        assert!(end.ran > 0 && end.refused > 0, "{race:?}: only one side was ever met: {end:?}");
        lost.extend(end.lost.iter().map(|how| format!("{race:?}: {how}")));
    }
    assert!(lost.is_empty(), "{} lost:\n{}", lost.len(), lost.join("\n"));
}

/// `docs/testing.md` has the table of what is tried. `TAILLIGHT_MATRIX_WRITE=1` writes it there.
#[test]
fn guard_matrix_page() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/testing.md");
    let (begin, end) = ("<!-- guard_matrix -->\n", "<!-- guard_matrix end -->");
    let text = std::fs::read_to_string(path).expect("the page");
    let (head, rest) = text.split_once(begin).expect("where the table begins");
    let (found, tail) = rest.split_once(end).expect("where it ends");
    let wanted = format!("\n{}\n", table::page());
    if std::env::var_os("TAILLIGHT_MATRIX_WRITE").is_some() {
        std::fs::write(path, [head, begin, &wanted, end, tail].concat()).expect("written");
        return;
    }
    let how = "TAILLIGHT_MATRIX_WRITE=1 cargo test -p taillight-cli --test guard_matrix page";
    assert!(found == wanted, "the table in docs/testing.md is another one; write it anew: {how}");
}
