//! Publish/subscribe: SUBSCRIBE, PUBLISH and related commands, and PUBSUB.
//!
//! The subscribers are in the [`Hub`](crate::push::hub::Hub). A confirmation is written for every channel, in RESP3 as
//! a push; the gate allows a subscribed RESP2 client only a few commands.

use crate::client::info::{ChannelKind, Class};
use crate::client::staged::StagedMessage;
use crate::command::sentinel::forward as ask_sentinel;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::namespace::member::Question;
use crate::push::hub::Message;
use crate::spec::marks::{OF_SENTINEL, PUBLISHES};
use crate::spec::{
    ALLOW_SUBSCRIBED, Arg, FAST, Flags, Group, LOADING, MAY_REPLICATE, NO_SCRIPT, PUBSUB, STALE, block, channel,
    channel_pattern, pattern, shard_channel, string,
};
use crate::text::Dialect;

const LISTEN: Flags = PUBSUB | NO_SCRIPT | LOADING | STALE | ALLOW_SUBSCRIBED;
const TALK: Flags = PUBSUB | LOADING | STALE | FAST | MAY_REPLICATE;
const LOOK: Flags = PUBSUB | LOADING | STALE;

const CHANNELS: &[Arg] = &[channel("channel").multiple()];
const CHANNELS_OR_ALL: &[Arg] = &[string("channel").optional().multiple()];
const PATTERNS: &[Arg] = &[block("pattern", &[channel_pattern("pattern")]).multiple()];
const PATTERNS_OR_ALL: &[Arg] = &[pattern("pattern").optional().multiple()];
const SHARD_CHANNELS: &[Arg] = &[shard_channel("shardchannel").multiple()];
const SHARD_CHANNELS_OR_ALL: &[Arg] = &[shard_channel("shardchannel").optional().multiple()];

const CHANNELS_COST: &str = "O(N) where N is the number of active channels, and assuming constant time pattern matching \
(relatively short channels and patterns)";
const NUMSUB_COST: &str = "O(N) for the NUMSUB subcommand, where N is the number of requested channels";
const SHARD_CHANNELS_COST: &str = "O(N) where N is the number of active shard channels, and assuming constant time \
pattern matching (relatively short shard channels).";
const SHARD_NUMSUB_COST: &str =
    "O(N) for the SHARDNUMSUB subcommand, where N is the number of requested shard channels";
const PUBLISH_COST: &str = "O(N+M) where N is the number of clients subscribed to the receiving channel and M is the \
total number of subscribed patterns (by any client).";
const PUNSUBSCRIBE_COST: &str = "O(N+M) where N is the number of patterns the client is already subscribed and M is the \
number of total patterns subscribed in the system (by any client).";

#[rustfmt::skip] // every row has its name, its arguments and its docs on lines of their own
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("PSUBSCRIBE", psubscribe, LISTEN, Group::PubSub)
        .marks(OF_SENTINEL)
        .args(PATTERNS)
        .docs("2.0.0", "O(N) where N is the number of patterns the client is already subscribed to.", "Subscribes to all channels that match patterns."),
    Command::new("PUBLISH", publish, TALK, Group::PubSub)
        .marks(OF_SENTINEL | PUBLISHES)
        .args(&[channel("channel"), string("message")])
        .docs("2.0.0", PUBLISH_COST, "Publishes a message to a channel."),
    Command::container("PUBSUB", Group::PubSub, &[
        Command::new("CHANNELS", channels, LOOK, Group::PubSub)
            .args(&[pattern("pattern").optional()])
            .docs("2.8.0", CHANNELS_COST, "Lists the channels with subscribers."),
        Command::new("NUMPAT", numpat, LOOK, Group::PubSub)
            .docs("2.8.0", "O(1)", "Returns the number of patterns with subscribers."),
        Command::new("NUMSUB", numsub, LOOK, Group::PubSub)
            .args(CHANNELS_OR_ALL)
            .docs("2.8.0", NUMSUB_COST, "Returns the number of subscribers of channels."),
        Command::new("SHARDCHANNELS", shard_channels, LOOK, Group::PubSub)
            .args(&[pattern("pattern").optional()])
            .docs("7.0.0", SHARD_CHANNELS_COST, "Lists the shard channels with subscribers."),
        Command::new("SHARDNUMSUB", shard_numsub, LOOK, Group::PubSub)
            .args(&[string("shardchannel").optional().multiple()])
            .docs("7.0.0", SHARD_NUMSUB_COST, "Returns the number of subscribers of shard channels."),
    ])
    .help_since("6.2.0")
    .docs("2.8.0", "Depends on subcommand.", "Contains the Pub/Sub introspection subcommands."),
    Command::new("PUNSUBSCRIBE", punsubscribe, LISTEN, Group::PubSub)
        .marks(OF_SENTINEL)
        .args(PATTERNS_OR_ALL)
        .docs("2.0.0", PUNSUBSCRIBE_COST, "Unsubscribes from patterns, or from all of them."),
    Command::new("SPUBLISH", spublish, TALK, Group::PubSub)
        .marks(PUBLISHES)
        .args(&[shard_channel("shardchannel"), string("message")])
        .docs("7.0.0", "O(N) where N is the number of clients subscribed to the receiving shard channel.", "Publishes a message to a shard channel."),
    Command::new("SSUBSCRIBE", ssubscribe, LISTEN, Group::PubSub)
        .args(SHARD_CHANNELS)
        .docs("7.0.0", "O(N) where N is the number of shard channels to subscribe to.", "Subscribes to shard channels."),
    Command::new("SUBSCRIBE", subscribe, LISTEN, Group::PubSub)
        .marks(OF_SENTINEL)
        .args(CHANNELS)
        .docs("2.0.0", "O(N) where N is the number of channels to subscribe to.", "Subscribes to channels."),
    Command::new("SUNSUBSCRIBE", sunsubscribe, LISTEN, Group::PubSub)
        .args(SHARD_CHANNELS_OR_ALL)
        .docs("7.0.0", "O(N) where N is the number of clients already subscribed to a shard channel.", "Unsubscribes from shard channels, or from all of them."),
    Command::new("UNSUBSCRIBE", unsubscribe, LISTEN, Group::PubSub)
        .marks(OF_SENTINEL)
        .args(CHANNELS_OR_ALL)
        .docs("2.0.0", "O(N) where N is the number of clients already subscribed to a channel.", "Unsubscribes from channels, or from all of them."),
];

