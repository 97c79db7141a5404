//! The mask of closed commands and the list of checks: in any state of server and client, both decide the same for every
//! command.

use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tokio_util::codec::Decoder;

use crate::client::info::Peer;
use crate::client::session::Client;
use crate::command::test_mode::handlers;
use crate::config::Config;
use crate::dispatch::Env;
use crate::dispatch::batch::BatchRun;
use crate::dispatch::batch::probe::Fate;
use crate::dispatch::checks::{
    Admission, CheckRow, EXEC_CHECKS, SCRIPT_CHECKS, ScriptLimits, closed_in_exec, closed_to_script, is_open,
};
use crate::dispatch::plan::Plan;
use crate::namespace::Namespace;
use crate::persist::LogFigures;
use crate::resp::{Codec, Output, RequestBuffer, RequestLimits};
use crate::spec::CommandSpec;
use crate::time::clock::Clock;

/// A step that changes the state of server or client.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A request of the client.
    Own(&'static str),
    /// A request of another client.
    Others(&'static str),
    /// A new client replaces the present one.
    Connects,
    /// The server has restarted after a crash.
    Restarts,
    /// Data is being loaded.
    Loads,
    /// Data is being loaded beside the present data set.
    LoadsBeside,
    /// The last snapshot could not be saved.
    FailsToSave,
    /// The append-only file cannot be written.
    FailsToLog,
    /// A script keeps the store busy.
    IsBusy,
}

const STEPS: &[Step] = &[
    Step::Own("MULTI"),
    Step::Own("MULTI"),
    Step::Own("SET 1 1"),
    Step::Own("GET 1"),
    Step::Own("EVAL #!lua\u{a0}flags=no-writes\n 0"),
    Step::Own("SUBSCRIBE 1"),
    Step::Own("HELLO 2"),
    Step::Own("HELLO 3"),
    Step::Own("AUTH limited 1"),
    Step::Own("AUTH mighty 1"),
    Step::Own("MONITOR"),
    Step::Own("CLIENT TRACKING ON"),
    Step::Own("CLIENT REPLY OFF"),
    Step::Own("CLIENT REPLY SKIP"),
    Step::Own("CLIENT NO-TOUCH ON"),
    Step::Own("WATCH 1"),
    Step::Own("RESET"),
    Step::Others("CLIENT PAUSE 100000 WRITE"),
    Step::Others("CLIENT PAUSE 100000 ALL"),
    Step::Others("CONFIG SET maxmemory 1"),
    Step::Others("CONFIG SET min-replicas-to-write 1"),
    Step::Others("ACL SETUSER limited on nopass ~1 +@all -@dangerous"),
    Step::Others("ACL SETUSER mighty on nopass ~* &* +@all"),
    Step::Others("ACL SETUSER default >1"),
    Step::Others("TEST.FAULT ADD GET ERROR 1"),
    Step::Others("TEST.FAULT ADD * DROP"),
    Step::Others("LOCK.ACQUIRE 1 1 PX 100000"),
    Step::Others("LOCK.ACQUIRE 1 2 PX 100000 BLOCK 0"),
    Step::Connects,
    Step::Restarts,
    Step::Loads,
    Step::LoadsBeside,
    Step::FailsToSave,
    Step::FailsToLog,
    Step::IsBusy,
];

/// Scripts by their declaration, which decides if they may write, independently of their command.
const SCRIPTS: &[[&str; 3]] = &[
    ["EVAL", "#!lua\n", "0"],
    ["EVAL", "#!lua flags=no-writes\n", "0"],
    ["EVAL_RO", "#!lua\n", "0"],
    ["EVAL_RO", "#!lua flags=no-writes\n", "0"],
];

fn namespace(is_test_mode: bool, is_private: bool) -> Namespace {
    let commands = &handlers().commands;
    let mut config = Config::default();
    config.test_mode = is_test_mode;
    let main = Namespace::for_test(commands, config, Clock::manual());
    if is_private { Namespace::new_private(&main, b"private", Clock::manual()) } else { main }
}

fn connect(namespace: &Namespace) -> Client {
    let peer = Peer { addr: "probe:0".into(), laddr: "probe:0".into(), fd: -1, is_unix: true };
    let info = namespace.clients.admit(peer, namespace.clock.now(), usize::MAX).expect("there is room");
    Client::new(info, &namespace.acl)
}

/// Calls `act` with a batch of a client that has applied all changes of users and settings.
fn with_batch<T>(
    namespace: &Namespace,
    client: &mut Client,
    act: impl FnOnce(BatchRun<'_>, &mut Client, Env<'_>) -> T,
) -> T {
    let generation = namespace.store.generation();
    client.caller.follow_users(&namespace.acl);
    Env::with_present(namespace, handlers(), client.caller.info.id, |env| {
        let mut run = BatchRun::new(env, generation, client);
        run.set_up_extra_work(client);
        act(run, client, env)
    })
}

/// Executes a request and ignores its result; a no-break space stands for a space in an argument.
fn execute(namespace: &Namespace, client: &mut Client, line: &str) {
    let words: Vec<String> = line.split(' ').map(|word| word.replace('\u{a0}', " ")).collect();
    let mut text = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| text += &format!("${}\r\n{word}\r\n", word.len()));
    let mut codec = Codec::new(RequestLimits { bulk_len_max: usize::MAX >> 1, authenticated: true });
    let batch = codec.decode(&mut BytesMut::from(text.as_bytes())).expect("a request").expect("all of it");
    with_batch(namespace, client, |mut run, client, _| {
        let (mut plan, mut out) = (Plan::default(), Output::new());
        run.plan(&batch, 0, client.caller.db, &mut plan);
        drop(run.execute(client, plan.of(&batch, 0), &mut 0, &mut out));
    });
}

