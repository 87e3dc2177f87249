//! Counts of a run beside those of the kernel and of embedded stores. Servers are in `servers` and `databases`.

use crate::common::{
    has_library, manifest, run_line, scratch, scratch_on_disk, summary, witnessed,
};

#[test]
fn the_kernel_counts_what_a_run_did() {
    let home = scratch_on_disk();
    let line = "run --path f --size 16MiB --rw randrw --bs 16KiB --depth 8 --ops 2000 --keep";
    run_line(home.path(), &format!("{line} --direct --output direct"), 0);
    let direct = summary(home.path(), "direct");
    let ratios = witnessed(&direct);
    let said = direct["witness"].to_string();
    if !said.contains("/proc/diskstats") {
        eprintln!(
            "skipped: counts of the kernel: it counts no device below {}",
            home.path().display()
        );
        return;
    }
    assert!(ratios.len() == 4 && ratios.iter().all(|ratio| *ratio >= 1.0), "{said}");
    let own: Vec<_> = direct["witness"].as_array().into_iter().flatten().collect();
    let bytes = own.iter().filter(|it| it["unit"] == "bytes");
    // What is charged to the process is the load, and what else it does: pages of its own, the run directory.
    for it in bytes {
        let beside = it["own"].as_u64().zip(it["counted"].as_u64());
        let beside = beside.and_then(|(own, load)| own.checked_sub(load));
        assert!(beside.is_some_and(|beside| beside < 4 << 20), "{it}");
    }
    // Through the page cache the same counters are no measure, and say why.
    run_line(home.path(), &format!("{line} --direct=false --output cached"), 0);
    let cached = summary(home.path(), "cached");
    witnessed(&cached);
    assert!(cached["witness"].to_string().contains("the page cache"), "{cached:#}");
    let (said, _) = run_line(home.path(), "report direct", 0);
    assert!(said.contains("Witness  /proc/diskstats of "), "{said}");
}

#[test]
fn stores_count_what_a_run_did() {
    for (driver, options, counters) in [
        ("sqlite", "", 2),
        ("rocksdb", " --set target.options.statistics=true", 2),
        ("leveldb", "", 1),
    ] {
        if !has_library(driver) {
            continue;
        }
        let home = scratch();
        run_line(
            home.path(),
            &format!(
                "run --driver {driver} --path db --bs 100B --ops 2000 --output out --set \
                 workload.0.mix={{get=50,update=30,rmw=20}} --set workload.0.keys={{count=500}}{options}"
            ),
            0,
        );
        let ratios = witnessed(&summary(home.path(), "out"));
        assert_eq!(ratios.len(), counters, "{driver}");
        // LevelDB counts no operation: the bytes that it wrote cover those that it was given.
        let fits = |ratio: &f64| *ratio == 1.0 || (driver == "leveldb" && *ratio > 1.0);
        assert!(ratios.iter().all(fits), "{driver}: {ratios:?}");
        assert_eq!(
            manifest(home.path(), "out")["witness"].as_array().map(Vec::len),
            Some(counters)
        );
    }
}
