//! One connection to one node: connect, check the host key, log in, run things on channels.

use super::host::Target;
use super::known_hosts::{Verdict, describe};
use super::login::Refused;
use super::pace::Pace;
use super::{HostKeys, Login};
use crate::remote::{Keeps, Output, RemoteError, Stdin};
use bytes::{Bytes, BytesMut};
use russh::client::{self, Handle};
use russh::{ChannelMsg, Sig};
use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// A node that says nothing for this long is asked whether it still lives.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// A connection on which nothing moves for this long is given up, also in the middle of a write.
const DEAD_AFTER: Duration = Duration::from_secs(45);
/// What a node may send before it is read, for each channel: nodes that flood us all do so at the same time.
const WINDOW: u32 = 256 << 10;
/// Messages that wait for their reader: it is these, and not the window, that hold a flood up.
const WAITING: usize = 8;
/// A jump host's connection carries many nodes: one that is slow to read must not hold up the others.
const WAITING_AT_JUMP: usize = 4096;
/// A connection that takes no goodbye is dropped.
const CLOSING: Duration = Duration::from_secs(2);
/// A failed command's last words are at the end.
const MAX_STDERR: usize = 64 << 10;

pub(super) struct Connection {
    handle: Handle<Checker>,
}

/// Judges the host key, and remembers why it said no.
struct Checker {
    target: Arc<Target>,
    keys: Arc<HostKeys>,
    refusal: Arc<Mutex<Option<RemoteError>>>,
    /// Whether somebody is being asked right now.
    asking: Arc<watch::Sender<bool>>,
}

impl client::Handler for Checker {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        key: &russh::keys::PublicKeyOrCertificate,
    ) -> Result<bool, russh::Error> {
        let key = key.public_key();
        let host = self.target.name.clone();
        let key_text = describe(&key);
        self.asking.send_replace(true);
        let verdict = self.keys.judge(&self.target, &key).await;
        self.asking.send_replace(false);
        let refusal = match verdict {
            Ok(Verdict::Known) => return Ok(true),
            Ok(Verdict::Unknown) => RemoteError::UnknownKey { host, key: key_text },
            Ok(Verdict::Changed(known)) => {
                RemoteError::ChangedKey { host, key: key_text, known: known.join("\nknown: ") }
            }
            Ok(Verdict::Revoked) => {
                RemoteError::ChangedKey { host, key: key_text, known: "this very key, as revoked".into() }
            }
            Err(error) => RemoteError::Connect {
                host,
                address: self.target.to_string(),
                reason: format!("known_hosts: {error}"),
            },
        };
        *self.refusal.lock().expect("no panic while locked") = Some(refusal);
        Ok(false)
    }
}

/// How running a command on a channel ended.
pub(super) enum Ended {
    Done(Output),
    Lost(String),
    /// It printed more than so many bytes.
    TooMuch(usize),
    /// Nothing has moved for so long.
    Stalled(Duration),
}

/// A command for a channel of its own.
pub(super) struct Exec {
    pub(super) command: String,
    /// Goes to its standard input before `stdin`.
    pub(super) head: Bytes,
    pub(super) stdin: Stdin,
    pub(super) stdout: Option<mpsc::Sender<Bytes>>,
    pub(super) keeps: Keeps,
    /// It is given up when nothing has moved for so long.
    pub(super) idle: Option<Duration>,
}

impl Exec {
    /// Without any input, and with so much output at most.
    pub(super) fn new(command: String, most: usize) -> Self {
        let (head, stdin, keeps) = (Bytes::new(), Stdin::Empty, Keeps::All(most));
        Self { command, head, stdin, stdout: None, keeps, idle: None }
    }
}

impl Connection {
    pub(super) async fn open(
        target: &Arc<Target>,
        keys: &Arc<HostKeys>,
        login: &Login,
        way: Way,
        limit: Duration,
    ) -> Result<Self, RemoteError> {
        let waiting = if matches!(way, Way::ToJump) { WAITING_AT_JUMP } else { WAITING };
        let stream = match way {
            Way::Through(stream) => Some(stream),
            Way::Direct | Way::ToJump => None,
        };
        let asking = Arc::new(watch::Sender::new(false));
        let shaking = Self::shake_hands(target, keys, login, (stream, waiting), asking.clone());
        within(limit, &asking, shaking).await.unwrap_or_else(|| {
            let (host, address) = (target.name.clone(), target.to_string());
            Err(RemoteError::Silent { host, address, limit })
        })
    }