/// Returns requests of every command: with as many arguments as it needs, which are also numbers of keys, one more, and
/// one fewer; scripts with each declaration.
fn requests() -> Vec<RequestBuffer> {
    let of_words = |words: &[&str]| {
        let mut request = RequestBuffer::default();
        words.iter().for_each(|word| request.push(word.as_bytes()));
        request
    };
    let of_command = |command: &CommandSpec| {
        let name: Vec<&str> = command.name.split('|').collect();
        let least = (command.arity.unsigned_abs() as usize).max(name.len());
        let with = |len: usize, filler| [name.clone(), vec![filler; len.saturating_sub(name.len())]].concat();
        [with(least, "1"), with(least, "2"), with(least + 1, "1"), with(least - 1, "1")].map(|words| of_words(&words))
    };
    let commands = handlers().commands.every().flat_map(of_command);
    commands.chain(SCRIPTS.iter().map(|words| of_words(words))).chain([of_words(&["unknown", "1"])]).collect()
}

/// Checks that a nested call that the mask admits is also admitted by the list of checks.
fn compare_nested(env: Env<'_>, client: &Client, limits: ScriptLimits, requests: &[RequestBuffer]) {
    let Env { namespace, config, .. } = env;
    let (caller, now) = (&client.caller, namespace.clock.now());
    for request in requests.iter().filter_map(RequestBuffer::as_request) {
        let Some(command) = crate::dispatch::plan::find(request, namespace.names(config)) else { continue };
        let is_allowed = |script, checks: &[CheckRow]| {
            let session = Some(&client.session);
            let admission = Admission { namespace, config, caller, session, command, request, now, script };
            admission.obstacle(checks).is_none()
        };
        if is_open(closed_to_script(namespace, caller, limits), command, request) {
            assert!(is_allowed(Some(limits), &SCRIPT_CHECKS), "{request:?} of a script with {limits:?}");
        }
        if command.flags & closed_in_exec(caller) == 0 && command.accepts(request.len()) {
            assert!(is_allowed(None, &EXEC_CHECKS), "{request:?} in EXEC");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn the_mask_lets_no_call_pass_of_which_the_whole_list_says_something_else(
        (is_test_mode, is_private) in (prop::bool::weighted(0.15), prop::bool::weighted(0.1)),
        steps in vec(select(STEPS), 0..7),
        (is_read_only, lacks_memory) in any::<(bool, bool)>(),
    ) {
        let (namespace, requests) = (namespace(is_test_mode, is_private), requests());
        let (mut client, mut is_busy) = (connect(&namespace), false);
        for step in &steps {
            match step {
                Step::Own(line) => execute(&namespace, &mut client, line),
                Step::Others(line) => execute(&namespace, &mut connect(&namespace), line),
                Step::Connects => client = connect(&namespace),
                Step::Restarts => namespace.restrictions.begin_grace(100_000, namespace.clock.now()),
                Step::Loads => namespace.set_loading(true),
                Step::LoadsBeside => namespace.set_loading_beside(true),
                Step::FailsToSave => {
                    namespace.persistence.update(|figures| figures.saves.error = Some("full".into()));
                    namespace.follow_files();
                }
                Step::FailsToLog => {
                    let log = LogFigures { error: Some("full".into()), ..LogFigures::default() };
                    namespace.persistence.update(|figures| figures.log = Some(log));
                    namespace.follow_files();
                }
                Step::IsBusy => is_busy = true,
            }
        }
        let script = is_busy.then(|| namespace.store.exclusive());
        if script.is_some() {
            namespace.store.busy_flag().stay();
        }
        with_batch(&namespace, &mut client, |mut run, client, env| {
            for request in requests.iter().filter_map(RequestBuffer::as_request) {
                if let (Some(masked), whole) = run.fates(client, request) {
                    assert_eq!(masked, whole, "{request:?}");
                }
            }
            compare_nested(env, client, ScriptLimits { is_read_only, lacks_memory, crosses_slots: false, presence: (0, 0), takes_any_key: true, undeclared: None }, &requests);
        });
    }
}

#[test]
fn a_plain_client_of_a_plain_server_is_not_examined() {
    let namespace = namespace(false, false);
    with_batch(&namespace, &mut connect(&namespace), |mut run, client, _| {
        for request in requests().iter().filter_map(RequestBuffer::as_request) {
            let (masked, whole) = run.fates(client, request);
            assert_eq!(masked.is_some(), whole == Fate::Executed, "{request:?}");
        }
    });
}
