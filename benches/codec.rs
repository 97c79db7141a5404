//! The wire codec alone: decoding of requests and encoding of replies, without sockets or store.
//!
//! ```text
//! cargo bench --bench codec
//! ```
//!
//! Prints nanoseconds per request, the median of interleaved rounds. For a figure that does not depend on the
//! machine's load, run the binary under `valgrind --tool=callgrind` and compare instruction counts.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark measures and prints"
)]

use std::hint::black_box;
use std::time::Instant;

use bytes::{Buf, BytesMut};
use keylatch::internals::resp::{Batch, Output, Protocol, Reply, RequestDecoder, RequestLimits};

const ROUNDS: usize = 9;
/// Number of requests that a measurement decodes, or of replies that it encodes.
const REQUESTS: usize = 64 * 2_000;

type Case = (&'static str, Box<dyn Fn()>);

fn main() {
    let set = b"*3\r\n$3\r\nSET\r\n$16\r\nkey:000000012345\r\n$3\r\nxxx\r\n".repeat(64);
    let get = b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000012345\r\n".repeat(64);
    let inline = b"SET key:000000012345 xxx\r\n".repeat(64);
    let cases: [Case; 6] = [
        ("decode SET, pipeline of 64", Box::new(move || decode(&set))),
        ("decode GET, pipeline of 64", Box::new(move || decode(&get))),
        ("decode inline SET, pipeline of 64", Box::new(move || decode(&inline))),
        ("encode +OK", Box::new(|| encode(|reply| reply.ok()))),
        ("encode integer", Box::new(|| encode(|reply| reply.int(black_box(12_345))))),
        ("encode bulk of 32 bytes", Box::new(|| encode(|reply| reply.bulk(black_box(&[b'v'; 32]))))),
    ];
    let mut samples = vec![Vec::new(); cases.len()];
    for _ in 0..ROUNDS {
        for ((_, work), samples) in cases.iter().zip(&mut samples) {
            let started = Instant::now();
            work();
            samples.push(started.elapsed().as_nanos() as f64 / REQUESTS as f64);
        }
    }
    println!("{:<36}{:>10}", "case", "ns/request");
    for ((name, _), mut samples) in cases.iter().zip(samples) {
        samples.sort_by(f64::total_cmp);
        println!("{name:<36}{:>10.1}", samples[ROUNDS / 2]);
    }
}

/// Decodes a pipeline of 64 requests repeatedly, as a connection does.
fn decode(pipeline: &[u8]) {
    let mut decoder = RequestDecoder::new(RequestLimits::default());
    let (mut input, mut batch) = (BytesMut::with_capacity(16 * 1024), Batch::default());
    for _ in 0..REQUESTS / 64 {
        input.extend_from_slice(pipeline);
        while decoder.decode_into(&mut input, &mut batch).expect("valid requests") {
            black_box(&batch);
            batch.recycle(&mut input);
        }
        input.reserve(16 * 1024);
    }
}

/// Encodes a reply repeatedly, emptying the output as often as a pipeline of 64 would.
fn encode(write: impl Fn(&mut Reply<'_>)) {
    let mut output = Output::new();
    for _ in 0..REQUESTS / 64 {
        for _ in 0..64 {
            write(&mut Reply::new(&mut output, Protocol::Resp2));
        }
        let len = black_box(&output).len();
        output.advance(len);
    }
}
