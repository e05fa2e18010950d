//! A host that connections to nodes go through. One connection to it serves them all: each node is a channel on it.

use super::connection::{Connection, Stream, Way};
use super::{HostKeys, Login, Target};
use crate::remote::RemoteError;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

pub struct Jump {
    target: Arc<Target>,
    login: Login,
    keys: Arc<HostKeys>,
    link: Mutex<Link>,
}

enum Link {
    None,
    Up(Arc<Connection>),
    /// Those who waited for this attempt share its outcome: a thousand nodes do not try one after the other.
    Failed(Instant, RemoteError),
}

impl fmt::Debug for Jump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jump")
            .field("target", &self.target)
            .field("user", &self.login.user)
            .finish_non_exhaustive()
    }
}

impl Jump {
    pub fn new(target: Target, login: Login, keys: Arc<HostKeys>) -> Self {
        Self { target: Arc::new(target), login, keys, link: Mutex::new(Link::None) }
    }

    /// A stream to the node's sshd.
    pub(super) async fn stream_to(
        &self,
        node: &Target,
        limit: Duration,
    ) -> Result<Box<dyn Stream>, RemoteError> {
        let through = |error| RemoteError::Jump { host: node.name.clone(), error: Box::new(error) };
        let connection = self.connection(limit).await.map_err(through)?;
        let opening = connection.forward(&node.address, node.port);
        match tokio::time::timeout(limit, opening).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(reason)) => Err(RemoteError::Connect {
                host: node.name.clone(),
                address: format!("{node} through {}", self.target.name),
                reason,
            }),
            Err(_) => Err(RemoteError::Silent {
                host: node.name.clone(),
                address: format!("{node} through {}", self.target.name),
                limit,
            }),
        }
    }

    async fn connection(&self, limit: Duration) -> Result<Arc<Connection>, RemoteError> {
        let asked = Instant::now();
        let mut link = self.link.lock().await;
        match &*link {
            Link::Up(connection) if !connection.is_closed() => return Ok(connection.clone()),
            Link::Failed(when, error) if *when >= asked => return Err(error.clone()),
            _ => {}
        }
        match Connection::open(&self.target, &self.keys, &self.login, Way::ToJump, limit).await {
            Ok(connection) => {
                let connection = Arc::new(connection);
                *link = Link::Up(connection.clone());
                Ok(connection)
            }
            Err(error) => {
                *link = Link::Failed(Instant::now(), error.clone());
                Err(error)
            }
        }
    }
}
