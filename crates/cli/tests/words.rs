//! Words and texts from outside: what is no UTF-8, what holds a secret, what is as long as a file.
#![allow(clippy::unwrap_used)]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use crate::common::{self, ended, run_line, scratch, taillight};

/// Runs it with words of which `%` stands for a byte that no UTF-8 has.
fn run_bytes(dir: &Path, line: &str) -> (i32, String) {
    let words = line.split(' ').map(|word| {
        let bytes = word.bytes().map(|b| if b == b'%' { 0xff } else { b });
        OsString::from_vec(bytes.collect())
    });
    let output = taillight(dir).args(words).output().unwrap();
    let code = output.status.code().unwrap_or(-1);
    (code, ended(&output, code).1)
}

#[test]
fn words_that_are_no_text_are_refused_or_work() {
    let dir = scratch();
    let at = |name: &[u8]| dir.path().join(OsString::from_vec(name.to_vec()));
    let job = "[run]\noperations = 10\n[target]\ndriver = \"null\"\n";
    std::fs::write(at(b"j\xff.toml"), job).unwrap();
    std::fs::write(at(b"job.toml"), job).unwrap();
    std::fs::write(at(b"f\xff.fio"), "[a]\nrw=read\nsize=1m\n").unwrap();
    run_line(dir.path(), "run job.toml --output out", 0);
    std::fs::rename(at(b"out"), at(b"r\xff")).unwrap();
    for line in [
        "run j%.toml",
        "run job.toml --output o%",
        "run --driver null --path p%",
        "run --driver n%",
        "run job.toml --set run.name=%",
        "run job.toml --live=%",
        "run f%.fio",
        "-q run j%.toml",
        "run --% job.toml",
        "ab job.toml j%.toml",
        "ab job.toml job.toml --output o%",
        "suite s%.toml",
        "suite ycsb --target j%.toml",
        "suite ycsb -P f% -p recordcount=%",
        "suite --resume r%",
        "%",
        "doctor --%",
        "drivers %",
        "schema %",
        "import --format % f%.fio",
        "completions %",
        "man % %",
        "compare r% r% --metric %",
    ] {
        let (code, err) = run_bytes(dir.path(), line);
        assert_eq!(code, 2, "{line}: {err}");
        assert!(err.contains("error:"), "{line}: {err}");
    }
    for (line, code) in [
        ("report r%", 0),
        ("report r% --output p%", 0),
        ("report none%", 4),
        ("compare r% r% --output c%", 0),
        ("export r% --output e%.csv", 0),
        ("export j%.toml --format fio-job --output e%.fio", 0),
        ("explain r%", 2),
        ("doctor --path d%", 0),
        ("import f%.fio --output i%.toml", 0),
        ("man m%", 0),
        ("drive /dev/%", 4),
    ] {
        let (found, err) = run_bytes(dir.path(), line);
        // What a file holds or a machine allows decides, never the name.
        assert!(found == code || [2, 4].contains(&found), "{line}: {found} {err}");
    }
    let variables =
        ["COLUMNS", "TERM", "NO_COLOR", "REDIS_PASSWORD", "AWS_PROFILE", "HOME", "TMPDIR"];
    for name in variables {
        let value = OsString::from_vec(vec![0xff]);
        let output = taillight(dir.path()).args(["run", "job.toml"]).env(name, value).output();
        ended(&output.unwrap(), 0);
    }
}

/// Everything that a command printed, and every file below its directory.
fn everything(dir: &Path, printed: &str) -> Vec<u8> {
    let mut all = printed.as_bytes().to_vec();
    let mut left = vec![dir.to_owned()];
    while let Some(path) = left.pop() {
        match std::fs::read_dir(&path) {
            Ok(entries) => left.extend(entries.flatten().map(|e| e.path())),
            Err(_) => all.extend(std::fs::read(&path).unwrap()),
        }
    }
    all
}

