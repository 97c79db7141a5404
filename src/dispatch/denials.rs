//! Records of calls denied for lack of permission or authentication: in ACL LOG, in the statistics, and in the log.

use std::sync::atomic::Ordering::Relaxed;

use tracing::debug;

use crate::acl::{Context, DenialEntry, DenialReason};
use crate::client::caller::Caller;
use crate::config::Config;
use crate::dispatch::Call;
use crate::dispatch::checks::Admission;
use crate::error::Denial;
use crate::namespace::Namespace;

/// Records that a call was rejected because its user lacks a permission.
pub(super) fn record_denial(refused: &Admission<'_>, denial: Denial, context: Context) {
    let (command, request) = (refused.command, refused.request);
    let (reason, object) = match denial {
        Denial::Command => (DenialReason::Command, command.name.as_bytes()),
        Denial::Key(at) => (DenialReason::Key, request.arg(at)),
        Denial::Channel(at) => (DenialReason::Channel, request.arg(at)),
    };
    let user = &refused.caller.access.user().name;
    record(refused.namespace, refused.config, refused.caller, (reason, context), object, user);
}

/// Records that AUTH or HELLO has rejected a user name or password.
pub(crate) fn record_failed_login(call: &Call<'_>, user: &[u8]) {
    call.caller.show_command();
    let context = if call.is_nested() { Context::Multi } else { Context::TopLevel };
    let object = call.args.request().name();
    debug!("Authentication failed for a client at {}", call.caller.info.peer.addr);
    record(call.namespace, call.config, call.caller, (DenialReason::Auth, context), object, user);
}

/// Records that another namespace has rejected a client of this one, because of the password of a user there.
pub(crate) fn record_refused_entry(namespace: &Namespace, config: &Config, caller: &Caller, user: &[u8]) {
    let object = caller.called.map_or("AUTH".to_owned(), |command| command.name.to_ascii_uppercase());
    debug!("Authentication failed for a client at {}", caller.info.peer.addr);
    record(namespace, config, caller, (DenialReason::Auth, Context::TopLevel), object.as_bytes(), user);
}

/// Records the denial of a request of a peer that does not speak RESP: for lack of permission to call `command`, on
/// which the request is based, or, without a command, for a wrong user name or password.
#[cfg(feature = "metrics")]
pub(crate) fn record_refused_visit(namespace: &Namespace, caller: &Caller, user: &[u8], command: Option<&str>) {
    let config = namespace.settings.current();
    let (reason, object) = command.map_or((DenialReason::Auth, "HTTP"), |command| (DenialReason::Command, command));
    debug!("Refused an HTTP request of a client at {}", caller.info.peer.addr);
    record(namespace, &config, caller, (reason, Context::TopLevel), object.as_bytes(), user);
}

fn record(
    namespace: &Namespace,
    config: &Config,
    caller: &Caller,
    why: (DenialReason, Context),
    object: &[u8],
    user: &[u8],
) {
    let counter = match why.0 {
        DenialReason::Command => &namespace.observed.stats.acl_denied_command,
        DenialReason::Key => &namespace.observed.stats.acl_denied_key,
        DenialReason::Channel => &namespace.observed.stats.acl_denied_channel,
        DenialReason::Auth => &namespace.observed.stats.acl_denied_auth,
    };
    counter.fetch_add(1, Relaxed);
    let now = namespace.clock.now();
    let entry = DenialEntry::new(why, object, user, now.wall_ms(), caller.info.line(now, 0));
    namespace.acl.log.lock().note(entry, config.acllog_max_len);
}
