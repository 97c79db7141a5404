//! A server whose address changes, and whose connections can be stuck: they pass nothing on any more, except their end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use keylatch_lock::Connect;
use redis::{Client, RedisResult};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinHandle};

use crate::admin::{client, server};

#[derive(Clone)]
pub struct Moving(Arc<Mutex<Relay>>);

struct Relay {
    addr: String,
    listening: JoinHandle<()>,
    pipes: Arc<Mutex<Vec<Pipe>>>,
}

/// Pipe of one connection, in both directions.
struct Pipe {
    task: AbortHandle,
    requests_stuck: Arc<AtomicBool>,
    replies_stuck: Arc<AtomicBool>,
}

impl Moving {
    pub async fn new() -> Self {
        Moving(Arc::new(Mutex::new(listen().await)))
    }

    /// Moves the server to another address. Connections to the former one are closed, or stuck.
    pub async fn relocate(&self, is_stuck: bool) {
        if is_stuck {
            self.stall(false);
        }
        let next = listen().await;
        let former = std::mem::replace(&mut *self.0.lock().expect("a relay"), next);
        former.listening.abort();
        if !is_stuck {
            former.pipes.lock().expect("pipes").iter().for_each(|pipe| pipe.task.abort());
        }
    }

    /// Makes the open connections stuck, in one direction or both.
    pub fn stall(&self, replies_only: bool) {
        for pipe in self.0.lock().expect("a relay").pipes.lock().expect("pipes").iter() {
            pipe.replies_stuck.store(true, Ordering::SeqCst);
            pipe.requests_stuck.fetch_or(!replies_only, Ordering::SeqCst);
        }
    }
}

impl Connect for Moving {
    fn client(&self) -> std::pin::Pin<Box<dyn Future<Output = RedisResult<Client>> + Send + '_>> {
        let addr = self.0.lock().expect("a relay").addr.clone();
        Box::pin(async move { Ok(client(&addr)) })
    }
}

async fn listen() -> Relay {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let addr = listener.local_addr().expect("an address").to_string();
    let pipes = Arc::new(Mutex::new(Vec::new()));
    let opened = pipes.clone();
    let listening = tokio::spawn(async move {
        while let Ok((from, _)) = listener.accept().await {
            let to = TcpStream::connect(server()).await.expect("a server");
            let (requests_stuck, replies_stuck) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
            let task = tokio::spawn(join(from, to, requests_stuck.clone(), replies_stuck.clone())).abort_handle();
            opened.lock().expect("pipes").push(Pipe { task, requests_stuck, replies_stuck });
        }
    });
    Relay { addr, listening, pipes }
}

async fn join(from: TcpStream, to: TcpStream, requests_stuck: Arc<AtomicBool>, replies_stuck: Arc<AtomicBool>) {
    let ((requests, replies), (answers, asks)) = (from.into_split(), to.into_split());
    tokio::select! {
        () = pass(requests, asks, &requests_stuck) => {}
        () = pass(answers, replies, &replies_stuck) => {}
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, is_stuck: &AtomicBool) {
    let mut received = [0; 1 << 16];
    while let Ok(len @ 1..) = from.read(&mut received).await {
        if !is_stuck.load(Ordering::SeqCst) && to.write_all(&received[..len]).await.is_err() {
            return;
        }
    }
}