const SECRET: &str = "hunter2";

#[test]
fn secrets_of_a_command_line_are_refused_and_not_repeated() {
    for words in [
        "doctor --path redis://:hunter2@127.0.0.1:1",
        "doctor --json --path http://me:hunter2@127.0.0.1:1/bench",
        "run --path redis://:hunter2@127.0.0.1:1 --print-plan",
        "run --path redis://user:hun/ter2hunter2@127.0.0.1:1",
        "run --path :hunter2@127.0.0.1:1 --ops 1",
        "run --path http://a:hunter2@127.0.0.1:1/bench --ops 1",
        "run --path http://127.0.0.1:1/bench?X-Amz-Signature=hunter2 --print-plan",
        "run --path https://127.0.0.1:1/bench/?a=b&token=hunter2",
        "run --driver null --path redis://:hunter2@h --print-plan",
        "run --driver redis --set target.path=redis://:hunter2@h",
        "run --driver redis --path h:1 --set target.options.password=hunter2",
        "run --driver s3 --path http://h/bench --set target.options.secret_key=hunter2",
        "run --driver s3 --path http://h/bench --set target.options.endpoints=[\"a:hunter2@h\"]",
        "run --driver null --password=hunter2",
        "run --driver null --sweep target.path=redis://:hunter2@a,redis://:hunter2@b",
        "run --driver null --live=me:hunter2@127.0.0.1:0",
        "run --driver null --output redis://:hunter2@h",
        "run --driver null --destroy redis://:hunter2@h",
        "suite ycsb --driver redis --path redis://:hunter2@h",
        "suite ycsb -p redis.password=hunter2",
        "suite slc-paper --path . --endpoint http://me:hunter2@h/bench",
        "ab a.toml --set-b target.path=redis://:hunter2@h",
        "export out --format remote-write --output http://me:hunter2@127.0.0.1:1/w",
        "import f.properties -p s3.secretKey=hunter2",
        "report redis://:hunter2@h",
    ] {
        let dir = scratch();
        let output = taillight(dir.path()).args(words.split(' ')).output().unwrap();
        let (out, err) = ended(&output, 2);
        assert!(err.contains("hint:"), "{words}: {err}");
        let all = everything(dir.path(), &(out + &err));
        assert!(!all.windows(SECRET.len()).any(|w| w == SECRET.as_bytes()), "{words}: {err}");
    }
}

#[test]
fn ordinary_names_are_no_secrets_and_it_is_said_what_was_taken_for_one() {
    let dir = scratch();
    let run =
        |words: &[&str], code| ended(&taillight(dir.path()).args(words).output().unwrap(), code);
    let null = ["run", "--driver", "null", "--ops", "100", "--output"];
    for name in ["pass=2", "tokens=4", "auth=1", "secret=3", "12:30@nvme0:1", "first.token=1"] {
        let (out, _) = run(&[&null[..], &[name]].concat(), 0);
        let masked = name.contains("secret") || name.contains('@');
        assert!(masked || out.contains(name), "{out}");
        run(&["report", name], 0);
        run(&["report", &format!("./{name}/")], 0);
    }
    for (words, said) in [
        (["run", "--path", "redis://:hunter2@h"], "what stands before an @"),
        (["run", "--set", "target.options.auth=hunter2"], "the value of `auth`"),
        (["run", "--path", "http://h/b?a=b&token=hunter2"], "the value of `token`"),
        (["run", "--set", "pass=hunter2"], "the value of `pass`"),
    ] {
        let (_, err) = run(&words, 2);
        assert!(err.contains(said) && !err.contains(SECRET), "{err}");
    }
}

