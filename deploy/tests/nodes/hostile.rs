//! A server that speaks SSH and means harm: it goes silent at any stage, floods, lies, and sends what terminals obey.
//! It lets everybody in and runs nothing: what it answers is made up here.

use russh::keys::PrivateKey;
use russh::keys::ssh_key::private::Ed25519Keypair;
use russh::server::{self, Auth, ChannelOpenHandle, Handle, Msg, Session};
use russh::{Channel, ChannelId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

/// What it does to everyone who connects.
#[derive(Clone)]
pub enum Behaviour {
    /// Takes the connection, and says nothing.
    SilentAtOnce,
    /// Stops in the middle of its banner.
    HalfABanner,
    /// Lines before its banner that never comes.
    EndlessLines,
    /// Its banner is all that it says.
    SilentAfterBanner,
    /// Does not answer to a login.
    SilentInLogin,
    /// Does not open a channel.
    SilentOnChannels,
    /// Takes no command.
    SilentOnCommands,
    /// Lets in, opens channels, and answers each command in this way.
    Answers(fn(&str) -> Answer),
}

/// What it does with a command.
#[derive(Debug, Clone)]
pub enum Answer {
    Says {
        stdout: Vec<u8>,
        stderr: Vec<u8>,
        status: u32,
    },
    /// Prints so much of this and then ends well.
    Floods {
        piece: Vec<u8>,
        bytes: u64,
        stderr: bool,
    },
    /// Prints a byte now and then, and never ends.
    Trickles(Duration),
    /// Takes the input, and says nothing more; keepalives are answered.
    Nothing,
    /// Closes the channel without a status.
    ClosesChannel,
    /// Closes the connection.
    ClosesConnection,
}

impl Answer {
    pub fn says(stdout: impl Into<Vec<u8>>) -> Self {
        Self::Says { stdout: stdout.into(), stderr: Vec::new(), status: 0 }
    }

    pub fn fails(stderr: impl Into<Vec<u8>>, status: u32) -> Self {
        Self::Says { stdout: Vec::new(), stderr: stderr.into(), status }
    }
}

/// Whether a command asks for facts.
pub fn asks_for_facts(command: &str) -> bool {
    command.contains("section uname")
}

/// Facts of a node of this machine's arch, with a clock that is right.
pub fn facts() -> String {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let arch = std::env::consts::ARCH;
    include_str!("../../src/facts/answer.txt")
        .replace("1700000100", &clock.to_string())
        .replace("aarch64", arch)
}

/// The server, on a port of its own, until it is dropped.
pub struct Hostile {
    pub port: u16,
    commands: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl Hostile {
    pub fn start(behaviour: Behaviour) -> Self {
        let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let all = Self { port, commands: Arc::default(), connections: Arc::default(), stop: Arc::default() };
        let (commands, connections, stop) = (all.commands.clone(), all.connections.clone(), all.stop.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    let next = tokio::time::timeout(Duration::from_millis(100), listener.accept());
                    if let Ok(Ok((stream, _))) = next.await {
                        connections.fetch_add(1, Ordering::Relaxed);
                        tokio::spawn(serve(stream, behaviour.clone(), commands.clone()));
                    }
                }
            });
        });
        all
    }

    /// How many commands it was given.
    #[allow(dead_code, reason = "not every program of tests counts them")]
    pub fn commands(&self) -> usize {
        self.commands.load(Ordering::Relaxed)
    }

    /// How many connections were made to it.
    #[allow(dead_code, reason = "not every program of tests counts them")]
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

async fn serve(mut stream: TcpStream, behaviour: Behaviour, commands: Arc<AtomicUsize>) {
    match behaviour {
        Behaviour::SilentAtOnce => std::future::pending().await,
        Behaviour::HalfABanner => {
            let _ = stream.write_all(b"S").await;
            std::future::pending::<()>().await;
        }
        Behaviour::EndlessLines => while stream.write_all(b"\x1b[2J not yet\r\n").await.is_ok() {},
        Behaviour::SilentAfterBanner => {
            let _ = stream.write_all(b"SSH-2.0-x\r\n").await;
            std::future::pending::<()>().await;
        }
        _ => {
            let key = PrivateKey::from(Ed25519Keypair::from_seed(&[7; 32]));
            let config = server::Config { keys: vec![key], ..server::Config::default() };
            let session = One { behaviour, commands };
            if let Ok(running) = server::run_stream(Arc::new(config), stream, session).await {
                let _ = running.await;
            }
        }
    }
}

/// One connection.
struct One {
    behaviour: Behaviour,
    commands: Arc<AtomicUsize>,
}

impl server::Handler for One {
    type Error = russh::Error;

    async fn auth_none(&mut self, _user: &str) -> Result<Auth, Self::Error> {
        self.login().await
    }

    async fn auth_password(&mut self, _user: &str, _password: &str) -> Result<Auth, Self::Error> {
        self.login().await
    }

    async fn channel_open_session(
        &mut self,
        _channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        if matches!(self.behaviour, Behaviour::SilentOnChannels) {
            std::future::pending::<()>().await;
        }
        reply.accept().await;
        Ok(())
    }

    async fn exec_request(
        &mut self,
        channel: ChannelId,
        data: &[u8],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        self.commands.fetch_add(1, Ordering::Relaxed);
        let Behaviour::Answers(answer) = self.behaviour else { return Ok(()) };
        session.channel_success(channel)?;
        let answer = answer(&String::from_utf8_lossy(data));
        if matches!(answer, Answer::ClosesConnection) {
            return Err(russh::Error::Disconnect);
        }
        let handle = session.handle();
        tokio::spawn(async move { tell(handle, channel, answer).await });
        Ok(())
    }
}

impl One {
    async fn login(&self) -> Result<Auth, russh::Error> {
        if matches!(self.behaviour, Behaviour::SilentInLogin) {
            std::future::pending::<()>().await;
        }
        Ok(Auth::Accept)
    }
}

/// Answers a command; ends early when nobody is left to hear it.
async fn tell(handle: Handle, channel: ChannelId, answer: Answer) -> Option<()> {
    let status = match answer {
        Answer::Says { stdout, stderr, status } => {
            handle.extended_data(channel, 1, stderr).await.ok()?;
            handle.data(channel, stdout).await.ok()?;
            Some(status)
        }
        Answer::Floods { piece, bytes, stderr } => {
            let mut left = bytes;
            let piece = bytes::Bytes::from(piece);
            while left > 0 {
                let length = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
                match stderr {
                    true => handle.extended_data(channel, 1, piece.slice(..length)).await.ok()?,
                    false => handle.data(channel, piece.slice(..length)).await.ok()?,
                }
                left -= length as u64;
            }
            Some(0)
        }
        Answer::Trickles(pause) => loop {
            handle.data(channel, &b"."[..]).await.ok()?;
            tokio::time::sleep(pause).await;
        },
        Answer::Nothing => return None,
        Answer::ClosesChannel | Answer::ClosesConnection => None,
    };
    if let Some(status) = status {
        handle.exit_status_request(channel, status).await.ok()?;
    }
    handle.eof(channel).await.ok()?;
    handle.close(channel).await.ok()
}