    async fn shake_hands(
        target: &Arc<Target>,
        keys: &Arc<HostKeys>,
        login: &Login,
        (stream, waiting): (Option<Box<dyn Stream>>, usize),
        asking: Arc<watch::Sender<bool>>,
    ) -> Result<Self, RemoteError> {
        let failed = |reason: String| RemoteError::Connect {
            host: target.name.clone(),
            address: target.to_string(),
            reason,
        };
        let config = Arc::new(client::Config {
            preferred: preferred(keys.algorithms(target)),
            keepalive_interval: Some(KEEPALIVE),
            keepalive_max: 3,
            inactivity_timeout: Some(DEAD_AFTER),
            nodelay: true,
            channel_buffer_size: waiting,
            window_size: WINDOW,
            ..client::Config::default()
        });
        let refusal = Arc::new(Mutex::new(None));
        let checker =
            Checker { target: target.clone(), keys: keys.clone(), refusal: refusal.clone(), asking };
        let connecting = async {
            if let Some(stream) = stream {
                return client::connect_stream(config, stream, checker).await;
            }
            let socket = tokio::net::TcpStream::connect((target.address.as_str(), target.port)).await?;
            socket.set_nodelay(true)?;
            client::connect_stream(config, socket, checker).await
        };
        let connected = connecting.await;
        // A refused key shows up as some protocol error: the checker knows better.
        if let Some(refusal) = refusal.lock().expect("no panic while locked").take() {
            return Err(refusal);
        }
        let mut handle = connected.map_err(|error| failed(error.to_string()))?;
        match login.authenticate(&mut handle).await {
            Ok(()) => Ok(Self { handle }),
            Err(Refused::Login(reason)) => {
                Err(RemoteError::Login { host: target.name.clone(), user: login.user.clone(), reason })
            }
            Err(Refused::Broken(error)) => Err(failed(format!("while logging in: {error}"))),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.handle.is_closed()
    }

    /// Runs a command with the login shell.
    pub(super) async fn exec(&self, exec: Exec) -> Ended {
        let Exec { command, head, stdin, stdout, keeps, idle } = exec;
        let channel = match self.handle.channel_open_session().await {
            Ok(channel) => channel,
            Err(error) => return Ended::Lost(error.to_string()),
        };
        if let Err(error) = channel.exec(true, command).await {
            return Ended::Lost(error.to_string());
        }
        let (mut read, write) = channel.split();
        let pace = Pace::new(idle);
        let sending = async {
            write.data_bytes(head).await?;
            match stdin {
                Stdin::Empty => {}
                Stdin::Bytes(bytes) => write.data_bytes(bytes).await?,
                Stdin::Stream(mut pieces) => {
                    while let Some(piece) = pace.wait_for_us(pieces.recv()).await {
                        let length = piece.len();
                        write.data_bytes(piece).await?;
                        pace.sent(length);
                    }
                }
            }
            write.eof().await
        };
        let receiving = async {
            let mut output = Received::new(keeps);
            while let Some(message) = read.wait().await {
                pace.moved();
                match message {
                    ChannelMsg::Data { data } => match &stdout {
                        // A receiver that has gone away wants no more, but the status still counts.
                        Some(pieces) => drop(pieces.send(data).await),
                        None => {
                            if let Err(most) = output.stdout(&data) {
                                return Ended::TooMuch(most);
                            }
                        }
                    },
                    ChannelMsg::ExtendedData { data, .. } => output.stderr(&data),
                    ChannelMsg::ExitStatus { exit_status } => output.status = Some(exit_status),
                    ChannelMsg::ExitSignal { signal_name, .. } => {
                        output.status = Some(128 + signal_number(&signal_name));
                    }
                    ChannelMsg::Failure => return Ended::Lost("the server refused to run a command".into()),
                    _ => {}
                }
            }
            output.end()
        };
        // The end of the command ends the sending too: a command need not read all its input, and
        // on a dead connection nobody makes room for more.
        let whole = async {
            tokio::pin!(sending, receiving);
            tokio::select! {
                ended = &mut receiving => ended,
                // The channel may be closed because the command has ended: its status tells.
                _sent = &mut sending => receiving.await,
            }
        };
        tokio::select! {
            ended = whole => ended,
            limit = pace.stalled() => Ended::Stalled(limit),
        }
    }

    /// A stream to another host, which the one of this connection opens.
    pub(super) async fn forward(&self, address: &str, port: u16) -> Result<Box<dyn Stream>, String> {
        let opening = self.handle.channel_open_direct_tcpip(address, port.into(), "127.0.0.1", 0);
        match opening.await {
            Ok(channel) => Ok(Box::new(channel.into_stream())),
            Err(error) => Err(error.to_string()),
        }
    }

    pub(super) async fn close(&self) {
        let closing = self.handle.disconnect(russh::Disconnect::ByApplication, "", "");
        let _ = tokio::time::timeout(CLOSING, closing).await;
    }
}

/// What a connection is for.
pub(super) enum Way {
    Direct,
    /// To a node, over a stream that a jump host has opened.
    Through(Box<dyn Stream>),
    /// To a jump host: other connections go through it.
    ToJump,
}

/// What SSH can be spoken over.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// What `work` comes to within `limit`; while somebody is asked, the clock stands still.
async fn within<T>(
    limit: Duration,
    asking: &watch::Sender<bool>,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::pin!(work);
    let (mut left, mut asked) = (limit, asking.subscribe());
    loop {
        let (paused, begin) = (*asked.borrow_and_update(), Instant::now());
        tokio::select! {
            done = &mut work => return Some(done),
            () = tokio::time::sleep(left), if !paused => return None,
            // The sender lives as long as this.
            _ = asked.changed() => {
                if !paused {
                    left = left.saturating_sub(begin.elapsed());
                }
            }
        }
    }
}

struct Received {
    keeps: Keeps,
    status: Option<u32>,
    stdout: BytesMut,
    stderr: BytesMut,
}

impl Received {
    fn new(keeps: Keeps) -> Self {
        Self { keeps, status: None, stdout: BytesMut::new(), stderr: BytesMut::new() }
    }

