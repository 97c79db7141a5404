//! A call: all that a handler may use, what it may leave to do after it, and calls nested in it.

use crate::client::outbox::PUSHED;
use crate::client::session::{Replies, Session};
use crate::command::keys::migrate::Migration;
use crate::config::{Allowance, Config};
use crate::dispatch::turn::run;
use crate::dispatch::{Args, Handlers};
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::observe::CallTimer;
use crate::resp::{Output, Reply, Request};
use crate::spec::Names;
use crate::spec::registry::{CommandSpec, Hashes};
use crate::store::View;
use crate::time::clock::Now;

/// Gives a handler all it may use.
pub struct Call<'a> {
    /// The words after the command's name.
    pub args: Args<'a>,
    /// The locked keys.
    pub view: View<'a>,
    /// Where the reply goes.
    pub reply: Reply<'a>,
    /// The client's state.
    pub session: &'a mut Session,
    /// The instance.
    pub namespace: &'a Namespace,
    /// What carries out the calls nested in it.
    pub(crate) handlers: &'static Handlers,
    /// The settings in force.
    pub config: &'a Config,
    /// The command being carried out.
    pub command: &'static CommandSpec,
    /// Measures this turn.
    pub timer: &'a CallTimer<'a>,
    /// What the counter stood at when the time of this call was read.
    pub(crate) read_at: u64,
    pub(crate) deferred: Option<&'a mut Deferred>,
}

/// Holds what is left to do, by the connection, after a request and before the next.
pub(crate) type Deferred = Option<Later>;

/// Says what is left to do.
pub enum Later {
    /// The rest of a long command after its first slice.
    Slices(Box<dyn Incremental>),
    /// To go on in another turn, because what is asked once in a turn has changed.
    NewTurn,
    /// To come back to the same request, which was not carried out, when the server is no longer paused.
    Pause,
    /// To wait, and then to reply.
    Wait(Wait),
    /// To take keys to another server, and then to reply.
    Move(Box<Migration>),
}

/// Describes a wait for what does not come: only time, or CLIENT UNBLOCK, ends it.
pub struct Wait {
    /// Until when, in monotonic milliseconds.
    pub until_ms: u64,
    /// What is replied then.
    pub reply: fn(&mut Reply<'_>),
}

/// Cuts a long command into slices, between which other clients are served.
pub trait Incremental: Send {
    /// Does about a millisecond's worth of work. Returns whether it has finished, having written the reply then.
    fn step(&mut self, view: &mut View<'_>, reply: &mut Reply<'_>) -> bool;

    /// Returns why the command has failed, if it has, and no reply was written.
    fn failure(&self) -> Option<&Error> {
        None
    }
}

impl Call<'_> {
    /// Returns the time of this call.
    pub fn now(&self) -> Now {
        self.view.now()
    }

    /// Returns the present time, from which relative times to live count. The time of the call is up to
    /// a tenth of a millisecond old, and stands still inside EXEC and scripts.
    pub fn present(&self) -> Now {
        match self.is_nested() {
            true => self.namespace.clock.now(),
            false => self.now().later_by_us(self.timer.ns_since(self.read_at).saturating_add(999) / 1000),
        }
    }

