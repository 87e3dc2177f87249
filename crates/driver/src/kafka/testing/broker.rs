//! A Kafka broker for tests: one node in KRaft mode, its jars from the local Maven repository, with data of its own and
//! on loopback; ended on drop. Uses nothing of this crate: tests of the binary include the file.
#![allow(clippy::unwrap_used, dead_code)]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What is run; `cargo xtask setup` fetches it.
pub const VERSION: &str = "4.1.0";

/// A running broker.
pub struct KafkaBroker {
    process: Child,
    dir: PathBuf,
    classpath: String,
    pub port: u16,
}

/// The jars of the broker and its tools, as Maven finds them without a network. Errors: why there are none.
pub fn classpath() -> Result<String, String> {
    let known = std::env::temp_dir().join(format!("taillight-kafka-{VERSION}.classpath"));
    let whole =
        |text: &String| !text.is_empty() && text.split(':').all(|jar| Path::new(jar).exists());
    if let Some(text) = std::fs::read_to_string(&known).ok().filter(whole) {
        return Ok(text);
    }
    let dir = std::env::temp_dir().join(format!(
        "taillight-kafka-pom-{}-{}",
        std::process::id(),
        free_port()
    ));
    std::fs::create_dir(&dir).map_err(|e| e.to_string())?;
    let needs = |name| {
        format!(
            "<dependency><groupId>org.apache.kafka</groupId><artifactId>{name}</artifactId>\
             <version>{VERSION}</version></dependency>"
        )
    };
    let pom = format!(
        "<project><modelVersion>4.0.0</modelVersion><groupId>t</groupId><artifactId>t</artifactId>\
         <version>1</version><dependencies>{}{}</dependencies></project>",
        needs("kafka_2.13"),
        needs("kafka-tools")
    );
    let (list, asked) = (dir.join("classpath"), dir.join("pom.xml"));
    let made = std::fs::write(&asked, pom).map_err(|e| e.to_string()).and_then(|()| {
        let mut mvn = Command::new("mvn");
        mvn.args(["-o", "-q", "-B", "dependency:build-classpath"]).current_dir(&dir);
        mvn.arg(format!("-Dmdep.outputFile={}", list.display()));
        let out = mvn.output().map_err(|e| format!("no Maven: {e}"))?;
        if !out.status.success() {
            return Err(format!(
                "the jars of Kafka {VERSION} are not in the local Maven repository"
            ));
        }
        std::fs::read_to_string(&list).map_err(|e| e.to_string())
    });
    let _ = std::fs::remove_dir_all(&dir);
    let text = made?.trim().to_owned();
    let part = known.with_extension(std::process::id().to_string());
    if std::fs::write(&part, &text).is_ok() {
        let _ = std::fs::rename(&part, &known);
    }
    Ok(text)
}

impl KafkaBroker {
    /// Starts a broker with these settings beside its own, each as `name=value`; `{port}` and `{controller}` in them
    /// are its ports. Errors: why there is none on this machine.
    pub fn start(settings: &[&str]) -> Result<KafkaBroker, String> {
        let classpath = classpath()?;
        let (port, controller) = (free_port(), free_port());
        let dir =
            std::env::temp_dir().join(format!("taillight-kafka-{}-{port}", std::process::id()));
        std::fs::create_dir_all(dir.join("data")).map_err(|e| e.to_string())?;
        let data = dir.join("data");
        let mut all = vec![
            "process.roles=broker,controller".to_owned(),
            "node.id=1".to_owned(),
            format!("controller.quorum.voters=1@127.0.0.1:{controller}"),
            format!("listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}"),
            format!("advertised.listeners=PLAINTEXT://127.0.0.1:{port}"),
            "controller.listener.names=CONTROLLER".to_owned(),
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT".to_owned(),
            format!("log.dirs={}", data.display()),
            "offsets.topic.replication.factor=1".to_owned(),
            "auto.create.topics.enable=false".to_owned(),
            "file.delete.delay.ms=100".to_owned(),
        ];
        let given = |s: &&str| {
            s.replace("{port}", &port.to_string()).replace("{controller}", &controller.to_string())
        };
        all.extend(settings.iter().map(given));
        // What `kafka-storage format` would write, without a second start of Java.
        let meta = "version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\nnode.id=1\n\
                    directory.id=BBBBBBBBBBBBBBBBBBBBBA\n";
        std::fs::write(data.join("meta.properties"), meta).map_err(|e| e.to_string())?;
        std::fs::write(dir.join("server.properties"), all.join("\n")).map_err(|e| e.to_string())?;
        let process = Command::new("true").spawn().map_err(|e| e.to_string())?;
        let mut broker = KafkaBroker { process, dir, classpath, port };
        broker.restart()?;
        Ok(broker)
    }

    /// Starts the broker on its data, as after a crash. Errors: when it does not answer.
    pub fn restart(&mut self) -> Result<(), String> {
        let _ = self.process.wait();
        let log = std::fs::File::create(self.dir.join("log")).map_err(|e| e.to_string())?;
        let mut java = Command::new("java");
        java.args([
            "-Xmx512m",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-cp",
            &self.classpath,
        ]);
        java.arg("kafka.Kafka").arg(self.dir.join("server.properties"));
        java.stdin(Stdio::null()).stderr(log.try_clone().map_err(|e| e.to_string())?).stdout(log);
        self.process = java.spawn().map_err(|e| format!("no Java: {e}"))?;
        let since = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let ended = self.process.try_wait().is_ok_and(|status| status.is_some());
            if ended || since.elapsed() > Duration::from_secs(90) {
                let log = std::fs::read_to_string(self.dir.join("log")).unwrap_or_default();
                return Err(format!("the broker does not start: {log}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// As `target.path`, without a topic.
    pub fn address(&self) -> String {
        format!("kafka://127.0.0.1:{}", self.port)
    }

    pub fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Ends it at once, as a crash does.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// A tool of Kafka's own on this broker, in a virtual machine as its scripts start it (`kafka-run-class.sh`).
    pub fn tool(&self, class: &str) -> Command {
        let mut java = Command::new("java");
        java.args(["-Xmx512M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]);
        java.args(["-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"]);
        java.args(["-Djava.awt.headless=true", "-cp", &self.classpath, class]);
        java
    }
}

impl Drop for KafkaBroker {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
