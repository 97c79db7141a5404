//! A server that replies `+OK` to every request: the limit of this runtime and this codec.
//!
//! ```text
//! cargo run --release --example null_server -- ADDRESS:PORT
//! ```
//!
//! It stores nothing and looks nothing up. `benches/versus` compares it with keylatch, so that the distance to the
//! limit stays visible.

#![allow(clippy::unwrap_used, reason = "a measuring instrument, not a server")]

use std::net::TcpListener;

use bytes::BytesMut;
use keylatch::internals::resp::{Batch, Codec, RequestLimits};
use keylatch::internals::worker;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Read size, equal to keylatch's.
const READ_LEN: usize = 16 * 1024;

fn main() {
    let addr = std::env::args().nth(1).expect("usage: null_server ADDRESS:PORT");
    let workers = worker::start(0).unwrap();
    let listener = TcpListener::bind(addr).unwrap();
    for (client, worker) in listener.incoming().zip(workers.iter().cycle()) {
        let client = client.unwrap();
        client.set_nodelay(true).unwrap();
        client.set_nonblocking(true).unwrap();
        worker.spawn(async move { serve(TcpStream::from_std(client).unwrap()).await });
    }
}

async fn serve(mut client: TcpStream) {
    let mut codec = Codec::new(RequestLimits::default());
    let (mut input, mut batch, mut output) = (BytesMut::new(), Batch::default(), BytesMut::new());
    loop {
        input.reserve(READ_LEN);
        match client.read_buf(&mut input).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        while let Ok(true) = codec.requests.decode_into(&mut input, &mut batch) {
            (0..batch.len()).for_each(|_| output.extend_from_slice(b"+OK\r\n"));
            batch.recycle(&mut input);
        }
        if client.write_all(&output).await.is_err() {
            return;
        }
        output.clear();
    }
}
