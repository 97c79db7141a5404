//! A client's line of CLIENT LIST: the fields of Redis 8.4, in its order, and then those about locks.

use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

use crate::client::info::{ChannelKind, Class, ClientInfo};
use crate::client::tracking::{BROADCAST, BROKEN};
use crate::time::clock::Now;

/// Number of bytes of replies that CLIENT LIST shows as the buffer; it shows more as the list.
const REPLY_BUFFER: usize = 16 * 1024;

impl ClientInfo {
    /// Returns the client's line of CLIENT LIST, without line end. `argument_bytes` is the size of the present
    /// request's arguments, when the client lists itself.
    pub fn line(&self, now: Now, argument_bytes: usize) -> String {
        let names = self.names();
        let mut line = format!("id={} addr={} laddr={} fd={}", self.id, self.peer.addr, self.peer.laddr, self.peer.fd);
        let (output, (frames, mail)) = (self.buffers.output_buffer(), self.outbox.waiting());
        // Redis has a fixed-size buffer for replies and a list for the rest; keylatch reports its output likewise.
        let list = output.saturating_sub(REPLY_BUFFER) + mail + self.buffers.log_waiting();
        let pieces = output.saturating_sub(REPLY_BUFFER).div_ceil(REPLY_BUFFER) + frames;
        let command = self.traffic.last_command().map_or("NULL", |command| command.name.as_str());
        // Writing to a string cannot fail.
        let _ = write!(
            line,
            " name={} age={} idle={} flags={} db={} sub={} psub={} ssub={} multi={} watch={} qbuf={} qbuf-free={} \
             argv-mem={} multi-mem={} rbs=0 rbp=0 obl={} oll={pieces} omem={list} tot-mem={} events={} \
             cmd={command} user={} redir={} resp={} lib-name={} lib-ver={} io-thread=0 tot-net-in={} tot-net-out={} \
             tot-cmds={} locks={} lwait={}",
            names.name,
            self.age_ms(now) / 1000,
            self.traffic.idle_ms(now) / 1000,
            self.flag_letters(),
            self.session.db.load(Relaxed),
            self.session.subscriptions(ChannelKind::Channel),
            self.session.subscriptions(ChannelKind::Pattern),
            self.session.subscriptions(ChannelKind::ShardChannel),
            self.session.queued.load(Relaxed),
            self.session.watched(),
            self.buffers.query_buffer.load(Relaxed),
            self.buffers.query_room.load(Relaxed),
            self.buffers.arguments.load(Relaxed) + argument_bytes,
            self.buffers.queued_bytes(),
            output.min(REPLY_BUFFER),
            self.memory() + argument_bytes,
            if output > 0 { "rw" } else { "r" },
            self.shown_user(),
            if self.tracking.is_on() { self.tracking.redirect() as i64 } else { -1 },
            self.session.protocol.load(Relaxed),
            names.lib_name,
            names.lib_ver,
            self.traffic.bytes_in.load(Relaxed),
            self.traffic.bytes_out.load(Relaxed),
            self.traffic.commands.load(Relaxed),
            self.held_locks(),
            u8::from(self.flags.is_queued()),
        );
        line
    }

    /// Returns the name of the client's user; the primary of a replica has none.
    fn shown_user(&self) -> String {
        let nobody = if self.flags.is_primary() { "(superuser)" } else { "default" };
        self.user().map_or(nobody.into(), |name| String::from_utf8_lossy(&name).into_owned())
    }

    /// Returns the flags of the client as CLIENT LIST shows them.
    fn flag_letters(&self) -> String {
        let letters = [
            (self.session.class() == Class::Replica, 'S'),
            (self.flags.is_primary(), 'M'),
            (self.session.is_monitoring.load(Relaxed), 'O'),
            (self.session.class() == Class::Subscriber, 'P'),
            (self.session.queued.load(Relaxed) >= 0, 'x'),
            (self.flags.is_blocked(), 'b'),
            (self.tracking.is_on(), 't'),
            (self.tracking.has(BROKEN), 'R'),
            (self.tracking.has(BROADCAST), 'B'),
            (self.peer.is_unix, 'U'),
            (self.flags.is_exempt(), 'e'),
            (self.flags.is_no_touch(), 'T'),
        ];
        let flags: String = letters.iter().filter_map(|(is_set, letter)| is_set.then_some(*letter)).collect();
        if flags.is_empty() { "N".into() } else { flags }
    }
}
