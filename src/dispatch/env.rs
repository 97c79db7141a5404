//! The environment that every call is made with.

use crate::config::Config;
use crate::dispatch::Handlers;
use crate::namespace::Namespace;
use crate::observe::CallTimer;

/// The environment of calls: the same for all calls of a batch, for those nested in them, and for those of blocked
/// clients that they serve.
#[derive(Clone, Copy)]
pub struct Env<'n> {
    /// Whose data is accessed.
    pub(crate) namespace: &'n Namespace,
    /// The handlers of all commands.
    pub(crate) handlers: &'static Handlers,
    /// The settings in force.
    pub(crate) config: &'n Config,
    /// Measures the calls.
    pub(crate) timer: &'n CallTimer<'n>,
}

impl Env<'_> {
    /// Passes the environment of calls that no connection makes to `work`: with the present settings, and measured as
    /// calls of a client with this id, or 0.
    pub(crate) fn with_present<T>(
        namespace: &Namespace,
        handlers: &'static Handlers,
        client: u64,
        work: impl FnOnce(Env<'_>) -> T,
    ) -> T {
        let config = namespace.settings.current();
        let timer = namespace.call_timer(client);
        work(Env { namespace, handlers, config: &config, timer: &timer })
    }
}
