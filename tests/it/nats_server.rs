//! Real nats-servers for the tests: loopback, free ports, a directory of their own, the configuration files pml ships.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use pml::config::{self, Config, Secret};
use pml::nats::Nats;
use pml::subject::Subjects;
use tempfile::TempDir;

use crate::server::eventually;

/// The server's program. Without it nothing about NATS can be tested, so that is a failure, not a reason to skip.
pub(crate) fn program() -> PathBuf {
    let path = std::env::var_os("PML_TEST_NATS_SERVER").map(PathBuf::from).filter(|path| path.exists());
    path.expect("PML_TEST_NATS_SERVER names no program; run scripts/test, which installs nats-server and says where it is")
}

pub(crate) fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("config/nats").join(name)
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// One server process on a fixed address, which may be killed and started again.
pub(crate) struct NatsServer {
    port: u16,
    config: PathBuf,
    environment: Vec<(String, String)>,
    arguments: Vec<String>,
    child: Option<Child>,
    home: TempDir,
}

impl NatsServer {
    /// One server with the configuration for one server.
    pub(crate) fn start() -> Self {
        Self::with(&shipped("single.conf"))
    }

    pub(crate) fn with(config: &Path) -> Self {
        Self::with_environment(config, &[])
    }

    pub(crate) fn with_environment(config: &Path, environment: &[(&str, &str)]) -> Self {
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (home, port) = (TempDir::new().unwrap(), free_port());
        let arguments = ["-a", "127.0.0.1", "-p", &port.to_string()].map(str::to_owned).to_vec();
        let mut server = Self { port, config: config.to_owned(), environment, arguments, child: None, home };
        server.run();
        server
    }

    pub(crate) fn run(&mut self) {
        let complaints = self.home.path().join("server.log");
        let output = std::fs::File::create(&complaints).unwrap();
        // The store's directory is relative in the shipped file, so it comes to lie in the server's own.
        let mut child = Command::new(program())
            .arg("-c")
            .arg(&self.config)
            .args(&self.arguments)
            .envs(self.environment.iter().cloned())
            .current_dir(self.home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .unwrap();
        let port = self.port;
        eventually("the nats-server", || {
            let said = || std::fs::read_to_string(&complaints).unwrap();
            assert!(child.try_wait().unwrap().is_none(), "nats-server did not start: {}", said());
            TcpStream::connect(("127.0.0.1", port)).ok()
        });
        self.child = Some(child);
    }

    /// SIGKILL: no handler runs, nothing is flushed.
    pub(crate) fn kill9(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("it is ours");
            child.wait().expect("it was killed");
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// What the server was told to be called, in a cluster.
    pub(crate) fn name(&self) -> &str {
        self.environment.iter().find(|(name, _)| name == "PML_NATS_NAME").map_or("", |(_, value)| value)
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill9();
    }
}

/// Three servers that replicate each other.
pub(crate) fn cluster() -> Vec<NatsServer> {
    let nodes: Vec<(u16, u16)> = (0..3).map(|_| (free_port(), free_port())).collect();
    let routes = nodes.iter().map(|(_, cluster)| format!("nats://127.0.0.1:{cluster}"));
    let routes: Vec<_> = routes.zip(1..).map(|(route, number)| (format!("PML_NATS_ROUTE_{number}"), route)).collect();
    let node = |(number, (port, cluster)): (usize, &(u16, u16))| {
        let home = TempDir::new().unwrap();
        let mut environment = routes.clone();
        environment.extend([
            ("PML_NATS_NAME".to_owned(), format!("nats-{}", number + 1)),
            ("PML_NATS_LISTEN".to_owned(), format!("127.0.0.1:{port}")),
            ("PML_NATS_CLUSTER".to_owned(), format!("127.0.0.1:{cluster}")),
            ("PML_NATS_STORE".to_owned(), home.path().join("store").display().to_string()),
        ]);
        let config = shipped("node.conf");
        let mut server = NatsServer { port: *port, config, environment, arguments: Vec::new(), child: None, home };
        server.run();
        server
    };
    nodes.iter().enumerate().map(node).collect()
}

/// What a process needs to connect.
pub(crate) fn settings(urls: &[String]) -> config::Nats {
    let mut settings = Config::load(None, []).unwrap().nats;
    settings.servers = urls.iter().map(Secret::new).collect();
    settings
}

/// The settings of the log as shipped.
pub(crate) fn log_settings() -> config::Log {
    Config::load(None, []).unwrap().log
}

pub(crate) fn subjects() -> Subjects {
    Subjects::new("default".parse().unwrap())
}

/// A connection with its streams in place.
pub(crate) async fn connect(settings: &config::Nats) -> Nats {
    let nats = Nats::connect(settings, subjects()).await.unwrap();
    let dead = config::Dead { letters_max: 5, letter_bytes_max: 1 << 16, bytes_max: 1 << 20 };
    nats.provision(&dead, &log_settings()).await.unwrap();
    nats
}
