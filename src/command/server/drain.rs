//! SHUTDOWN DRAIN: sends clients to another server before this one ends.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::client::info::{ClientInfo, NoticeMode};
use crate::client::registry::{Blocked, Blocking, Unblocked};
use crate::command::server::shutdown;
use crate::config::ShutdownOptions;
use crate::dispatch::{Call, Continuation, Env, Wait};
use crate::error::{Error, Result};
use crate::namespace::shutdown::Shutdown;
use crate::push::maintenance::MaintenanceNotice;
use crate::resp::{Reply, parse_int};
use crate::store::{NEVER, View};

/// Time that clients have, in seconds, without an argument.
const SECONDS: i64 = 10;
/// Longest time, in seconds.
const SECONDS_MAX: i64 = 24 * 60 * 60;
/// Interval at which the remaining clients are counted.
const LOOK: Duration = Duration::from_millis(20);

/// Announces to clients that have asked for notices of maintenance that they are to go, and shuts down when they have gone or
/// the time is over.
pub(super) fn begin(call: &mut Call<'_>) -> Result<()> {
    let address = call.args.bytes()?;
    let seconds = match call.args.next_arg() {
        None => SECONDS,
        Some(word) => parse_int(word)
            .filter(|seconds| (0..=SECONDS_MAX).contains(seconds))
            .ok_or_else(|| Error::other(format!("the time for SHUTDOWN DRAIN is from 0 to {SECONDS_MAX} seconds")))?,
    };
    if call.args.left() > 0 {
        return Err(Error::Syntax);
    }
    if !MaintenanceNotice::is_address(address) {
        return Err(Error::other("SHUTDOWN DRAIN needs the address that clients go to, as host:port"));
    }
    let (namespace, now) = (call.namespace, call.now());
    let notice = MaintenanceNotice::Moving { seconds, address: Some(address.into()) };
    namespace.push.maintenance.drain(notice, &namespace.clients.all(), (call.config, now));
    let until_ms = now.mono_ms().saturating_add(seconds.unsigned_abs() * 1000);
    let shown = namespace.clients.block(&call.caller.info, Blocking::Pause, NEVER);
    call.continue_with(Draining { until_ms, stage: DrainStage::Leaving, _shown: shown })
}

/// The event that is waited for.
enum DrainStage {
    /// Clients leave.
    Leaving,
    /// The server ends.
    Stopping(CancellationToken),
    /// Nothing more comes.
    Stopped,
}

/// The continuation of SHUTDOWN DRAIN, with a reply only to failures.
struct Draining {
    until_ms: u64,
    stage: DrainStage,
    /// The registration that shows the client as blocked.
    _shown: Blocked,
}

impl Continuation for Draining {
    fn wait(&mut self) -> Wait<'_> {
        match &self.stage {
            DrainStage::Leaving => Wait::Work(Box::pin(tokio::time::sleep(LOOK))),
            DrainStage::Stopping(goes_on) => Wait::Work(Box::pin(goes_on.cancelled())),
            DrainStage::Stopped => Wait::Work(Box::pin(std::future::pending())),
        }
    }

    fn step(&mut self, env: Env<'_>, view: &mut View<'_>, _: &mut Reply<'_>, _: Unblocked) -> Result<bool> {
        let namespace = env.namespace;
        if !matches!(self.stage, DrainStage::Leaving) {
            namespace.push.maintenance.stay();
            return Err(shutdown::failed());
        }
        let is_staying = |client: &ClientInfo| client.flags.notices() != NoticeMode::Off;
        let is_over = view.now().mono_ms() >= self.until_ms;
        if !is_over && namespace.clients.all().iter().any(|client| is_staying(client)) {
            return Ok(false);
        }
        self.stage = match namespace.shut_down(ShutdownOptions::default()) {
            Shutdown::Refused => {
                namespace.push.maintenance.stay();
                return Err(shutdown::failed());
            }
            Shutdown::Waiting(goes_on) => DrainStage::Stopping(goes_on),
            Shutdown::Begun => DrainStage::Stopped,
        };
        Ok(false)
    }

    fn needs_no_keys(&self) -> bool {
        true
    }
}
