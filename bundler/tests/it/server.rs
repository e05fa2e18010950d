//! A tiny HTTP server on a free port of this machine, whose every answer the test decides.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

#[derive(Debug, Clone)]
pub struct Asked {
    pub path: String,
    pub headers: Vec<(String, String)>,
    /// How many requests for this path came before.
    pub before: usize,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

pub struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// Close the connection after so many bytes of the body.
    cut: Option<usize>,
}

impl Answer {
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into(), cut: None }
    }

    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_string(), value.into()));
        self
    }

    pub fn cut(mut self, after: usize) -> Self {
        self.cut = Some(after);
        self
    }

    /// The file, or the range of it that was asked for, with an etag.
    pub fn file(asked: &Asked, content: &[u8], etag: &str) -> Self {
        let start = asked
            .header("range")
            .and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok());
        let same = asked.header("if-range").is_none_or(|validator| validator == etag);
        match start {
            Some(start) if same && start < content.len() => {
                let range = format!("bytes {start}-{}/{}", content.len() - 1, content.len());
                Self::new(206, &content[start..]).header("content-range", range).header("etag", etag)
            }
            Some(start) if same && start >= content.len() => Self::new(416, ""),
            _ => Self::new(200, content).header("etag", etag),
        }
    }
}

pub struct Server {
    address: std::net::SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    /// Serves until the test's process ends.
    pub fn start(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (log, answer) = (log.clone(), answer.clone());
                std::thread::spawn(move || {
                    // A client that hangs up in the middle is what some tests are about.
                    let _ = stream.map(|stream| serve(stream, &log, &*answer));
                });
            }
        });
        Self { address, asked }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(
    stream: TcpStream,
    log: &Mutex<Vec<Asked>>,
    answer: &dyn Fn(&Asked) -> Answer,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let mut words = line.split_whitespace();
        let path = words.nth(1).unwrap_or("").to_string();
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.push((name.to_string(), value.to_string()));
        }
        let length = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let length: u64 = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
        std::io::copy(&mut (&mut reader).take(length), &mut std::io::sink())?;
        let asked = {
            let mut log = log.lock().unwrap();
            let before = log.iter().filter(|asked| asked.path == path).count();
            log.push(Asked { path, headers, before });
            log.last().unwrap().clone()
        };
        let Answer { status, headers, body, cut } = answer(&asked);
        let mut head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(head.as_bytes())?;
        stream.write_all(b"\r\n")?;
        match cut {
            Some(after) => {
                stream.write_all(&body[..after])?;
                stream.flush()?;
                return stream.shutdown(std::net::Shutdown::Both);
            }
            None => stream.write_all(&body)?,
        }
    }
}
