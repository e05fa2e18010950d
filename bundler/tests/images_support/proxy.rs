//! A proxy in front of a registry that fails as told, and remembers what it was asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

#[derive(Debug, Clone)]
pub struct Asked {
    pub method: String,
    pub path: String,
    /// Names in lowercase.
    pub headers: Vec<(String, String)>,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn is_blob(&self) -> bool {
        self.method == "GET" && self.path.contains("/blobs/sha256:")
    }
}

pub enum Act {
    /// As the registry answers.
    Pass,
    /// This many bytes of the registry's body, then the connection breaks.
    Cut(usize),
    /// One bit of the registry's body is flipped.
    Flip,
    /// Status, header lines, body.
    Say(u16, Vec<String>, Vec<u8>),
    /// No answer at all.
    Hang,
}

type Rule = dyn FnMut(&Asked, &[Asked]) -> Act + Send;

pub struct Proxy {
    pub address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// `rule` sees a request and all that came before it.
    pub fn start(upstream: &str, rule: impl FnMut(&Asked, &[Asked]) -> Act + Send + 'static) -> Self {
        Self::start_at("127.0.0.1:0", upstream, rule)
    }

    pub fn start_at(
        address: &str,
        upstream: &str,
        rule: impl FnMut(&Asked, &[Asked]) -> Act + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let rule: Arc<Mutex<Box<Rule>>> = Arc::new(Mutex::new(Box::new(rule)));
        let (log, upstream, stopped) = (asked.clone(), upstream.to_string(), stop.clone());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let (log, upstream, rule) = (log.clone(), upstream.clone(), rule.clone());
                // A client that goes away is no fault of ours.
                std::thread::spawn(move || stream.and_then(|stream| serve(stream, &upstream, &log, &rule)));
            }
        });
        Self { address, asked, stop, thread: Some(thread) }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // One more connection wakes the listener, so that it sees the flag and closes.
        let _ = TcpStream::connect(&self.address);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn serve(
    mut client: TcpStream,
    upstream: &str,
    log: &Mutex<Vec<Asked>>,
    rule: &Mutex<Box<Rule>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let (asked, length) = read_head(&mut reader)?;
    let act = {
        let mut log = log.lock().unwrap();
        let act = rule.lock().unwrap()(&asked, &log);
        log.push(asked.clone());
        act
    };
    if let Act::Hang = act {
        return Ok(());
    }
    if let Act::Say(status, headers, body) = act {
        std::io::copy(&mut reader.take(length), &mut std::io::sink())?;
        let mut head =
            format!("HTTP/1.1 {status} Said\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        for header in headers {
            head.push_str(&format!("{header}\r\n"));
        }
        client.write_all(format!("{head}\r\n").as_bytes())?;
        return client.write_all(&body);
    }
    let mut server = TcpStream::connect(upstream)?;
    let mut head = format!("{} {} HTTP/1.1\r\nconnection: close\r\n", asked.method, asked.path);
    for (name, value) in asked.headers.iter().filter(|(name, _)| name != "connection") {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    server.write_all(format!("{head}\r\n").as_bytes())?;
    let sent = match act {
        // The registry sees the same broken upload as the client.
        Act::Cut(keep) if asked.method == "PATCH" => {
            std::io::copy(&mut reader.take(keep as u64), &mut server)?;
            return Ok(());
        }
        _ => std::io::copy(&mut reader.take(length), &mut server),
    };
    sent?;
    let mut answer = BufReader::new(server);
    let mut line = String::new();
    loop {
        line.clear();
        answer.read_line(&mut line)?;
        if line == "\r\n" || line.is_empty() {
            break;
        }
        if !line.to_ascii_lowercase().starts_with("connection:") {
            client.write_all(line.as_bytes())?;
        }
    }
    client.write_all(b"connection: close\r\n\r\n")?;
    match act {
        Act::Cut(keep) => drop(std::io::copy(&mut answer.take(keep as u64), &mut client)?),
        Act::Flip => {
            let mut body = Vec::new();
            answer.read_to_end(&mut body)?;
            if let Some(byte) = body.get_mut(100) {
                *byte ^= 1;
            }
            client.write_all(&body)?;
        }
        _ => drop(std::io::copy(&mut answer, &mut client)?),
    }
    Ok(())
}

fn read_head(reader: &mut impl BufRead) -> std::io::Result<(Asked, u64)> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(String::from);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_string()));
    }
    let asked = Asked { method, path, headers };
    let length = asked.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    Ok((asked, length))
}
