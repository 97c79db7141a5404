//! Pub/sub: the subscribers of every channel, and the delivery of messages.
//!
//! A message goes to the outbox of every subscriber, in the order of subscription; the subscribers' own tasks write it.
//! All subscribers of a channel get its messages in the same order, whatever thread they come from, because the
//! publisher holds the lock of the channel's subscribers. A message is encoded once per protocol, not per subscriber.
//!
//! Lock order: a map of the hub, then the subscribers of a channel, then outboxes. Nothing here accesses keys, so a
//! message may be published while shards are locked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

use crate::client::info::{ChannelKind, ClientInfo};
use crate::client::outbox::PushFrame;
use crate::client::subscriptions::{ByName, Subscriptions};
use crate::config::Config;
use crate::glob::Pattern;
use crate::memory::heap::{SHARED_BYTES_LEN, allocation_len, hash_map_len};
use crate::memory::ordered_map::OrderedMap;
use crate::resp::Reply;
use crate::store::MemoryAccount;
use crate::time::clock::Now;

/// The subscribers of one channel or pattern, by the number of the subscription, which increases with time.
type Subscribers = Mutex<OrderedMap<u64, Arc<ClientInfo>>>;

/// A channel or pattern with subscribers.
struct Audience {
    subscribers: Subscribers,
    /// Compiled pattern, if the name is one.
    pattern: Option<Box<Pattern<Bytes>>>,
}

/// Registry of subscriptions, which connects publishers with subscribers.
pub struct Hub {
    /// The channels, patterns and shard channels that have subscribers, by [`ChannelKind`].
    topics: [Topics; 3],
    last_subscription: AtomicU64,
    /// Account of the memory of subscriptions.
    memory_account: Arc<MemoryAccount>,
}

#[derive(Default)]
struct Topics {
    by_name: RwLock<ByName<Audience>>,
    /// Number of names, so that publishing without subscribers takes no lock.
    count: AtomicUsize,
}

/// A message to publish.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    /// The channel that the message was published to.
    pub channel: &'a [u8],
    /// The content.
    pub payload: &'a [u8],
}

impl Message<'_> {
    /// Writes the message for a subscriber of its channel.
    fn write(self, kind: &str, reply: &mut Reply<'_>) {
        reply.push(3);
        reply.bulk(kind.as_bytes());
        reply.bulk(self.channel);
        reply.bulk(self.payload);
    }

    /// Writes the message for a subscriber of a matching pattern.
    fn write_matched(self, pattern: &[u8], reply: &mut Reply<'_>) {
        reply.push(4);
        reply.bulk(b"pmessage");
        reply.bulk(pattern);
        reply.bulk(self.channel);
        reply.bulk(self.payload);
    }
}

impl Hub {
    /// Creates a hub without subscribers.
    pub fn new(memory_account: &Arc<MemoryAccount>) -> Self {
        Hub { topics: Default::default(), last_subscription: AtomicU64::new(0), memory_account: memory_account.clone() }
    }

    /// Returns true if there are subscribers of channels, by name or by pattern: a cheap check before a message is
    /// built.
    pub fn has_channel_subscribers(&self) -> bool {
        self.count(ChannelKind::Channel) > 0 || self.count(ChannelKind::Pattern) > 0
    }

    /// Returns true if there are any subscribers.
    pub fn has_subscribers(&self) -> bool {
        self.has_channel_subscribers() || self.count(ChannelKind::ShardChannel) > 0
    }

    /// Returns how many channels or patterns have subscribers.
    pub fn count(&self, channel_kind: ChannelKind) -> usize {
        self.topics[channel_kind as usize].count.load(Relaxed)
    }

    /// Returns how many clients are subscribed to a channel by name.
    pub fn subscriber_count(&self, channel_kind: ChannelKind, name: &[u8]) -> usize {
        self.topics[channel_kind as usize]
            .by_name
            .read()
            .get(name)
            .map_or(0, |audience| audience.subscribers.lock().len())
    }

    /// Returns the names that have subscribers and match a pattern, or all.
    pub fn names(&self, channel_kind: ChannelKind, pattern: Option<&[u8]>) -> Vec<Bytes> {
        let by_name = self.topics[channel_kind as usize].by_name.read();
        let pattern = pattern.map(Pattern::new);
        let matches = |name: &&Bytes| pattern.as_ref().is_none_or(|pattern| pattern.matches(name));
        by_name.keys().filter(matches).cloned().collect()
    }

    /// Sends a message to the subscribers of its channel, by name or by pattern; returns how many accepted it.
    pub fn publish(&self, message: Message<'_>, config: &Config, now: Now) -> usize {
        let heard = self.deliver(ChannelKind::Channel, "message", message, config, now);
        let patterns = &self.topics[ChannelKind::Pattern as usize];
        if patterns.count.load(Relaxed) == 0 {
            return heard;
        }
        let by_name = patterns.by_name.read();
        let patterns = by_name.values().filter_map(|audience| Some((audience.pattern.as_ref()?, audience)));
        let matching = patterns.filter(|(pattern, _)| pattern.matches(message.channel));
        let heard_by_pattern = matching.map(|(pattern, audience)| {
            let write = |reply: &mut Reply<'_>| message.write_matched(pattern.text(), reply);
            send(&audience.subscribers, &mut PushFrame::new(&write), config, now)
        });
        heard + heard_by_pattern.sum::<usize>()
    }

    /// Returns how many subscribers of this hub a message to a channel reaches.
    pub(crate) fn receivers(&self, channel: &[u8]) -> usize {
        let by_name = self.topics[ChannelKind::Pattern as usize].by_name.read();
        let matches = |audience: &&Audience| audience.pattern.as_ref().is_some_and(|pattern| pattern.matches(channel));
        let of_patterns = by_name.values().filter(matches).map(|audience| audience.subscribers.lock().len());
        self.subscriber_count(ChannelKind::Channel, channel) + of_patterns.sum::<usize>()
    }

