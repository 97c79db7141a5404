//! CLIENT subcommands that act on other clients: KILL, PAUSE, UNPAUSE, UNBLOCK; and the client types by which they select.

use std::sync::Arc;

use crate::acl::User;
use crate::client::info::{Class, ClientInfo};
use crate::client::pause::PauseScope;
use crate::client::registry::Unblocked;
use crate::command::timeout::read_timeout;
use crate::dispatch::Call;
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};
use crate::resp::parse_int;
use crate::spec::{Arg, integer, one_of, string, token};
use crate::store::NEVER;
use crate::time::clock::Now;

/// The grammar of CLIENT KILL.
pub(crate) const KILL_ARGS: &[Arg] = &[one_of(
    "filter",
    &[
        string("ip:port"),
        one_of(
            "new-format",
            &[
                integer("client-id").token("ID").optional().since("2.8.12"),
                one_of(
                    "normal_master_slave_pubsub",
                    &[
                        token("normal", "NORMAL"),
                        token("master", "MASTER").since("3.2.0"),
                        token("slave", "SLAVE"),
                        token("replica", "REPLICA").since("5.0.0"),
                        token("pubsub", "PUBSUB"),
                    ],
                )
                .token("TYPE")
                .optional()
                .since("2.8.12"),
                string("username").token("USER").optional(),
                string("ip:port").token("ADDR").optional(),
                string("ip:port").token("LADDR").optional().since("6.2.0"),
                string("yes/no").token("SKIPME").optional(),
                integer("maxage").token("MAXAGE").optional().since("7.4.0").valkey("8.0.0"),
            ],
        )
        .multiple(),
    ],
)];

/// The grammar of CLIENT PAUSE.
pub(crate) const PAUSE_ARGS: &[Arg] =
    &[integer("timeout"), one_of("mode", &[token("write", "WRITE"), token("all", "ALL")]).optional().since("6.2.0")];

/// The grammar of CLIENT UNBLOCK.
pub(crate) const UNBLOCK_ARGS: &[Arg] = &[
    integer("client-id"),
    one_of("timeout_error", &[token("timeout", "TIMEOUT"), token("error", "ERROR")]).optional(),
];

/// The filter of CLIENT KILL: all given conditions must hold.
#[derive(Default)]
struct Filter<'a> {
    addr: Option<&'a [u8]>,
    laddr: Option<&'a [u8]>,
    kind: Option<ClientType>,
    user: Option<Arc<User>>,
    id: Option<u64>,
    age_min_s: Option<u64>,
    with_self: bool,
}

impl Filter<'_> {
    /// Returns true if a client meets all given conditions.
    fn fits(&self, client: &ClientInfo, now: Now) -> bool {
        self.addr.is_none_or(|addr| addr == client.peer.addr.as_bytes())
            && self.laddr.is_none_or(|laddr| laddr == client.peer.laddr.as_bytes())
            && self.kind.is_none_or(|kind| kind.is_that_of(client))
            && self.user.as_ref().is_none_or(|user| client.user().is_some_and(|name| user.is(&name)))
            && self.id.is_none_or(|id| id == client.id)
            && self.age_min_s.is_none_or(|least| client.age_ms(now) / 1000 >= least)
    }
}

pub(crate) fn kill(call: &mut Call<'_>) -> Result<()> {
    if call.args.left() == 1 {
        let filter = Filter { addr: Some(call.args.bytes()?), with_self: true, ..Filter::default() };
        if kill_all(call, &filter) == 0 {
            return Err(Error::other("No such client"));
        }
        call.reply.ok();
        return Ok(());
    }
    let filter = read_filter(call)?;
    let killed = kill_all(call, &filter);
    call.reply.int(killed);
    Ok(())
}

fn read_filter<'a>(call: &mut Call<'a>) -> Result<Filter<'a>> {
    let mut filter = Filter::default();
    while let Some(option) = call.args.next_arg() {
        let value = call.args.bytes()?;
        if is_word(option, "ID") {
            let id = parse_int(value).and_then(|id| u64::try_from(id).ok()).filter(|id| *id > 0);
            filter.id = Some(id.ok_or(Error::other("client-id should be greater than 0"))?);
        } else if is_word(option, "TYPE") {
            filter.kind = Some(ClientType::parse(value)?);
        } else if is_word(option, "ADDR") {
            filter.addr = Some(value);
        } else if is_word(option, "LADDR") {
            filter.laddr = Some(value);
        } else if is_word(option, "USER") {
            let user = call.namespace.acl.user(value);
            filter.user = Some(user.ok_or_else(|| Error::NoSuchUser(value.to_vec()))?);
        } else if is_word(option, "SKIPME") {
            filter.with_self = match value {
                word if is_word(word, "YES") => false,
                word if is_word(word, "NO") => true,
                _ => return Err(Error::Syntax),
            };
        } else if is_word(option, "MAXAGE") {
            let age = parse_int(value).ok_or(Error::other("maxage is not an integer or out of range"))?;
            let age = u64::try_from(age).ok().filter(|age| *age > 0);
            filter.age_min_s = Some(age.ok_or(Error::other("maxage should be greater than 0"))?);
        } else {
            return Err(Error::Syntax);
        }
    }
    Ok(filter)
}

