//! A minimal HTTP client. It shares the machine with the server it measures, so it must cost little.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::Context;

const HEAD_END: &[u8] = b"\r\n\r\n";
const READ_BYTES: usize = 16 << 10;

/// One persistent connection.
pub(super) struct Connection {
    address: SocketAddr,
    stream: TcpStream,
    sent: Vec<u8>,
    received: Vec<u8>,
}

impl Connection {
    pub(super) fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { address, stream, sent: Vec::new(), received: Vec::new() })
    }

    /// Posts `body` and returns the status and the text of the answer.
    pub(super) fn post(&mut self, path: &str, content_type: &str, body: &str) -> anyhow::Result<(u16, &str)> {
        self.sent.clear();
        let (host, len) = (self.address, body.len());
        write!(
            self.sent,
            "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: {content_type}\r\ncontent-length: {len}\r\n\r\n{body}"
        )?;
        self.stream.write_all(&self.sent)?;
        self.received.clear();
        let head_len = loop {
            let end = self.received.windows(HEAD_END.len()).position(|window| window == HEAD_END);
            match end {
                Some(end) => break end + HEAD_END.len(),
                None => self.receive()?,
            }
        };
        let (status, body_len) = read_head(&self.received[..head_len])?;
        while self.received.len() < head_len + body_len {
            self.receive()?;
        }
        anyhow::ensure!(self.received.len() == head_len + body_len, "the server sent more than one answer");
        Ok((status, std::str::from_utf8(&self.received[head_len..])?))
    }

    fn receive(&mut self) -> anyhow::Result<()> {
        let before = self.received.len();
        self.received.resize(before + READ_BYTES, 0);
        let read = self.stream.read(&mut self.received[before..])?;
        self.received.truncate(before + read);
        anyhow::ensure!(read > 0, "the server closed the connection");
        Ok(())
    }
}

/// Status and length of the body.
fn read_head(head: &[u8]) -> anyhow::Result<(u16, usize)> {
    let head = std::str::from_utf8(head)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).context("the answer has no status")?;
    let len =
        head.lines().filter_map(|line| line.split_once(": ")).find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let len = len.and_then(|(_, len)| len.trim().parse().ok()).context("the answer does not say how long it is")?;
    Ok((status, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_gives_status_and_length() {
        let head = b"HTTP/1.1 202 Accepted\r\nContent-Length: 17\r\ncontent-type: application/json\r\n\r\n";
        assert_eq!(read_head(head).unwrap(), (202, 17));
        assert!(read_head(b"HTTP/1.1 200 OK\r\n\r\n").is_err(), "an answer of unknown length");
        assert!(read_head(b"\r\n\r\n").is_err());
    }
}
