//! `Server` is a nats-server process that is killed when the measurement ends.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};

const START_ATTEMPTS: u32 = 500;
const START_PAUSE: Duration = Duration::from_millis(10);

pub(in crate::bench) struct Server {
    child: Child,
    port: u16,
    directory: PathBuf,
}

impl Server {
    /// Starts `program` on a free port with its store in `directory`.
    pub(in crate::bench) fn start(program: &Path, directory: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(directory)?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = Command::new(program)
            .args(["-js", "-a", "127.0.0.1", "-p", &port.to_string(), "-sd"])
            .arg(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot run {}; name a nats-server with --nats-server", program.display()))?;
        let mut server = Self { child, port, directory: directory.to_owned() };
        for _ in 0..START_ATTEMPTS {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(server);
            }
            if let Some(status) = server.child.try_wait()? {
                bail!("{} ended at once: {status}", program.display());
            }
            std::thread::sleep(START_PAUSE);
        }
        bail!("{} does not listen", program.display())
    }

    /// The directory of its streams.
    pub(in crate::bench) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(in crate::bench) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let ended = self.child.kill().and_then(|()| self.child.wait());
        if let Err(error) = ended {
            tracing::warn!(%error, "cannot stop the nats-server of the measurement");
        }
    }
}
