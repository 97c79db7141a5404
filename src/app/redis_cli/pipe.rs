//! `--pipe`: sends standard input as it is, and counts replies and errors.
//!
//! Sending and receiving happen at once: a server that waits for its replies to be read would not read on.

use std::cell::Cell;
use std::io::{self, Read};
use std::pin::pin;
use std::thread;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::runtime::Builder;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::codec::Decoder;

use crate::app::link::lost;
use crate::app::redis_cli::options::CliOptions;
use crate::app::redis_cli::output::say;
use crate::dial::open;
use crate::resp::{Frame, FrameDecoder, write_command};
use crate::text::system_text;

/// The size of one read, in bytes.
const READ_LEN: usize = 64 * 1024;

/// Number of parts of standard input that are read ahead.
const PARTS: usize = 4;

/// Sends standard input; returns true if there was no error.
///
/// # Errors
/// If the connection fails.
pub(super) fn run(options: &CliOptions, complain: fn(&str)) -> Result<bool, String> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|cause| system_text(&cause))?;
    runtime.block_on(transfer(options, complain))
}

async fn transfer(options: &CliOptions, complain: fn(&str)) -> Result<bool, String> {
    let address = &options.address;
    let stream = open(address, options.tls.as_ref())
        .await
        .map_err(|cause| format!("Could not connect to Redis at {address}: {}", system_text(&cause)))?;
    let (reader, mut writer) = split(stream);
    let mut replies = Replies::new(reader);
    for (name, words) in options.greeting() {
        send(&mut writer, &words).await.map_err(|cause| failed(&cause))?;
        if let Frame::Error(text) = replies.next().await.map_err(|cause| failed(&cause))? {
            complain(&format!("{name} failed: {}", String::from_utf8_lossy(&text)));
            return Ok(false);
        }
    }
    let (mark, all_sent) = (mark()?, Cell::new(false));
    let mut sender = pin!(send_input(&mut writer, &mark, &all_sent));
    let mut count = pin!(count(&mut replies, &mark, options, &all_sent, complain));
    let (errors, replies) = tokio::select! {
        counted = &mut count => counted,
        sent = &mut sender => {
            sent?;
            count.await
        }
    }?;
    say(&format!("errors: {errors}, replies: {replies}\n"))?;
    Ok(errors == 0)
}

/// Returns a random text that equals no other reply.
fn mark() -> Result<Vec<u8>, String> {
    let mut random = [0; 10];
    getrandom::fill(&mut random).map_err(|cause| cause.to_string())?;
    Ok(random.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect())
}

/// Sends standard input, and at its end a command whose reply is the last one.
async fn send_input(writer: &mut (impl AsyncWrite + Unpin), mark: &[u8], all_sent: &Cell<bool>) -> Result<(), String> {
    let (sender, mut parts) = mpsc::channel(PARTS);
    // A thread that still reads when the program ends does no harm.
    thread::spawn(move || read_input(&sender));
    while let Some(part) = parts.recv().await {
        let part: Vec<u8> = part.map_err(|cause: io::Error| system_text(&cause))?;
        writer.write_all(&part).await.map_err(|cause| failed(&cause))?;
    }
    // The input may end within a line.
    writer.write_all(b"\r\n").await.map_err(|cause| failed(&cause))?;
    send(writer, &[b"ECHO".to_vec(), mark.to_vec()]).await.map_err(|cause| failed(&cause))?;
    all_sent.set(true);
    say("All data transferred. Waiting for the last reply...\n")
}

fn read_input(sender: &mpsc::Sender<io::Result<Vec<u8>>>) {
    loop {
        let mut part = vec![0; READ_LEN];
        let part = match io::stdin().lock().read(&mut part) {
            Ok(0) => return,
            Ok(len) => {
                part.truncate(len);
                Ok(part)
            }
            Err(cause) => Err(cause),
        };
        let is_last = part.is_err();
        if sender.blocking_send(part).is_err() || is_last {
            return;
        }
    }
}

/// Counts errors and replies until the last reply.
async fn count<R: AsyncRead + Unpin>(
    replies: &mut Replies<R>,
    mark: &[u8],
    options: &CliOptions,
    all_sent: &Cell<bool>,
    complain: fn(&str),
) -> Result<(u64, u64), String> {
    let (mut errors, mut count) = (0, 0);
    loop {
        let frame = loop {
            let limit = options.pipe_timeout.unwrap_or(std::time::Duration::MAX);
            match timeout(limit, replies.next()).await {
                Ok(frame) => break frame.map_err(|cause| failed(&cause))?,
                Err(_) if !all_sent.get() => {}
                Err(_) => {
                    complain(&format!("No replies for {} seconds: exiting.", limit.as_secs()));
                    return Ok((errors + 1, count));
                }
            }
        };
        match frame {
            Frame::Bulk(text) if *text == *mark => {
                say("Last reply received from server.\n")?;
                return Ok((errors, count));
            }
            Frame::Error(text) => {
                complain(&String::from_utf8_lossy(&text));
                errors += 1;
            }
            _ => {}
        }
        count += 1;
    }
}

async fn send(writer: &mut (impl AsyncWrite + Unpin), words: &[Vec<u8>]) -> io::Result<()> {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let mut request = Vec::new();
    write_command(&mut request, &words);
    writer.write_all(&request).await?;
    writer.flush().await
}

fn failed(cause: &io::Error) -> String {
    format!("Error: {}", lost(cause))
}

/// The replies of a server.
struct Replies<R> {
    reader: R,
    received: BytesMut,
    decoder: FrameDecoder,
}

impl<R: AsyncRead + Unpin> Replies<R> {
    fn new(reader: R) -> Self {
        Replies { reader, received: BytesMut::new(), decoder: FrameDecoder::new() }
    }

    /// Waits for a reply; loses nothing if it is abandoned.
    async fn next(&mut self) -> io::Result<Frame> {
        loop {
            if let Some(frame) = self.decoder.decode(&mut self.received).map_err(io::Error::other)? {
                return Ok(frame);
            }
            if self.reader.read_buf(&mut self.received).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}