fn subscribe(call: &mut Call<'_>) -> Result<()> {
    join(call, "subscribe", ChannelKind::Channel)
}

fn psubscribe(call: &mut Call<'_>) -> Result<()> {
    join(call, "psubscribe", ChannelKind::Pattern)
}

fn ssubscribe(call: &mut Call<'_>) -> Result<()> {
    if call.is_nested() {
        return Err(Error::other("SSUBSCRIBE isn't allowed for a DENY BLOCKING client"));
    }
    join(call, "ssubscribe", ChannelKind::ShardChannel)
}

fn unsubscribe(call: &mut Call<'_>) -> Result<()> {
    part(call, "unsubscribe", ChannelKind::Channel)
}

fn punsubscribe(call: &mut Call<'_>) -> Result<()> {
    part(call, "punsubscribe", ChannelKind::Pattern)
}

fn sunsubscribe(call: &mut Call<'_>) -> Result<()> {
    part(call, "sunsubscribe", ChannelKind::ShardChannel)
}

/// Subscribes to every channel named, and confirms each.
fn join(call: &mut Call<'_>, word: &str, channel_kind: ChannelKind) -> Result<()> {
    while let Some(name) = call.args.next_arg() {
        let namespace = call.namespace;
        let (caller, session) = call.connection()?;
        namespace.push.hub.subscribe(&caller.info, &mut session.subscriptions, channel_kind, name);
        confirm(call, word, channel_kind, Some(name));
    }
    call.end_batch();
    Ok(())
}

/// Unsubscribes from every channel named, or from all, and confirms each; without subscriptions there is one
/// confirmation.
fn part(call: &mut Call<'_>, word: &'static str, channel_kind: ChannelKind) -> Result<()> {
    if call.config.dialect() == Dialect::Valkey && call.caller.info.session.class() != Class::Subscriber {
        return Err(Error::NotSubscribed(word));
    }
    if call.args.left() == 0 {
        let names = call.session()?.subscriptions.names(channel_kind);
        for name in &names {
            leave(call, word, channel_kind, name)?;
        }
        if names.is_empty() {
            confirm(call, word, channel_kind, None);
        }
    }
    while let Some(name) = call.args.next_arg() {
        leave(call, word, channel_kind, name)?;
    }
    call.end_batch();
    Ok(())
}

/// Unsubscribes from a channel. Its messages so far are written before the confirmation, and none follows.
fn leave(call: &mut Call<'_>, word: &str, channel_kind: ChannelKind, name: &[u8]) -> Result<()> {
    let namespace = call.namespace;
    let (caller, session) = call.connection()?;
    namespace.push.hub.unsubscribe(&caller.info, &mut session.subscriptions, channel_kind, name);
    call.take_pushed();
    confirm(call, word, channel_kind, Some(name));
    Ok(())
}

