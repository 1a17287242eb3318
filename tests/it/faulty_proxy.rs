//! A proxy before a NATS server. It passes the messages of the protocol on one by one, and can delay and repeat them, withhold the
//! server's answers, and cut the connections it has.
//!
//! What is repeated, one time in [`REPEATED_OF`]: of what the server sends, any message (`MSG`, `HMSG`: records that a consumer delivers,
//! and answers to requests); of what a client sends, any publish that carries `Nats-Msg-Id` and is not part of an atomic batch, as a client does that did not hear
//! of the first attempt. A repetition comes at once, or after the next message. Requests to the server and messages of a batch are not
//! repeated: the protocol takes them for others.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pml_model::random::Random;

use crate::nats_server::NatsServer;

/// One of so many messages is repeated.
const REPEATED_OF: usize = 4;

pub(crate) struct FaultyProxy {
    port: u16,
    connections: Arc<Mutex<Vec<Connection>>>,
    trouble: Arc<Trouble>,
}

/// What the proxy does to messages on all connections.
#[derive(Default)]
struct Trouble {
    /// The longest delay of a message.
    delay_us: AtomicU64,
    repeats: AtomicBool,
    /// How many publishes and how many messages of the server were repeated.
    repeated: [AtomicU64; 2],
    /// How many messages of the server were thrown away.
    swallowed: AtomicU64,
}

/// One client's connection: both streams, and whether the server's answers are thrown away.
struct Connection {
    client: TcpStream,
    server: TcpStream,
    swallows: Arc<AtomicBool>,
}

impl FaultyProxy {
    pub(crate) fn start(server: &NatsServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let address = server.url().strip_prefix("nats://").unwrap().to_owned();
        let (connections, trouble) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Trouble::default()));
        let (accepted, faults) = (Arc::clone(&connections), Arc::clone(&trouble));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(&address) else { continue };
                let swallows = Arc::new(AtomicBool::new(false));
                for stream in [&client, &server] {
                    stream.set_nodelay(true).unwrap();
                }
                pass_on(&client, &server, Arc::default(), Arc::clone(&faults));
                pass_on(&server, &client, Arc::clone(&swallows), Arc::clone(&faults));
                accepted.lock().unwrap().push(Connection { client, server, swallows });
            }
        });
        Self { port, connections, trouble }
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Throws away what the server answers on the present connections.
    pub(crate) fn swallow_answers(&self) {
        self.connections.lock().unwrap().iter().for_each(|connection| connection.swallows.store(true, Ordering::SeqCst));
    }

    /// Delays every message by up to this long.
    pub(crate) fn delay(&self, longest: Duration) {
        self.trouble.delay_us.store(longest.as_micros().try_into().unwrap(), Ordering::SeqCst);
    }

    /// Repeats messages, or no longer.
    pub(crate) fn repeat(&self, repeats: bool) {
        self.trouble.repeats.store(repeats, Ordering::SeqCst);
    }

    /// How many publishes and how many messages of the server were repeated so far.
    pub(crate) fn repeated(&self) -> [u64; 2] {
        self.trouble.repeated.each_ref().map(|count| count.load(Ordering::SeqCst))
    }

    /// How many messages of the server were thrown away so far.
    pub(crate) fn swallowed(&self) -> u64 {
        self.trouble.swallowed.load(Ordering::SeqCst)
    }

    /// Ends the present connections; new ones work.
    pub(crate) fn cut(&self) {
        for connection in self.connections.lock().unwrap().drain(..) {
            // Either side may be gone already.
            drop(connection.client.shutdown(Shutdown::Both));
            drop(connection.server.shutdown(Shutdown::Both));
        }
    }
}

/// One message of the protocol: its line, and what follows it.
struct Frame {
    bytes: Vec<u8>,
    /// Whose repetition means something: 0 for a publish, 1 for a message of the server.
    repeatable: Option<usize>,
}

/// Reads the next message; `None` at the end of the connection.
fn read_frame(from: &mut BufReader<TcpStream>) -> Option<Frame> {
    let mut bytes = Vec::new();
    if from.read_until(b'\n', &mut bytes).ok()? == 0 {
        return None;
    }
    let line = String::from_utf8_lossy(&bytes).into_owned();
    let mut words = line.split_ascii_whitespace();
    let kind = words.next().unwrap_or_default();
    if !["PUB", "HPUB", "MSG", "HMSG"].contains(&kind) {
        return Some(Frame { bytes, repeatable: None });
    }
    let (head, len) = (bytes.len(), words.next_back()?.parse::<usize>().ok()?);
    bytes.resize(head + len + b"\r\n".len(), 0);
    from.read_exact(&mut bytes[head..]).ok()?;
    let has = |name: &[u8]| bytes[head..].windows(name.len()).any(|part| part == name);
    let repeatable = match kind {
        "HPUB" if has(b"Nats-Msg-Id") && !has(b"Nats-Batch-Id") => Some(0),
        "MSG" | "HMSG" => Some(1),
        _ => None,
    };
    Some(Frame { bytes, repeatable })
}

fn pass_on(from: &TcpStream, to: &TcpStream, swallows: Arc<AtomicBool>, trouble: Arc<Trouble>) {
    let (mut from, mut to) = (BufReader::new(from.try_clone().unwrap()), to.try_clone().unwrap());
    std::thread::spawn(move || {
        let mut random = Random::new(1);
        let mut later: Option<Vec<u8>> = None;
        while let Some(Frame { bytes, repeatable }) = read_frame(&mut from) {
            let longest = trouble.delay_us.load(Ordering::SeqCst);
            if longest > 0 {
                std::thread::sleep(Duration::from_micros(random.next_u64() % longest));
            }
            if swallows.load(Ordering::SeqCst) {
                trouble.swallowed.fetch_add(1, Ordering::SeqCst);
                continue;
            }
            let mut sent = bytes.clone();
            sent.extend(later.take().into_iter().flatten());
            let repeats = trouble.repeats.load(Ordering::SeqCst) && random.below(REPEATED_OF) == 0;
            if let Some(kind) = repeatable.filter(|_| repeats) {
                trouble.repeated[kind].fetch_add(1, Ordering::SeqCst);
                if random.below(2) == 0 {
                    sent.extend(&bytes);
                } else {
                    later = Some(bytes);
                }
            }
            if to.write_all(&sent).is_err() {
                break;
            }
        }
    });
}