    /// `Err`: it is more than is taken.
    fn stdout(&mut self, data: &[u8]) -> Result<(), usize> {
        match self.keeps {
            Keeps::All(most) if self.stdout.len() + data.len() > most => return Err(most),
            Keeps::All(_) => self.stdout.extend_from_slice(data),
            Keeps::Last(last) => keep_last(&mut self.stdout, data, last),
        }
        Ok(())
    }

    fn stderr(&mut self, data: &[u8]) {
        keep_last(&mut self.stderr, data, MAX_STDERR);
    }

    fn end(self) -> Ended {
        match self.status {
            Some(status) => {
                Ended::Done(Output { status, stdout: self.stdout.freeze(), stderr: self.stderr.freeze() })
            }
            None => Ended::Lost("it ended without a status".into()),
        }
    }
}

/// At least the last bytes, and at most twice as many.
fn keep_last(kept: &mut BytesMut, data: &[u8], last: usize) {
    kept.extend_from_slice(data);
    if kept.len() > 2 * last {
        // Copied, so that what is dropped takes no memory.
        *kept = BytesMut::from(&kept[kept.len() - last..]);
    }
}

fn preferred(keys: Vec<russh::keys::Algorithm>) -> russh::Preferred {
    use russh::cipher::{AES_128_CTR, AES_128_GCM, AES_256_CTR, AES_256_GCM, CHACHA20_POLY1305};
    russh::Preferred {
        key: Cow::Owned(keys),
        // Hardware does AES; measured fastest first.
        cipher: Cow::Borrowed(&[AES_128_GCM, AES_256_GCM, CHACHA20_POLY1305, AES_256_CTR, AES_128_CTR]),
        // Content is compressed already.
        compression: Cow::Borrowed(&[russh::compression::NONE]),
        ..russh::Preferred::DEFAULT
    }
}

fn signal_number(signal: &Sig) -> u32 {
    match signal {
        Sig::HUP => 1,
        Sig::INT => 2,
        Sig::QUIT => 3,
        Sig::ILL => 4,
        Sig::ABRT => 6,
        Sig::FPE => 8,
        Sig::KILL => 9,
        Sig::USR1 => 10,
        Sig::SEGV => 11,
        Sig::PIPE => 13,
        Sig::ALRM => 14,
        Sig::TERM => 15,
        Sig::Custom(_) => 127,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    #[tokio::test]
    async fn the_clock_stands_still_while_somebody_is_asked() {
        let moment = Duration::from_millis(20);
        let asking = watch::Sender::new(false);
        let thinking = async {
            sleep(20 * moment).await;
            asking.send_replace(true);
            sleep(60 * moment).await;
            asking.send_replace(false);
            sleep(2 * moment).await;
        };
        assert!(within(30 * moment, &asking, thinking).await.is_some());
        assert!(within(30 * moment, &asking, sleep(31 * moment)).await.is_none());
        let slow = async {
            sleep(20 * moment).await;
            asking.send_replace(true);
            sleep(60 * moment).await;
            asking.send_replace(false);
            sleep(30 * moment).await;
        };
        assert!(within(30 * moment, &asking, slow).await.is_none());
    }
}
