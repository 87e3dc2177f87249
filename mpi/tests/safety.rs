//! Nothing is touched on any host unless all may be: the same path is another file on each, and what was confirmed is
//! that file and no other.

mod common;

use common::{Failed, has_namespaces, hosts, printed_ids, said};

const HOSTS: [(&str, Option<i64>); 2] = [("h0", None), ("h1", None)];

const WRITES: &str = "[run]\noperations = 64\n[target]\ndriver = \"file\"\npath = \"data\"\nsize = \"1MiB\"\n\
                      options = { direct = false }\n[[workload]]\nmix = \"write\"\nblock_size = \"4KiB\"\n";

#[test]
fn one_refusal_stops_all_before_a_byte_is_written() -> Result<(), Failed> {
    if !has_namespaces("one_refusal_stops_all_before_a_byte_is_written") {
        return Ok(());
    }
    let tmp = tempfile::tempdir()?;
    let at = |name: &str| tmp.path().join(name);
    std::fs::write(at("job.toml"), WRITES)?;
    // Rank 1 would overwrite somebody's file; rank 0 could make its own.
    std::fs::write(at("data.rank-0001"), "thesis")?;
    let output = hosts(tmp.path(), &HOSTS, &["run", "job.toml", "--output", "RUN"]).output()?;
    let (code, text) = said(&output);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("rank 1 on h1"), "{text}");
    assert!(!at("data.rank-0000").exists() && !at("RUN").exists(), "{text}");
    assert_eq!(std::fs::read(at("data.rank-0001"))?, b"thesis");
    Ok(())
}

#[test]
fn only_confirmed_identities_are_destroyed() -> Result<(), Failed> {
    if !has_namespaces("only_confirmed_identities_are_destroyed") {
        return Ok(());
    }
    let tmp = tempfile::tempdir()?;
    let at = |name: &str| tmp.path().join(name);
    std::fs::write(at("job.toml"), WRITES.replace("\nsize", "\ndestroy = true\nsize"))?;
    let foreign = vec![b'x'; 1 << 20];
    for name in ["data.rank-0000", "data.rank-0001"] {
        std::fs::write(at(name), &foreign)?;
    }
    let run = |destroy: &[&str]| {
        let words = [&["run", "job.toml", "--output", "RUN"], destroy].concat();
        hosts(tmp.path(), &HOSTS, &words).output()
    };
    let (code, text) = said(&run(&[])?);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("--destroy 'h0:file.birth_ns="), "{text}");
    let ids = printed_ids(&text);
    assert_eq!(ids.len(), 2, "{text}");
    // A path alone confirms nothing.
    let (code, text) = said(&run(&["--destroy", "data"])?);
    assert_eq!(code, Some(2), "{text}");
    let good: Vec<String> = ids.iter().enumerate().map(|(n, id)| format!("h{n}:{id}")).collect();
    // One is another file than the confirmed one, or of another host: nothing happens anywhere.
    for wrong in [good[1].replace("inode=", "inode=9"), good[1].replace("h1:", "h0:")] {
        let (code, text) = said(&run(&["--destroy", &good[0], "--destroy", &wrong])?);
        assert_eq!(code, Some(3), "{text}");
        for name in ["data.rank-0000", "data.rank-0001"] {
            assert!(std::fs::read(at(name))? == foreign, "{name}: {text}");
        }
    }
    std::fs::write(at("ids"), good.join("\n"))?;
    let (code, text) = said(&run(&["--destroy", "@ids"])?);
    assert_eq!(code, Some(0), "{text}");
    for host in ["rank 0 on h0", "rank 1 on h1"] {
        assert!(text.contains(&format!("will be lost: {host}: file ")), "{text}");
    }
    Ok(())
}

/// What is on targets of other hosts is not looked at when a series goes on: it is confirmed anew.
#[test]
fn a_series_over_hosts_is_confirmed_anew_when_it_goes_on() -> Result<(), Failed> {
    if !has_namespaces("a_series_over_hosts_is_confirmed_anew_when_it_goes_on") {
        return Ok(());
    }
    let tmp = tempfile::tempdir()?;
    let at = |name: &str| tmp.path().join(name);
    std::fs::write(at("job.toml"), WRITES.replace("\nsize", "\ndestroy = true\nsize"))?;
    for name in ["data.rank-0000", "data.rank-0001"] {
        std::fs::write(at(name), vec![b'x'; 1 << 20])?;
    }
    let run = |words: &[&str]| hosts(tmp.path(), &HOSTS, words).output();
    let words = ["run", "job.toml", "--set", "run.repeat=2", "--output"];
    let (_, text) = said(&run(&[&words[..], &["REFUSED"]].concat())?);
    let ids = printed_ids(&text);
    assert!(ids.len() >= 2, "{text}");
    let good: Vec<String> =
        ids.iter().take(2).enumerate().map(|(n, id)| format!("h{n}:{id}")).collect();
    let words = [&words[..], &["RUN", "--destroy", &good[0], "--destroy", &good[1]]].concat();
    let (_, text) = said(&run(&words)?);
    assert!(at("RUN/series.json").is_file(), "{text}");
    let (code, text) = said(&run(&["suite", "--resume", "RUN"])?);
    assert_eq!(code, Some(3), "{text}");
    let plain = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(plain.contains("what is on the targets of other hosts"), "{text}");
    assert!(plain.contains("--destroy 'h1:file.birth_ns="), "{text}");
    Ok(())
}

#[test]
fn ranks_of_one_host_do_not_share_what_is_to_be_their_own() -> Result<(), Failed> {
    if !has_namespaces("ranks_of_one_host_do_not_share_what_is_to_be_their_own") {
        return Ok(());
    }
    let tmp = tempfile::tempdir()?;
    let at = |name: &str| tmp.path().join(name);
    std::fs::write(at("job.toml"), WRITES)?;
    // Both names are one file.
    std::fs::write(at("data.rank-0000"), "x")?;
    std::fs::hard_link(at("data.rank-0000"), at("data.rank-0001"))?;
    let output = hosts(tmp.path(), &HOSTS, &["run", "job.toml", "--output", "RUN"]).output()?;
    let (code, text) = said(&output);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("two ranks have the same target"), "{text}");
    Ok(())
}
