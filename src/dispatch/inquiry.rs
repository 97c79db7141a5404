//! Inquiries of the server itself: the code of commands that report, used without a client.
//!
//! What the metrics port shows is computed where INFO, LOCK.LIST and SLOWLOG compute it. An inquiry is not counted as a
//! call, and it holds the gate shared and one shard at a time, so that no other call waits for all of it.

use crate::client::caller::Caller;
use crate::dispatch::plan::find;
use crate::dispatch::{Args, Call, Handlers};
use crate::namespace::Namespace;
use crate::observe::CallTimer;
use crate::resp::{Output, Reply, RequestBuffer};
use crate::spec::Names;
use crate::store::{Cx, Origin};

/// Lets `ask` use a call of a command without keys; `None` while a script keeps the store busy.
pub(crate) fn inquire<T>(
    namespace: &Namespace,
    handlers: &'static Handlers,
    command: &str,
    ask: impl FnOnce(&mut Call<'_>) -> T,
) -> Option<T> {
    let config = namespace.instance.settings.current();
    let now = namespace.clock.now();
    let info = namespace.instance.clients.unlisted(now);
    let timer = CallTimer::new(&namespace.observed.command_stats, &namespace.clock, info.id);
    let mut caller = Caller::new(info, &namespace.instance.acl);
    let mut words = RequestBuffer::default();
    words.push(command.as_bytes());
    let request = words.as_request()?;
    let command = find(request, Names::new(namespace.commands, &Default::default()))?;
    let mut out = Output::new();
    let mut guard = namespace.store.hold(1);
    let view = guard.view(0, &[], Cx::new(now, Origin::HOST));
    if view.is_closed() {
        return None;
    }
    Some(ask(&mut Call {
        args: Args::new(request, command.name_args, &[]),
        view,
        reply: Reply::new(&mut out, caller.protocol),
        caller: &mut caller,
        session: None,
        namespace,
        handlers,
        config: &config,
        command,
        timer: &timer,
        read_at: 0,
        next: None,
        is_blocked: false,
    }))
}
