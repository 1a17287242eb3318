//! A real object store for the tests: moto, which speaks S3, on loopback.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use pml::files::Place;

use crate::server::{Answer, agent, eventually};

/// The bucket that it has.
const BUCKET: &str = "pml";

pub(crate) struct ObjectServer {
    child: Child,
    port: u16,
}

impl ObjectServer {
    pub(crate) fn start() -> Self {
        let python = std::env::var_os("PML_TEST_PYTHON").map(PathBuf::from).filter(|path| path.exists());
        let python =
            python.expect("PML_TEST_PYTHON names no program; run scripts/test, which installs moto and says where it is");
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(python)
            .args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut server = Self { child, port };
        eventually("the object store", || {
            assert!(server.child.try_wait().unwrap().is_none(), "moto did not start; run scripts/test, which installs it");
            TcpStream::connect(("127.0.0.1", port)).ok()
        });
        let created = Answer::read(agent().put(format!("{}/{BUCKET}", server.url())).send_empty()).unwrap();
        assert_eq!(created.status, 200, "{created:?}");
        server
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The variables of a process that uses it.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT", self.url()),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
        ]
    }

    /// A place in its bucket.
    pub(crate) fn place(&self, prefix: &str) -> Place {
        let options = self.variables().into_iter().map(|(name, value)| (name.to_lowercase(), value));
        Place::at(&format!("s3://{BUCKET}/{prefix}"), options).unwrap()
    }
}

impl Drop for ObjectServer {
    fn drop(&mut self) {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it was killed");
    }
}
