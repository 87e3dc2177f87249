//! Which texts hold secrets and which do not, by what a secret was found, and what masking leaves of a text, or of a
//! command line of another program.

use super::*;

#[test]
fn secrets_are_masked_and_the_rest_stays() {
    for (text, shown) in [
        ("redis://:pw@h:6379/0", "redis://***@h:6379/0"),
        ("(path: http://me:p@ss:w/o@h/b), at", "(path: http://***@h/b), at"),
        ("--path=redis://:pw@h and s3://k@h", "--path=redis://***@h and s3://***@h"),
        (":pw@127.0.0.1:6379", "***@127.0.0.1:6379"),
        ("redis://:p/w@h/0", "redis://***@h/0"),
        ("target.path=me:pw@h:1", "target.path=***@h:1"),
        (
            "https://h/b?X-Amz-Signature=abc&X-Amz-Date=1&key=z",
            "https://h/b?X-Amz-Signature=***&X-Amz-Date=1&key=***",
        ),
        ("redis.password=foo", "redis.password=***"),
        ("secret_key = \"a b\" # c", "secret_key = \"***\" # c"),
        ("http_s3_key=a", "http_s3_key=***"),
        ("{ aws_secret_access_key = 'x' }", "{ aws_secret_access_key = '***' }"),
        ("password=redis://:pw@h x", "password=*** x"),
        ("http://h/?pass=a&pwd=b&auth=c&token=d", "http://h/?pass=***&pwd=***&auth=***&token=***"),
        ("http://h/password=a", "http://h/password=***"),
        ("{ auth = 'x' }", "{ auth = '***' }"),
        ("--token=abc --pass=x", "--token=*** --pass=***"),
        ("AWS_SESSION_TOKEN=a access_token=b", "AWS_SESSION_TOKEN=*** access_token=***"),
        ("MYSQL_PWD=a REDISCLI_AUTH=b", "MYSQL_PWD=*** REDISCLI_AUTH=***"),
        ("PGPASSWORD=c", "PGPASSWORD=***"),
    ] {
        assert_eq!(masked(text), shown, "{text}");
        assert!(secret_in(text).is_some(), "{text}");
        assert_eq!(masked(shown), shown, "a second time");
    }
    assert_eq!(secret_in("redis://:two words@h"), Some(SecretKind::BeforeAt));
}

#[test]
fn what_holds_no_secret_is_left_alone() {
    for text in [
        "20ms@99.9",
        "http://127.0.0.1:9000/bench/taillight/",
        "remove what stands before the @, and set AWS_ACCESS_KEY_ID",
        "/user.slice/user@1000.service",
        "/mnt/a:b@c/file",
        "2026-11-27T12:30:00@nvme0",
        "http://h/bench/a@b/",
        "http://127.0.0.1:9000/a@b and http://[::1]/a@b",
        "workload.0.keys.count=100",
        "target.options.profile=bench",
        "passes=3 key=user12 compaction.bypass=1 hdrhistogram.sig=3",
        "password=",
        "redis://[::1]:7/0",
        "pass=2",
        "first_pass=1/report.html",
        "tokens=4 max-tokens=8",
        "auth=1 pwd=2 token=3",
        "./password=2/report.html and /mnt/secret=1/f",
        "--output=pass=2",
        "name = \"pass=2\"",
    ] {
        assert_eq!(masked(text), text);
        assert_eq!(secret_in(text), None, "{text}");
    }
}

#[test]
fn names_of_fields_that_hold_secrets_are_known() {
    assert_eq!(masked("auth = x"), "auth = ***");
    assert_eq!(masked("night.pass=2"), "night.pass=2");
    for name in ["pass", "pwd", "auth", "token", "secret_key", "AWS_SESSION_TOKEN", "db_password"] {
        assert!(is_secret_name(name), "{name}");
    }
    for name in ["passes", "tokens", "key", "name", "path", "author", "compass"] {
        assert!(!is_secret_name(name), "{name}");
    }
}

#[test]
fn it_is_said_by_what_a_secret_was_known() {
    let said = |text: &str| secret_in(text).map(|kind| kind.to_string()).unwrap_or_default();
    assert_eq!(said("redis://:pw@h"), "what stands before an @");
    assert_eq!(said("me:pw@h:1"), "what stands before an @");
    assert_eq!(said("http://h/?a=b&token=x"), "the value of `token`");
    assert_eq!(said("a.secret_key=x"), "the value of `secret_key`");
}

#[test]
fn command_lines_of_other_programs_keep_no_secret() {
    for line in [
        "mysql -phunter2 db",
        "sshpass -p hunter2 ssh h",
        "curl -u me:hunter2 http://h/",
        "curl --user me:hunter2 http://h/",
        "curl --user=me:hunter2 http://h/",
        "redis-cli -h h -a hunter2 ping",
        "redis-cli -ahunter2",
        "rsync me:hunter2@host /a",
        "curl https://me:hunter2@host/",
        "curl http://h/?a=b&sig=hunter2&token=hunter2",
        "tool --password hunter2 x",
        "tool --password=hunter2",
        "tool -password hunter2",
        "tool --api-key=hunter2 --token hunter2",
        "env PGPASSWORD=hunter2 psql",
        "env MYSQL_PWD=hunter2 mysql",
        "java -Djavax.net.ssl.keyStorePassword=hunter2 -jar a.jar",
        "mysql -p -u me:hunter2",
        "tar -vp hunter2",
        "openssl -passin pass:hunter2",
        "smbclient -U me%hunter2 //h/s",
        "curl -H X-Api-Key:hunter2 h",
        "7z -Phunter2 a",
        "mount -o ro,auth=hunter2 /a",
        "tool --url=me:hunter2@host -x",
    ] {
        let kept = masked_command(line.split(' '));
        assert!(!kept.contains("hunter2"), "{kept}");
        let inside = masked_command(["sh", "-c", line]);
        assert!(!inside.contains("hunter2"), "{inside}");
        assert!(!masked_command([line]).contains("hunter2"), "{line}");
        assert!(kept.starts_with(line.split(' ').next().unwrap()) && inside.starts_with("sh -c "));
    }
    let header = ["curl", "-H", "Authorization: Bearer hunter2 hunter2", "h"];
    assert_eq!(masked_command(header), "curl -H Authorization: *** h");
    assert_eq!(masked_command(["a", "--password", "two hunter2 words"]), "a --password ***");
    assert_eq!(masked_command(["curl", "https://me:hunter2@host/"]), "curl https://***@host/");
}

#[test]
fn command_lines_of_other_programs_stay_readable() {
    for line in [
        "/bin/batch --all",
        "tar cf - /home",
        "/usr/sbin/sshd -D",
        "ssh root@host",
        "fio --rw=randread --bs=4k job.fio",
        "redis-server *:6379",
        "postgres: checkpointer",
        "find / -name x -newer y",
        "",
    ] {
        assert_eq!(masked_command(line.split(' ')), line);
        assert_eq!(masked_command([line]), line);
    }
}