    /// Returns the command's lower-case name, for error texts.
    pub fn name(&self) -> &'static str {
        &self.command.name
    }

    /// Returns the names by which commands go here.
    pub fn names(&self) -> Names<'_> {
        self.namespace.names(self.config)
    }

    /// Returns the longest string a client may make, in bytes.
    pub fn bulk_len_max(&self) -> usize {
        self.config.proto_max_bulk_len
    }

    /// Checks that this client may call DEBUG or MODULE, of which the settings say who may.
    ///
    /// # Errors
    /// [`Error::NotAllowed`] with the name.
    pub fn check_allowed(&self, command: &'static str, who: Allowance) -> Result<()> {
        match who.allows(self.session.info.is_local()) {
            true => Ok(()),
            false => Err(Error::NotAllowed(command)),
        }
    }

    /// Returns whether EXEC carries out this command; only for commands that do not hold the whole store themselves.
    pub fn is_inside_exec(&self) -> bool {
        self.deferred.is_none()
    }

    /// Runs a long task in slices: the first at once, the rest after this call with the gate released in between.
    /// Inside EXEC, which is atomic, all slices run at once.
    pub fn run_sliced(&mut self, mut task: impl Incremental + 'static) {
        while !task.step(&mut self.view, &mut self.reply) {
            if let Some(deferred) = &mut self.deferred {
                **deferred = Some(Later::Slices(Box::new(task)));
                return;
            }
        }
    }

    /// Lets the next request begin another turn: this call changes what is asked once in a turn, see
    /// [`Session::is_restrained`].
    pub fn end_turn(&mut self) {
        match &mut self.deferred {
            Some(deferred) => **deferred = Some(Later::NewTurn),
            None => self.session.turn_is_over = true,
        }
    }

    /// Blocks the client until a time, and replies then; inside EXEC, which does not wait, it replies at once.
    pub fn wait(&mut self, wait: Wait) {
        match &mut self.deferred {
            Some(deferred) => **deferred = Some(Later::Wait(wait)),
            None => (wait.reply)(&mut self.reply),
        }
    }

    /// Leaves the rest, and the reply, to the connection; not for calls that are nested.
    pub fn leave(&mut self, later: Later) {
        if let Some(deferred) = &mut self.deferred {
            **deferred = Some(later);
        }
    }

    /// Writes what others have left for the client so far before the reply. Inside EXEC, whose reply must stay one, it
    /// comes after that.
    pub fn take_pushed(&mut self) {
        if !self.is_nested() {
            self.take_pushed_first();
        }
    }

    /// Does what [`Call::take_pushed`] does, before the reply of a call that others are nested in.
    pub fn take_pushed_first(&mut self) {
        let outbox = &self.session.info.outbox;
        if self.session.replies == Replies::On && outbox.signals() & PUSHED != 0 {
            outbox.take_into(self.reply.output(), usize::MAX);
        }
    }

    /// Returns whether the call is one of several whose replies are one, as inside EXEC.
    pub fn is_nested(&self) -> bool {
        self.deferred.is_none()
    }

    /// Carries out another command with the same powers; only for calls that hold the whole store.
    pub fn nested(&mut self, command: &'static CommandSpec, request: Request<'_>) {
        let Call { view, reply, session, namespace, handlers, config, timer, .. } = self;
        nested(view, session, (namespace, handlers, config, timer), command, request, reply.output());
    }

    /// Carries out another command, whose reply goes elsewhere; only for calls that hold the whole store.
    #[cfg(feature = "lua")]
    pub fn nested_into(&mut self, command: &'static CommandSpec, request: Request<'_>, out: &mut Output) {
        let Call { view, session, namespace, handlers, config, timer, .. } = self;
        nested(view, session, (namespace, handlers, config, timer), command, request, out);
    }

    /// Has it looked at anew which calls somebody wants to know of, this one included.
    pub fn note_interest(&self) {
        self.timer.set_interest(0, self.config.latency_tracking);
    }
}

fn nested(
    view: &mut View<'_>,
    session: &mut Session,
    (namespace, handlers, config, timer): (&Namespace, &'static Handlers, &Config, &CallTimer<'_>),
    command: &'static CommandSpec,
    request: Request<'_>,
    out: &mut Output,
) {
    let (db, protocol) = (session.db, session.protocol);
    let mut hashes = Hashes::new();
    command.hash_keys(request, &namespace.store, &mut hashes);
    let is_silent = session.info.is_silent();
    let mut call = Call {
        args: Args::new(request, command.name_words, &hashes),
        view: view.whole_again(db),
        reply: Reply::new(out, protocol),
        session,
        namespace,
        handlers,
        config,
        command,
        timer,
        read_at: 0, // a nested call asks the clock
        deferred: None,
    };
    if is_silent {
        call.view.set_silent();
    }
    run(&mut call);
}