    /// Sends a message to the subscribers of its shard channel; returns how many accepted it.
    pub fn publish_to_shard(&self, message: Message<'_>, config: &Config, now: Now) -> usize {
        self.deliver(ChannelKind::ShardChannel, "smessage", message, config, now)
    }

    fn deliver(&self, channel_kind: ChannelKind, kind: &str, message: Message<'_>, config: &Config, now: Now) -> usize {
        let topics = &self.topics[channel_kind as usize];
        if topics.count.load(Relaxed) == 0 {
            return 0;
        }
        let by_name = topics.by_name.read();
        let Some(audience) = by_name.get(message.channel) else { return 0 };
        let write = |reply: &mut Reply<'_>| message.write(kind, reply);
        send(&audience.subscribers, &mut PushFrame::new(&write), config, now)
    }

    /// Subscribes a client; no effect if it is subscribed already.
    pub fn subscribe(&self, client: &Arc<ClientInfo>, own: &mut Subscriptions, channel_kind: ChannelKind, name: &[u8]) {
        let own = own.of_mut(channel_kind);
        if own.contains_key(name) {
            return;
        }
        let number = self.last_subscription.fetch_add(1, Relaxed);
        let topics = &self.topics[channel_kind as usize];
        let mut by_name = topics.by_name.write();
        let before = held_for(&by_name, own, name);
        // The name is stored once, by the first subscriber.
        let shared = match by_name.get_key_value(name) {
            Some((shared, _)) => shared.clone(),
            None => Bytes::copy_from_slice(name),
        };
        let audience = by_name.entry(shared.clone()).or_insert_with(|| Audience {
            pattern: (channel_kind == ChannelKind::Pattern).then(|| Box::new(Pattern::new(shared.clone()))),
            subscribers: Subscribers::default(),
        });
        audience.subscribers.get_mut().insert(number, client.clone());
        topics.count.store(by_name.len(), Relaxed);
        own.insert(shared, number);
        client.buffers.add_kept_len(name.len() as isize);
        self.memory_account.report_outside(before, held_for(&by_name, own, name));
        client.session.set_subscriptions(channel_kind, own.len());
    }

    /// Unsubscribes a client; no further message of the channel reaches its outbox.
    pub fn unsubscribe(&self, client: &ClientInfo, own: &mut Subscriptions, channel_kind: ChannelKind, name: &[u8]) {
        let Some(own) = own.get_mut(channel_kind) else { return };
        let topics = &self.topics[channel_kind as usize];
        let mut by_name = topics.by_name.write();
        let before = held_for(&by_name, own, name);
        let Some(number) = own.remove(name) else { return };
        if own.is_empty() {
            *own = ByName::default();
        }
        if let Some(audience) = by_name.get_mut(name) {
            audience.subscribers.get_mut().remove(&number);
            if audience.subscribers.get_mut().is_empty() {
                by_name.remove(name);
            }
            if by_name.is_empty() {
                *by_name = ByName::default();
            }
        }
        topics.count.store(by_name.len(), Relaxed);
        client.buffers.add_kept_len(-(name.len() as isize));
        self.memory_account.report_outside(before, held_for(&by_name, own, name));
        client.session.set_subscriptions(channel_kind, own.len());
    }

    /// Returns the clients of the subscriptions that `is_meant` accepts; a client of several is returned several times.
    pub fn subscribers_where(
        &self,
        is_meant: impl Fn(ChannelKind, &[u8], &ClientInfo) -> bool,
    ) -> Vec<Arc<ClientInfo>> {
        let mut found = Vec::new();
        for channel_kind in [ChannelKind::Channel, ChannelKind::Pattern, ChannelKind::ShardChannel] {
            let by_name = self.topics[channel_kind as usize].by_name.read();
            for (name, audience) in by_name.iter() {
                let subscribers = audience.subscribers.lock();
                found.extend(subscribers.values().filter(|client| is_meant(channel_kind, name, client)).cloned());
            }
        }
        found
    }

    /// Removes all subscriptions of a client.
    pub fn leave(&self, client: &ClientInfo, own: &mut Subscriptions) {
        for channel_kind in [ChannelKind::Channel, ChannelKind::Pattern, ChannelKind::ShardChannel] {
            for name in own.names(channel_kind) {
                self.unsubscribe(client, own, channel_kind, &name);
            }
        }
        *own = Subscriptions::default();
    }
}

/// Returns the memory of a channel's name with its subscribers, and of the two tables of names: the hub's and the
/// client's.
fn held_for(by_name: &ByName<Audience>, own: &ByName<u64>, name: &[u8]) -> usize {
    let entry = |audience: &Audience| {
        let subscribers = audience.subscribers.lock().memory();
        let pattern = audience.pattern.as_ref();
        let compiled = pattern.map_or(0, |pattern| allocation_len(size_of_val(&**pattern)) + pattern.memory());
        allocation_len(name.len()) + SHARED_BYTES_LEN + subscribers + compiled
    };
    by_name.get(name).map_or(0, entry)
        + hash_map_len::<Bytes, Audience>(by_name.capacity())
        + hash_map_len::<Bytes, u64>(own.capacity())
}

/// Queues a message for all subscribers; returns how many accepted it.
fn send(subscribers: &Subscribers, push_frame: &mut PushFrame<'_>, config: &Config, now: Now) -> usize {
    let subscribers = subscribers.lock();
    subscribers.values().filter(|client| client.push(push_frame, config, now)).count()
}