/// Writes the confirmation for a channel with the number of subscriptions; channels and patterns count together.
fn confirm(call: &mut Call<'_>, word: &str, channel_kind: ChannelKind, name: Option<&[u8]>) {
    let info = &call.caller.info;
    let count = match channel_kind {
        ChannelKind::ShardChannel => info.session.subscriptions(channel_kind),
        ChannelKind::Channel | ChannelKind::Pattern => {
            info.session.subscriptions(ChannelKind::Channel) + info.session.subscriptions(ChannelKind::Pattern)
        }
    };
    call.reply.push(3);
    call.reply.bulk(word.as_bytes());
    match name {
        Some(name) => call.reply.bulk(name),
        None => call.reply.null(),
    }
    call.reply.int(i64::from(count));
}

fn publish(call: &mut Call<'_>) -> Result<()> {
    if call.namespace.restrictions.is_sentinel() {
        let mut text = || call.args.bytes().map(|word| String::from_utf8_lossy(word).into_owned());
        let words = vec![text()?, text()?];
        return ask_sentinel(call, Question::Publish, words);
    }
    let message = Message { channel: call.args.bytes()?, payload: call.args.bytes()? };
    let receivers = if stage(call, message, false) {
        call.namespace.push.hub.receivers(message.channel)
    } else {
        call.namespace.push.hub.publish(message, call.config, call.now())
    };
    call.reply.int(receivers as i64); // a client subscribed to the channel itself gets the message after this
    pass_on(call, message, false);
    Ok(())
}

fn spublish(call: &mut Call<'_>) -> Result<()> {
    let message = Message { channel: call.args.bytes()?, payload: call.args.bytes()? };
    let receivers = if stage(call, message, true) {
        call.namespace.push.hub.subscriber_count(ChannelKind::ShardChannel, message.channel)
    } else {
        call.namespace.push.hub.publish_to_shard(message, call.config, call.now())
    };
    call.reply.int(receivers as i64);
    pass_on(call, message, true);
    Ok(())
}

/// Passes a message on to the replicas, or, at a node of a topology, to the other nodes.
fn pass_on(call: &mut Call<'_>, message: Message<'_>, is_sharded: bool) {
    match call.namespace.member() {
        None => call.replicate_request(),
        Some(member) => {
            // A message that a replica repeats is known to the other nodes, or is not for them.
            let topology = member.topology().filter(|topology| topology.is_cluster() && !call.view.cx().is_repeated());
            match topology {
                Some(topology) => topology.publish(member.number, message, is_sharded, call.now()),
                None => call.replicate_request(),
            }
        }
    }
}

/// Passes a message to the engine that executes the call, if there is one; returns true then. The engine sends the
/// message when the cluster has it.
fn stage(call: &mut Call<'_>, Message { channel, payload }: Message<'_>, is_sharded: bool) -> bool {
    let Some(staged) = &mut call.caller.staged else { return false };
    staged.messages.push(StagedMessage { is_sharded, channel: channel.to_vec(), payload: payload.to_vec() });
    true
}

fn channels(call: &mut Call<'_>) -> Result<()> {
    list(call, ChannelKind::Channel)
}

fn shard_channels(call: &mut Call<'_>) -> Result<()> {
    list(call, ChannelKind::ShardChannel)
}

fn list(call: &mut Call<'_>, channel_kind: ChannelKind) -> Result<()> {
    let pattern = call.args.next_arg();
    if call.args.left() > 0 {
        return Err(Error::SubcommandSyntax(call.args.request().arg(1).to_vec(), "PUBSUB"));
    }
    let names = call.namespace.push.hub.names(channel_kind, pattern);
    call.reply.array(names.len());
    names.iter().for_each(|name| call.reply.bulk(name));
    Ok(())
}

fn numsub(call: &mut Call<'_>) -> Result<()> {
    count(call, ChannelKind::Channel)
}

fn shard_numsub(call: &mut Call<'_>) -> Result<()> {
    count(call, ChannelKind::ShardChannel)
}

fn count(call: &mut Call<'_>, channel_kind: ChannelKind) -> Result<()> {
    call.reply.array(call.args.left() * 2);
    while let Some(name) = call.args.next_arg() {
        call.reply.bulk(name);
        call.reply.int(call.namespace.push.hub.subscriber_count(channel_kind, name) as i64);
    }
    Ok(())
}

fn numpat(call: &mut Call<'_>) -> Result<()> {
    call.reply.int(call.namespace.push.hub.count(ChannelKind::Pattern) as i64);
    Ok(())
}
