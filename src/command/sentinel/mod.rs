//! SENTINEL: what the sentinels of a topology in test mode are asked and told. Their state machine answers.

use crate::command::topology::perform;
use crate::dispatch::args::is_word;
use crate::dispatch::call::Handler;
use crate::dispatch::routing::reached_host;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::namespace::member::{Operation, Question};
use crate::spec::marks::OF_SENTINEL;
use crate::spec::{ADMIN, Arg, Flags, Group, ONLY_SENTINEL, block, integer, one_of, string, token};

const ASK: Flags = ADMIN | ONLY_SENTINEL;
const NAME: Arg = string("master-name");
const PER_MASTER: &str = "O(N) where N is the number of monitored masters";
const PER_REPLICA: &str = "O(N) where N is the number of replicas";
const PER_SENTINEL: &str = "O(N) where N is the number of Sentinels";
const PER_INSTANCE: &str = "O(N) where N is the number of instances";
const PER_PARAMETER: &str = "O(N) where N is the number of configuration parameters";

const OPTIONS: Arg = block("data", &[string("option"), string("value")]);
const PARAMETERS: Arg = block("data", &[string("parameter"), string("value")]);
const FAILURES: Arg = one_of(
    "mode",
    &[
        token("crash-after-election", "crash-after-election"),
        token("crash-after-promotion", "crash-after-promotion"),
        token("help", "help"),
    ],
);

/// Declares a subcommand of SENTINEL.
const fn sub(name: &'static str, handler: Handler, args: &'static [Arg]) -> Command {
    Command::new(name, handler, ASK, Group::Sentinel).args(args)
}

#[rustfmt::skip] // every row has its name, its arguments and its docs on a line or two
pub(crate) const COMMANDS: &[Command] = &[
    Command::container("SENTINEL", Group::Sentinel, &[
        sub("CKQUORUM", |call| ask(call, Question::CheckQuorum), &[NAME]).docs("2.8.4", "O(1)", "Checks for a Sentinel quorum."),
        sub("CONFIG", config, &[one_of("action", &[
            block("set", &[token("set", "SET"), PARAMETERS.multiple()]),
            block("get", &[token("get", "GET"), string("parameter").multiple()]),
        ])]).arity(-3).docs("6.2.0", PER_PARAMETER, "Configures a Sentinel."),
        sub("DEBUG", |call| ask(call, Question::Debug), &[PARAMETERS.optional().multiple()]).docs("7.0.0", PER_PARAMETER, "Lists or changes the intervals of a Sentinel."),
        sub("FAILOVER", |call| ask(call, Question::Failover), &[NAME]).docs("2.8.4", "O(1)", "Forces a failover."),
        sub("FLUSHCONFIG", |call| ask(call, Question::FlushConfig), &[]).docs("2.8.4", "O(1)", "Rewrites the configuration of a Sentinel."),
        sub("GET-MASTER-ADDR-BY-NAME", |call| ask(call, Question::Address), &[NAME]).docs("2.8.4", "O(1)", "Returns the address of a master."),
        sub("HELP", |call| ask(call, Question::Help), &[]).docs("6.2.0", "O(1)", "Describes the subcommands."),
        sub("INFO-CACHE", |call| ask(call, Question::InfoCache), &[string("nodename").multiple()]).docs("3.2.0", PER_INSTANCE, "Returns the INFO texts that a Sentinel has of its instances."),
        sub("IS-MASTER-DOWN-BY-ADDR", |call| ask(call, Question::IsDown), &[string("ip"), integer("port"), integer("current-epoch"), string("runid")])
            .docs("2.8.4", "O(1)", "Tells if a master is down, and votes."),
        sub("MASTER", |call| ask(call, Question::Master), &[NAME]).docs("2.8.4", "O(1)", "Returns the state of a master."),
        sub("MASTERS", |call| ask(call, Question::Masters), &[]).docs("2.8.4", PER_MASTER, "Returns the states of all monitored masters."),
        sub("MONITOR", |call| ask(call, Question::Monitor), &[string("name"), string("ip"), integer("port"), integer("quorum")])
            .docs("2.8.4", "O(1)", "Begins to monitor a master."),
        sub("MYID", |call| ask(call, Question::Id), &[]).docs("6.2.0", "O(1)", "Returns the id of a Sentinel."),
        sub("PENDING-SCRIPTS", |call| ask(call, Question::PendingScripts), &[]).docs("2.8.4", "O(1)", "Lists the scripts that wait or run."),
        sub("REMOVE", |call| ask(call, Question::Remove), &[NAME]).docs("2.8.4", "O(1)", "Ends the monitoring of a master."),
        sub("REPLICAS", |call| ask(call, Question::Replicas), &[NAME]).docs("5.0.0", PER_REPLICA, "Returns the states of a master's replicas."),
        sub("RESET", |call| ask(call, Question::Reset), &[string("pattern")]).docs("2.8.4", PER_MASTER, "Forgets what a Sentinel knows of matching masters."),
        sub("SENTINELS", |call| ask(call, Question::Sentinels), &[NAME]).docs("2.8.4", PER_SENTINEL, "Returns the states of the other Sentinels of a master."),
        sub("SET", |call| ask(call, Question::Set), &[NAME, OPTIONS.multiple()]).docs("2.8.4", "O(1)", "Changes the settings of a monitored master."),
        sub("SIMULATE-FAILURE", |call| ask(call, Question::SimulateFailure), &[FAILURES.multiple()]).docs("3.2.0", "O(1)", "Simulates failures of a Sentinel."),
        sub("SLAVES", |call| ask(call, Question::Replicas), &[NAME]).deprecated("5.0.0", "`SENTINEL REPLICAS`").docs("2.8.0", PER_REPLICA, "Returns the states of a master's replicas."),
    ])
    .marks(OF_SENTINEL)
    .docs("2.8.4", "Depends on subcommand.", "Contains the Sentinel subcommands."),
];

fn ask(call: &mut Call<'_>, question: Question) -> Result<()> {
    let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    let words: Vec<String> = call.args.rest().map(text).collect();
    forward(call, question, words)
}

fn config(call: &mut Call<'_>) -> Result<()> {
    let (action, left) = (call.args.request().arg(2), call.args.left());
    let is_valid = is_word(action, "GET") && left > 1 || is_word(action, "SET") && left > 2 && left % 2 == 1;
    if !is_valid {
        let text = "Only SENTINEL CONFIG GET <option> / SET <option> <value> are supported.";
        return Err(Error::other(text));
    }
    ask(call, Question::Config)
}

/// Has the sentinel of the caller answer a question with its arguments.
///
/// # Errors
/// If the caller is not at a sentinel.
pub(crate) fn forward(call: &mut Call<'_>, question: Question, words: Vec<String>) -> Result<()> {
    let at = call.namespace.member().and_then(|member| Some((member.number, member.topology()?)));
    let (at, topology) = at.ok_or(Error::other("this sentinel has ended"))?;
    let announced = call.config.cluster_announce_ip.as_deref().map(|ip| String::from_utf8_lossy(ip).into_owned());
    let host = announced.unwrap_or_else(|| reached_host(call.caller).into());
    perform(call, topology, Operation::Sentinel { at, question, words, host })
}
