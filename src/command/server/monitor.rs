//! MONITOR: shows every call as it is executed. The form in which a call is shown is decided in `post_call`.

use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::spec::{ADMIN, Group, LOADING, NO_SCRIPT, STALE};

pub(crate) const COMMANDS: &[Command] =
    &[Command::new("MONITOR", monitor, ADMIN | NO_SCRIPT | LOADING | STALE, Group::Server).docs(
        "1.0.0",
        "",
        "Streams every command that the server executes from now on.",
    )];

fn monitor(call: &mut Call<'_>) -> Result<()> {
    if call.is_nested() {
        return Err(Error::other("MONITOR isn't allowed for DENY BLOCKING client"));
    }
    let client = &call.caller.info;
    if call.namespace.observed.monitors.has(client.id) {
        return Ok(()); // Redis does not reply either
    }
    call.namespace.observed.monitors.add(client.clone());
    call.namespace.store.renew_generation(); // a batch checks only once for monitors
    client.session.set_monitoring(true);
    call.session()?.is_monitor = true;
    call.update_recording();
    call.reply.ok();
    Ok(())
}

/// Ends MONITOR for this client, if active.
pub(crate) fn stop(call: &mut Call<'_>) -> Result<()> {
    let client = &call.caller.info;
    call.namespace.observed.monitors.remove(client.id);
    client.session.set_monitoring(false);
    call.session()?.is_monitor = false;
    call.update_recording();
    Ok(())
}