#[test]
fn secrets_of_files_are_refused_and_not_repeated() {
    let target = |of: &str| format!("[run]\noperations = 1\n[target]\n{of}\n");
    for (name, text, line, code) in [
        ("j.toml", target("driver = \"redis\"\npath = \"redis://:hunter2@127.0.0.1:1\""), "", 2),
        ("j.toml", target("driver = \"null\"\npath = \"http://h/?sig=hunter2\""), "", 2),
        ("j.toml", target("driver = \"null\"\npath = \"redis://:two hunter2@h\""), "", 2),
        ("j.toml", target("driver = \"null\"\npath = redis://:hunter2@h"), "", 2),
        ("j.toml", target("driver = \"redis\"\npath = \"h:1\"\npassword = \"hunter2\""), "", 2),
        ("j.toml", target("driver = \"redis\"\npath = \"h:1\"\npassword = hunter2"), "", 2),
        ("j.toml", target("driver = \"redis\"\noptions = { auth = \"hunter2\" }"), "", 2),
        (
            "j.toml",
            target("driver = \"null\"\noptions = { token = \"hunter2\" }"),
            "--print-plan",
            2,
        ),
        ("j.toml", target("driver = \"null\"\n# path = \"redis://:hunter2@h\""), "", 0),
        (
            "j.toml",
            target("driver = \"null\"\n# secret_key = \"hunter2\""),
            "--set run.repeat=2",
            0,
        ),
        (
            "j.toml",
            target("driver = \"null\"\n[sweep]\ntarget.path = [\"redis://:hunter2@h\"]"),
            "",
            2,
        ),
        ("j.fio", "[a]\nioengine=http\nhttp_s3_key=hunter2\nrw=read\nsize=1m\n".into(), "", 2),
        (
            "j.fio",
            "[a]\nioengine=null\nfilename=http://a:hunter2@h/b\nrw=read\nsize=1m\n".into(),
            "",
            0,
        ),
        (
            "j.properties",
            "recordcount=10\noperationcount=10\nredis.password=hunter2\n".into(),
            "",
            0,
        ),
    ] {
        let dir = scratch();
        std::fs::write(dir.path().join(name), text.clone()).unwrap();
        let line = format!("run {name} --output out {line}");
        let output = taillight(dir.path()).args(line.split_whitespace()).output().unwrap();
        let found = output.status.code();
        let (out, err) = ended(&output, found.unwrap_or(-1));
        std::fs::remove_file(dir.path().join(name)).unwrap();
        let all = everything(dir.path(), &(out + &err));
        assert!(!all.windows(SECRET.len()).any(|w| w == SECRET.as_bytes()), "{text}: {err}");
        assert!(found == Some(code) || code == 0 && found == Some(2), "{text}: {found:?} {err}");
    }
}

#[test]
fn a_text_as_long_as_a_file_is_not_printed_whole() {
    let dir = scratch();
    let long = "x".repeat(100_000);
    std::fs::write(dir.path().join("j.toml"), format!("[target]\ndriver = \"{long}\"\n")).unwrap();
    let of = |value: &str| value.replace('%', &long);
    for line in [
        "run j.toml",
        "run %",
        "run --driver %",
        "run --driver null --set run.%=1",
        "run --driver null --set target.path=% --set run.operations=%",
        "run --driver file --path % --size 1MiB",
        "run --driver null --path % --ops 1",
        "run --driver null --ops 1 --output %",
        "run --driver null --sync %",
        "run --driver null --%",
        "run --path h:%99999",
        "report %",
        "suite %",
        "suite ycsb -p %",
        "doctor --% x",
        "%",
        "explain %",
        "compare % %",
        "import %",
        "export % --format %",
        "drivers %",
    ] {
        let output = taillight(dir.path()).args(of(line).split(' ')).output().unwrap();
        let (_, err) = ended(&output, output.status.code().unwrap_or(-1));
        let (code, all) = (output.status.code(), common::text(&output.stdout) + &err);
        assert!([0, 2, 4].map(Some).contains(&code), "{line}: {err}");
        assert!(all.len() < 10_000 && all.contains("left out"), "{line}: {}", all.len());
    }
}