/// Disconnects the matching clients, the caller only after its reply; returns their number.
fn kill_all(call: &mut Call<'_>, filter: &Filter<'_>) -> i64 {
    let (now, own) = (call.now(), call.caller.info.id);
    let mut killed = 0;
    let role = &call.namespace.role;
    if role.client().is_some_and(|link| filter.fits(&link, now)) {
        role.hang_up();
        killed += 1;
    }
    for client in call.namespace.clients.all() {
        if !filter.fits(&client, now) || (client.id == own && !filter.with_self) {
            continue;
        }
        killed += 1;
        if client.id == own { call.caller.closing = true } else { call.namespace.clients.kill(&client) }
    }
    call.namespace.store.renew_generation();
    killed
}

pub(crate) fn pause(call: &mut Call<'_>) -> Result<()> {
    let form = form_error(call);
    let words = call.args.request();
    let scope = match words.len() {
        3 => PauseScope::Everything,
        4 if is_word(words.arg(3), "WRITE") => PauseScope::Writes,
        4 if is_word(words.arg(3), "ALL") => PauseScope::Everything,
        4 => return Err(Error::other("CLIENT PAUSE mode must be WRITE or ALL")),
        _ => return Err(form),
    };
    let now = call.now();
    // A pause of zero length ends at once.
    let until_ms = Some(read_timeout(call)?).filter(|until_ms| *until_ms != NEVER).unwrap_or(now.mono_ms());
    let until_ms = call.namespace.restrictions.pause.begin(scope, until_ms, now);
    call.namespace.store.freeze(until_ms);
    call.namespace.store.renew_generation();
    call.end_batch();
    call.reply.ok();
    Ok(())
}

pub(crate) fn unpause(call: &mut Call<'_>) -> Result<()> {
    call.namespace.restrictions.pause.end();
    call.namespace.store.freeze(0);
    call.namespace.store.renew_generation();
    call.namespace.clients.end_pause();
    call.reply.ok();
    Ok(())
}

pub(crate) fn unblock(call: &mut Call<'_>) -> Result<()> {
    let form = form_error(call);
    let words = call.args.request();
    let how = match words.len() {
        3 => Unblocked::InTime,
        4 if is_word(words.arg(3), "TIMEOUT") => Unblocked::InTime,
        4 if is_word(words.arg(3), "ERROR") => Unblocked::WithError,
        4 => return Err(Error::other("CLIENT UNBLOCK reason should be TIMEOUT or ERROR")),
        _ => return Err(form),
    };
    let id = call.args.int()?;
    let is_unblocked = call.namespace.clients.unblock(id as u64, how);
    call.reply.int(i64::from(is_unblocked));
    Ok(())
}

/// Returns the error for a wrong number of arguments of a subcommand.
fn form_error(call: &Call<'_>) -> Error {
    Error::SubcommandSyntax(call.args.request().arg(1).to_vec(), "CLIENT")
}

/// A client type of CLIENT LIST and CLIENT KILL; `None` is the type of the link to a primary.
#[derive(Clone, Copy)]
pub(super) struct ClientType(Option<Class>);

impl ClientType {
    pub(super) fn parse(word: &[u8]) -> Result<Self> {
        let types = [
            ("normal", Some(Class::Normal)),
            ("slave", Some(Class::Replica)),
            ("replica", Some(Class::Replica)),
            ("pubsub", Some(Class::Subscriber)),
            ("master", None),
        ];
        let found = types.into_iter().find(|(name, _)| is_word(word, name));
        found.map(|(_, class)| ClientType(class)).ok_or_else(|| Error::UnknownClientType(word.to_vec()))
    }

    pub(super) fn is_that_of(self, client: &ClientInfo) -> bool {
        self.0 == (!client.flags.is_primary()).then(|| client.session.class())
    }
}
