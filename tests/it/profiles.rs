//! Profiles: the server answers as a service or a version does.
//!
//! The reports are of people whose tests had passed with a server of their own: each call succeeds without the profile, and
//! fails under it as it did in production.

use keylatch::Clock;

use crate::harness::{Client, TestServer};
use crate::tidy::root;

/// Calls of a report; the last one is that which failed.
type Calls = &'static [&'static [&'static str]];

/// Makes the calls; returns the last reply.
fn last_reply(client: &mut Client, calls: Calls) -> String {
    calls.iter().map(|call| client.call_args(call)).last().expect("a call")
}

/// Checks that calls succeed without a profile and that the last one gets this error under it, and that the page has the
/// report.
fn check(link: &str, profile: &str, calls: Calls, error: &str) {
    let reply = last_reply(&mut TestServer::start().client(), calls);
    assert!(!reply.starts_with('-'), "without the profile: {reply}");
    let reply = last_reply(&mut TestServer::start_with(&[("profile", profile)]).client(), calls);
    assert_eq!(reply, format!("-{error}"), "under {profile}");
    let page = std::fs::read_to_string(root().join("docs/PROFILES.md")).expect("the page");
    assert!(page.contains(&format!("({link})")), "docs/PROFILES.md does not have {link}");
}

macro_rules! reports {
    ($($name:ident: $link:literal, $profile:literal, [$($call:expr),+ $(,)?], $error:literal;)+) => { $(
        #[test]
        fn $name() {
            check($link, $profile, &[$(&$call),+], $error);
        }
    )+ };
}

reports! {
    hexpire_is_newer_than_redis_6_2: "https://github.com/redis/go-redis/issues/3352", "redis-6.2",
        [["HSET", "exampleHash", "field1", "value1"], ["HEXPIRE", "exampleHash", "40", "FIELDS", "1", "field1"]],
        "ERR unknown command `HEXPIRE`, with args beginning with: `exampleHash`, `40`, `FIELDS`, `1`, `field1`, ";
    expire_nx_is_newer_than_redis_6_2: "https://github.com/redis/go-redis/issues/2332", "redis-6.2",
        [["SET", "k", "v"], ["EXPIRE", "k", "10", "NX"]],
        "ERR wrong number of arguments for 'expire' command";
    client_setinfo_is_newer_than_redis_6_2: "https://github.com/redis/go-redis/issues/2910", "redis-6.2",
        [["CLIENT", "setinfo", "LIB-NAME", "go-redis"]],
        "ERR Unknown subcommand or wrong number of arguments for 'setinfo'. Try CLIENT HELP.";
    getdel_is_newer_than_azure_cache: "https://github.com/chirpstack/chirpstack/issues/680", "azure-cache",
        [["SET", "frame:1", "x"], ["GETDEL", "frame:1"]],
        "ERR unknown command `GETDEL`, with args beginning with: `frame:1`, ";
    azure_cache_has_no_config: "https://github.com/hhyo/Archery/issues/1451", "azure-cache",
        [["CONFIG", "GET", "databases"]],
        "ERR unknown command `CONFIG`, with args beginning with: `GET`, `databases`, ";
    azure_cache_has_no_modules: "https://github.com/ruoccofabrizio/azure-open-ai-embeddings-qna/issues/90", "azure-cache",
        [["MODULE", "LIST"]],
        "ERR unknown command `MODULE`, with args beginning with: `LIST`, ";
    azure_managed_redis_has_one_database: "https://github.com/onyx-dot-app/onyx/pull/14200", "azure-managed-redis",
        [["SELECT", "1"]],
        "ERR DB index is out of range";
    elasticache_does_not_show_settings: "https://github.com/mozilla/sccache/issues/598", "elasticache",
        [["CONFIG", "GET", "maxmemory"]],
        "ERR unknown command 'CONFIG', with args beginning with: 'GET' 'maxmemory' ";
    elasticache_does_not_change_settings: "https://github.com/lykmapipo/kue-scheduler/issues/83", "elasticache",
        [["config", "SET", "notify-keyspace-events", "Ex"]],
        "ERR unknown command 'config', with args beginning with: 'SET' 'notify-keyspace-events' 'Ex' ";
    serverless_has_no_keys: "https://github.com/langfuse/langfuse/issues/9443", "elasticache-serverless",
        [["keys", "{model-match}:default:*"]],
        "ERR unknown command 'keys', with args beginning with: {model-match}:default:*";
    serverless_has_no_memory_usage: "https://github.com/redis/jedis/issues/3766", "elasticache-serverless",
        [["SET", "k", "v"], ["MEMORY", "USAGE", "k"]],
        "ERR unknown command 'memory', with args beginning with: USAGE";
    serverless_has_no_latency: "https://github.com/oliver006/redis_exporter/issues/1054", "elasticache-serverless",
        [["LATENCY", "LATEST"]],
        "ERR unknown command 'latency', with args beginning with: LATEST";
    serverless_has_slots: "https://github.com/langfuse/langfuse/issues/5906", "elasticache-serverless",
        [["MSET", "bull:a:wait", "1", "bull:b:wait", "2"]],
        "CROSSSLOT Keys in request don't hash to the same slot";
    serverless_has_one_database:
        "https://repost.aws/questions/QUXz_Eoe5bTvGs7mzEOkRxNw/trouble-with-integration-amazon-elasticache-err-select-is-not-allowed-in-cluster-mode",
        "elasticache-serverless",
        [["SELECT", "1"]],
        "ERR SELECT is not allowed in cluster mode";
    memorystore_does_not_show_settings: "https://github.com/spring-projects/spring-data-redis/issues/3151", "memorystore",
        [["CONFIG", "GET", "notify-keyspace-events"]],
        "ERR unknown command 'CONFIG', with args beginning with: 'GET' 'notify-keyspace-events' ";
    memorystore_cluster_does_not_change_settings: "https://github.com/platformatic/undici-cache-redis/pull/26",
        "memorystore-cluster",
        [["CONFIG", "SET", "notify-keyspace-events", "KEA"]],
        "NOPERM User default has no permissions to run the 'config|set' command";
}

#[cfg(feature = "lua")]
reports! {
    azure_managed_redis_has_slots: "https://github.com/BerriAI/litellm/issues/30065", "azure-managed-redis",
        [["EVAL", "return 1", "2", "{team:1}:max", "{team:2}:max"]],
        "CROSSSLOT Keys in request don't hash to the same slot (context='', command='eval', original-slot='966', \
         wrong-slot='13221', first-key='{team:1}:max', violating-key='{team:2}:max')";
    serverless_wants_keys_of_scripts: "https://github.com/django/channels_redis/issues/379", "elasticache-serverless",
        [["EVAL", "return 'Hello World'", "0"]],
        "ERR Lua scripts without any input keys are not supported.";
    serverless_takes_no_scripts_in_transactions: "https://github.com/taskforcesh/bullmq/issues/2787",
        "elasticache-serverless",
        [["MULTI"], ["HMSET", "{bullMQ}:1", "a", "1"], ["EVAL", "return 1", "1", "{bullMQ}:1"]],
        "ERR command not supported inside transaction";
    memorydb_has_slots: "https://github.com/taskforcesh/bullmq/issues/2216", "memorydb",
        [["EVAL", "return 1", "2", "bull:q:wait", "bull:q:paused"]],
        "CROSSSLOT Keys in request don't hash to the same slot";
    dragonfly_wants_all_keys_of_scripts: "https://github.com/taskforcesh/bullmq/issues/3760", "dragonfly",
        [["EVAL", "return redis.call('EXISTS', ARGV[1])", "1", "k", "q:id"]],
        "ERR script tried accessing undeclared key, key: q:id script: b4c540be00bba23b050d55b674a3b021b3eb8ba8, on @user_script:1.";
}

/// Starts a server in test mode; the other clients have private instances of their own.
fn in_test_mode() -> TestServer {
    TestServer::start_on(Clock::system(), &[("test-mode", "yes")])
}

fn under(profile: &str) -> (TestServer, Client) {
    let server = TestServer::start_with(&[("profile", profile)]);
    let client = server.client();
    (server, client)
}

/// Sets no profile.
fn leave(client: &mut Client) {
    assert_eq!(client.call_args(&["CONFIG", "SET", "profile", ""]), "+OK");
}

/// Returns whether COMMAND has a command.
fn has(client: &mut Client, command: &str) -> bool {
    !["*1 *-1", "*1 $-1"].contains(&&*client.call_args(&["COMMAND", "INFO", command]))
}

#[test]
fn commands_newer_than_a_version_are_gone_from_command_docs_and_help() {
    let first: [(&str, &str, &str, &str); 8] = [
        ("redis-6.2", "COPY", "LMPOP", "FUNCTION"),
        ("redis-7.2", "FUNCTION", "HEXPIRE", "VADD"),
        ("redis-7.4", "HEXPIRE", "HGETEX", "JSON.SET"),
        ("redis-8.0", "VADD", "DELEX", "XNACK"),
        ("redis-8.4", "MSETEX", "XNACK", "COMMANDLOG"),
        ("valkey-7.2", "FUNCTION", "COMMANDLOG", "HEXPIRE"),
        ("valkey-8.1", "COMMANDLOG", "HEXPIRE", "DELIFEQ"),
        ("valkey-9.0", "HEXPIRE", "HGETDEL", "VADD"),
    ];
    for (profile, present, absent, other) in first {
        let (_server, mut client) = under(profile);
        assert!(has(&mut client, present), "{profile}: {present}");
        for absent in [absent, other, "LOCK.ACQUIRE"] {
            assert!(!has(&mut client, absent), "{profile}: {absent}");
            let has_docs = profile != "redis-6.2";
            assert!(!has_docs || client.call_args(&["COMMAND", "DOCS", absent]) == "*0", "{profile}: {absent}");
            assert!(client.call_args(&[absent, "a"]).starts_with("-ERR unknown command"), "{profile}: {absent}");
        }
    }
    let (_server, mut client) = under("redis-6.2");
    let help = client.call("CLIENT HELP");
    assert!(help.contains("SETNAME") && !help.contains("SETINFO") && !help.contains("NO-TOUCH"), "{help}");
    assert!(client.call("COMMAND DOCS expire").starts_with("-ERR Unknown subcommand"));
    assert!(client.call("COMMAND INFO expire").starts_with("*1 *10 $6 expire :3 "));
    let counts =
        ["redis-6.2", "redis-7.2", "redis-8.4", "dragonfly"].map(|profile| under(profile).1.int("COMMAND COUNT"));
    assert!(counts[0] < counts[1] && counts[1] < counts[2] && counts[3] < counts[2], "{counts:?}");
}

#[test]
fn arguments_newer_than_a_version_are_unknown_and_values_that_look_like_them_are_not() {
    let (_server, mut client) = under("redis-7.2");
    client.expect(&[
        ("SET k IFEQ", "+OK"),
        ("SET k v IFEQ IFEQ", "-ERR syntax error"),
        ("SET k v", "+OK"),
        ("SET IFEQ IFEQ NX", "+OK"),
        ("HSET h f 1", ":1"),
        ("HSCAN h 0 NOVALUES", "-ERR syntax error"),
        ("HSCAN h 0 MATCH NOVALUES", "*2 $1 0 *0"),
        ("XADD s 1-1 acked 1", "$3 1-1"),
        ("XADD s ACKED 2-1 f 1", "-ERR Invalid stream ID specified as stream command argument"),
        ("ZUNION 2 a count", "*0"),
        ("ZUNION 2 a b WEIGHTS 1 2 AGGREGATE COUNT", "-ERR syntax error"),
        ("ZUNION 2 a b WEIGHTS 1 2 AGGREGATE MAX", "*0"),
        ("GEOSEARCH g FROMLONLAT 1 1 BYPOLYGON 3 1 1 2 2 1 2", "-ERR syntax error"),
        ("GEOSEARCH g FROMLONLAT 1 1 BYRADIUS 3 m", "*0"),
        ("BITOP DIFF d a b", "-ERR syntax error"),
        ("BITOP AND diff one andor", ":0"),
        ("ZADD z 1 a", ":1"),
        ("ZRANK z a WITHSCORE", "*2 :0 $1 1"),
        ("EXPIRE k 10 IFEQ IFEQ", "-ERR Unsupported option IFEQ"),
        ("EXPIRE k 10 NX", ":1"),
        ("XGROUP CREATE s CLAIM 0", "+OK"),
        ("XREADGROUP COUNT 1 GROUP CLAIM c STREAMS s 0", "*1 *2 $1 s *0"),
        ("XREADGROUP COUNT 1 GROUP g c CLAIM 1 STREAMS s >", "-ERR syntax error"),
        ("CLIENT KILL USER maxage", "-ERR No such user 'maxage'"),
        ("CLIENT KILL USER x MAXAGE 3", "-ERR syntax error"),
        ("MULTI", "+OK"),
        ("SET k w IFEQ v", "+QUEUED"),
        ("EXEC", "*1 -ERR syntax error"),
    ]);
    under("redis-8.4").1.expect(&[("SET k v", "+OK"), ("SET k w IFEQ v", "+OK")]);
    under("valkey-8.1").1.expect(&[
        ("SET k v", "+OK"),
        ("SET k w IFEQ v", "+OK"),
        ("SET k w IFNE v", "-ERR syntax error"),
    ]);
    under("redis-6.2").1.expect(&[
        ("ZADD z 1 a", ":1"),
        ("ZRANK z a WITHSCORE", "-ERR wrong number of arguments for 'zrank' command"),
        ("SET k a", "+OK"),
        ("BITPOS k 1 0 -1 BIT", "-ERR syntax error"),
    ]);
    under("azure-cache").1.expect(&[
        ("SET k a GET", "-ERR syntax error"),
        ("LPOP l 2", "-ERR wrong number of arguments for 'lpop' command"),
    ]);
}

#[test]
fn a_type_that_nobody_knows_is_refused_by_scan_since_redis_8_and_valkey_8() {
    for (profile, is_refused) in [
        ("redis-6.2", false),
        ("redis-7.2", false),
        ("redis-7.4", false),
        ("valkey-7.2", false),
        ("redis-8.0", true),
        ("valkey-8.1", true),
    ] {
        let (_server, mut client) = under(profile);
        let reply = if is_refused { "-ERR unknown type name 'nosuch'" } else { "*2 $1 0 *0" };
        client.expect(&[("SET k v", "+OK"), ("SCAN 0 TYPE nosuch", reply), ("SCAN 0 TYPE String", "*2 $1 0 *1 $1 k")]);
    }
}

#[test]
fn the_last_entry_of_a_stream_has_no_name_before_redis_7_4_and_valkey_8() {
    let invalid = "-ERR Invalid stream ID specified as stream command argument";
    for profile in ["redis-6.2", "redis-7.2", "valkey-7.2"] {
        let (_server, mut client) = under(profile);
        client.expect(&[
            ("XADD s 1-1 f v", "$3 1-1"),
            ("XGROUP CREATE s g 0", "+OK"),
            ("XREAD STREAMS s +", invalid),
            ("XREAD COUNT 1 STREAMS s none 0 +", invalid),
            ("XREADGROUP GROUP g c STREAMS s +", invalid),
            ("XREAD STREAMS s 0", "*1 *2 $1 s *1 *2 $3 1-1 *2 $1 f $1 v"),
        ]);
    }
    for profile in ["redis-7.4", "valkey-8.1"] {
        let (_server, mut client) = under(profile);
        client.expect(&[("XADD s 1-1 f v", "$3 1-1"), ("XREAD STREAMS s +", "*1 *2 $1 s *1 *2 $3 1-1 *2 $1 f $1 v")]);
        let reply = client.call("XREADGROUP GROUP g c STREAMS s +");
        assert!(reply.starts_with("-NOGROUP"), "{reply}");
    }
}

#[test]
fn a_stream_without_an_id_is_refused_in_the_words_of_the_version() {
    let first = ["XREAD list", "XREAD list"];
    let named = ["'xread' list", "'xreadgroup' list"];
    for (profile, lists, ids) in [
        ("redis-6.2", first, ["ID or '$'", "ID or '$'"]),
        ("redis-7.2", named, ["ID or '$'", "ID or '>'"]),
        ("valkey-9.0", named, ["ID or '$'", "ID or '>'"]),
        ("redis-7.4", named, ["ID or '$'", "ID or '>'"]),
        ("redis-8.0", named, ["ID, '+', or '$'", "ID or '>'"]),
    ] {
        let (_server, mut client) = under(profile);
        for (at, call) in ["XREAD STREAMS a b 0", "XREADGROUP GROUP g c STREAMS a b >"].into_iter().enumerate() {
            let (list, id) = (lists[at], ids[at]);
            let error = format!("-ERR Unbalanced {list} of streams: for each stream key an {id} must be specified.");
            assert_eq!(client.call(call), error, "{profile}");
        }
    }
}

#[test]
fn rules_about_users_name_no_newer_commands() {
    let server = in_test_mode();
    let mut client = server.client();
    client.expect(&[("CONFIG SET profile redis-7.2", "+OK")]);
    let newer = [
        "+msetex",
        "-msetex",
        "+HEXPIRE",
        "+hget +hgetex",
        "(+msetex)",
        "(~* +get +msetex)",
        "+commandlog",
        "+commandlog|get",
        "+cluster|slot-stats",
        "-cluster|slot-stats",
        "+msetex|k",
        #[cfg(feature = "vectors")]
        "+vadd",
        "+json.get",
        "+lock.acquire",
        "+@lock",
        #[cfg(feature = "json")]
        "+@json",
        #[cfg(feature = "probabilistic")]
        "-@bloom",
    ];
    for rules in newer {
        let rule = if rules.starts_with('(') { rules } else { rules.rsplit(' ').next().expect("a rule") };
        let error = format!("-ERR Error in ACL SETUSER modifier '{rule}': Unknown command or category name in ACL");
        assert_eq!(client.call(&format!("ACL SETUSER u {rules}")), error);
    }
    // A first argument may be any word.
    for rules in [
        "+bitop|diff",
        "+client|no-touch",
        "+client|setinfo -client|setinfo",
        "+@all -@dangerous",
        "+test.calls",
        "+config",
    ] {
        assert_eq!(client.call(&format!("ACL SETUSER u {rules}")), "+OK");
    }
    leave(&mut client);
    for rules in newer {
        assert_eq!(client.call(&format!("ACL SETUSER u {rules}")), "+OK", "{rules}");
    }
    under("redis-8.4").1.expect(&[("ACL SETUSER u +msetex +json.get", "+OK")]);
    under("redis-6.2").1.expect(&[("ACL SETUSER u +client|no-touch", "+OK")]);
    let unknown = "-ERR Error in ACL SETUSER modifier '+delifeq': Unknown command or category name in ACL";
    under("valkey-8.1").1.expect(&[("ACL SETUSER u +set", "+OK"), ("ACL SETUSER u +delifeq", unknown)]);
}

#[test]
fn declared_users_and_those_of_a_file_name_no_newer_commands() {
    let start = |settings: &str| keylatch::Server::builder().settings(settings).start_blocking().map(drop);
    let error = |settings: &str| start(settings).expect_err("refused").to_string();
    let user = "user u on +get +msetex";
    assert_eq!(
        error(&format!("{user}\nprofile redis-7.2")),
        "Error loading ACL rule '+msetex' for the user named 'u': Unknown command or category name in ACL"
    );
    start(&format!("{user}\nprofile redis-8.4")).expect("it has the command");
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("users.acl");
    std::fs::write(&file, user).expect("writable");
    let settings = format!("aclfile {}", file.display());
    let refused = error(&format!("profile redis-7.2\n{settings}"));
    assert!(refused.contains(":1: Error in applying operation '+msetex': Unknown command or category"), "{refused}");
    let server = keylatch::Server::builder().settings(&settings).start_blocking().expect("without a profile");
    let mut client = Client::connect(server.addr());
    client.expect(&[("ACL LOAD", "+OK"), ("CONFIG SET profile redis-7.2", "+OK")]);
    let refused = client.call("ACL LOAD");
    assert!(refused.contains("'+msetex': Unknown command or category name in ACL"), "{refused}");
}

#[test]
fn a_single_word_of_client_kill_is_an_address() {
    let server = in_test_mode();
    for profile in ["", "redis-6.2", "redis-7.2", "redis-8.4"] {
        let mut client = server.client();
        assert_eq!(client.call_args(&["CONFIG", "SET", "profile", profile]), "+OK");
        for word in ["MAXAGE", "ID", "TYPE", "LADDR", "1.2.3.4:5"] {
            assert_eq!(client.call(&format!("CLIENT KILL {word}")), "-ERR No such client", "{profile}: {word}");
        }
    }
    under("redis-7.2")
        .1
        .expect(&[("CLIENT KILL MAXAGE 3", "-ERR syntax error"), ("CLIENT KILL ID 3 MAXAGE", "-ERR syntax error")]);
}

#[test]
fn servers_report_their_names_and_versions() {
    for (profile, server, version, redis) in [
        ("redis-6.2", "redis", "6.2.14", "6.2.14"),
        ("redis-8.4", "redis", "8.4.0", "8.4.0"),
        ("valkey-7.2", "redis", "7.2.4", "7.2.4"),
        ("valkey-8.1", "valkey", "8.1.0", "7.2.4"),
        ("valkey-9.0", "valkey", "9.0.0", "7.2.4"),
        ("azure-cache", "redis", "6.0.14", "6.0.14"),
        ("dragonfly", "redis", "7.4.0", "7.4.0"),
    ] {
        let (_server, mut client) = under(profile);
        let (greeting, start) =
            (client.call("HELLO"), format!("${} {server} $7 version ${} {version} ", server.len(), version.len()));
        assert!(greeting.contains(&start), "{profile}: {greeting}");
        assert_eq!(client.info("redis_version"), redis, "{profile}");
    }
    let (_server, mut client) = under("valkey-7.2");
    assert_eq!((client.info("server_name"), client.info("valkey_version")), ("valkey".into(), "7.2.11".into()));
    assert!(under("elasticache").1.call("INFO server").contains("os:Amazon ElastiCache"));
    assert!(!under("redis-7.4").1.call("MODULE LIST").contains("ReJSON"));
    assert!(under("redis-8.0").1.call("MODULE LIST").contains("ReJSON"));
}

#[cfg(feature = "lua")]
#[test]
fn scripts_see_the_version_and_the_commands_of_the_profile() {
    let server = in_test_mode();
    let mut client = server.client();
    let script = "redis.call('HSET', KEYS[1], 'f', 1) return redis.call('HEXPIRE', KEYS[1], 9, 'FIELDS', 1, 'f')";
    let version = "return redis.REDIS_VERSION";
    for (profile, shown, is_known) in
        [("redis-7.2", "$5 7.2.4", false), ("redis-8.4", "$5 8.4.0", true), ("redis-6.2", "$6 6.2.14", false)]
    {
        client.expect(&[(&format!("CONFIG SET profile {profile}"), "+OK")]);
        assert_eq!(client.call_args(&["EVAL", version, "0"]), shown);
        let reply = client.call_args(&["EVAL", script, "1", "h"]);
        assert_eq!(reply.starts_with('*'), is_known, "{profile}: {reply}");
        assert!(is_known || reply.starts_with("-ERR Unknown Redis command called from script"), "{reply}");
    }
    leave(&mut client);
    assert_eq!(client.call_args(&["EVAL", version, "0"]), "$5 8.4.0");
    assert_eq!(client.call_args(&["EVAL", script, "1", "h"]), "*1 :1");
    client.expect(&[("CONFIG SET profile redis-7.2", "+OK")]);
    let narrowed = "return redis.call('SET', KEYS[1], 'w', 'IFEQ', 'v')";
    let reply = client.call_args(&["EVAL", narrowed, "1", "k"]);
    assert!(reply.starts_with("-ERR syntax error"), "{reply}");
}

#[cfg(feature = "lua")]
#[test]
fn dragonfly_lets_scripts_say_that_they_take_any_key() {
    let (_server, mut client) = under("dragonfly");
    let free = "--!df flags=allow-undeclared-keys\nreturn redis.call('EXISTS', 'other')";
    assert_eq!(client.call_args(&["EVAL", free, "0"]), ":0");
    let bound = client.call_args(&["EVAL", "return redis.call('MSET', KEYS[1], 1, 'other', 2)", "1", "k"]);
    assert!(bound.starts_with("-ERR script tried accessing undeclared key, key: other"), "{bound}");
    assert_eq!(client.call_args(&["EVAL", "return redis.call('SET', KEYS[1], 1)", "1", "k"]), "+OK");
}

#[test]
fn limits_of_services_hold() {
    let (_server, mut client) = under("upstash");
    client.expect(&[("SELECT 0", "+OK"), ("SELECT 1", "-ERR DB index is out of range"), ("COMMAND", "*0")]);
    let large = vec![b'x'; 10 * 1024 * 1024];
    assert_eq!(client.call_args(&[b"SET".as_slice(), b"k", &large]), "-ERR max request size exceeded");
    assert_eq!(client.call_args(&[b"SET".as_slice(), b"k", &large[..large.len() - 9]]), "+OK");
    client.expect(&[
        (
            "OBJECT ENCODING k",
            "-ERR Command is not available: 'OBJECT'. See \
          https://docs.upstash.com/overall/rediscompatibility for details",
        ),
        ("CONFIG GET *", "*2 $22 notify-keyspace-events $0 "),
        ("CONFIG GET maxmemory", "*0"),
        ("CONFIG SET maxmemory 1", "-ERR Unknown option or number of arguments for CONFIG SET - 'maxmemory'"),
    ]);
    let info = client.call("INFO");
    assert!(info.contains("# Keyspace") && !info.contains("# Replication"), "{info}");
    let (_server, mut client) = under("dragonfly");
    let many: Vec<String> = std::iter::once("DEL".to_owned()).chain((0..65_536).map(|key| key.to_string())).collect();
    assert_eq!(client.call_args(&many), "-ERR Protocol error: invalid multibulk length");
    assert_eq!(client.call_args(&many[..65_536]), ":0");
    assert_eq!(client.info("maxclients"), "64000");
    client.expect(&[("SELECT 16", "-ERR DB index is out of range"), ("FCALL f 0", "-ERR unknown command `FCALL`")]);
}

#[test]
fn a_proxy_hides_the_cluster_and_lets_some_commands_cross_slots() {
    let (_server, mut client) = under("azure-managed-redis");
    client.expect(&[
        ("MSET a 1 b 2", "+OK"),
        ("MGET a b", "*2 $1 1 $1 2"),
        ("UNLINK a b", ":2"),
        ("SINTER {a}1 {a}2", "*0"),
    ]);
    assert!(
        client.call("SINTER a b").starts_with("-CROSSSLOT Keys in request don't hash to the same slot (context=''")
    );
    client.expect(&[("MULTI", "+OK"), ("INCR a", "+QUEUED"), ("INCR b", "+QUEUED")]);
    assert!(client.call("EXEC").starts_with("-EXECABORT"));
    assert!(client.call("CLUSTER SLOTS").starts_with("-ERR unknown command 'CLUSTER'"));
    assert_eq!(client.info("redis_mode"), "standalone");
}

#[test]
fn a_cluster_of_a_service_has_slots_and_one_database() {
    for profile in ["elasticache-serverless", "memorydb", "memorystore-cluster"] {
        let (server, mut client) = under(profile);
        assert!(client.call("CLUSTER SLOTS").starts_with("*1 *3 :0 :16383 "), "{profile}");
        client.expect(&[("SET a 1", "+OK"), ("GET a", "$1 1")]);
        assert!(client.call("HELLO 3").contains("$7 cluster"), "{profile}");
        drop(server);
    }
    let server = in_test_mode();
    let mut client = server.client();
    client.expect(&[
        ("MSET a 1 b 2", "+OK"),
        ("CONFIG SET profile memorydb", "+OK"),
        ("MSET a 1 b 2", "-CROSSSLOT Keys in request don't hash to the same slot"),
    ]);
    leave(&mut client);
    client.expect(&[("MSET a 1 b 2", "+OK"), ("CLUSTER SLOTS", "-ERR This instance has cluster support disabled")]);
}

#[test]
fn a_private_instance_has_a_profile_of_its_own() {
    let server = in_test_mode();
    let (mut main, mut a, mut b) = (server.client(), server.client(), server.client());
    a.expect(&[("AUTH ns-a x", "+OK"), ("CONFIG SET profile azure-cache", "+OK"), ("SET k v", "+OK")]);
    b.expect(&[("AUTH ns-b x", "+OK"), ("CONFIG SET profile valkey-9.0", "+OK"), ("SET k v", "+OK")]);
    a.expect(&[
        ("GETDEL k", "-ERR unknown command `GETDEL`, with args beginning with: `k`, "),
        ("CONFIG GET maxmemory", "-ERR unknown command `CONFIG`, with args beginning with: `GET`, `maxmemory`, "),
        ("CONFIG GET profile", "*2 $7 profile $11 azure-cache"),
        ("TEST.FAULT CLEAR", "+OK"),
    ]);
    b.expect(&[("GETDEL k", "$1 v"), ("CONFIG GET maxmemory", "*2 $9 maxmemory $1 0")]);
    main.expect(&[("SET k v", "+OK"), ("GETDEL k", "$1 v"), ("CONFIG GET profile", "*2 $7 profile $0 ")]);
    leave(&mut a);
    a.expect(&[("SET k v", "+OK"), ("GETDEL k", "$1 v")]);
    let mut other = server.client();
    other.expect(&[
        ("AUTH ns-c x", "+OK"),
        (
            "CONFIG SET profile nosuch",
            "-ERR CONFIG SET failed (possibly related to \
        argument 'profile') - argument(s) must be one of the following: , redis-6.2, redis-7.2, redis-7.4, redis-8.0, \
        redis-8.4, valkey-7.2, valkey-8.1, valkey-9.0, elasticache, elasticache-serverless, memorydb, memorystore, \
        memorystore-cluster, azure-cache, azure-managed-redis, upstash, dragonfly",
        ),
    ]);
}

#[test]
fn without_a_profile_nothing_changes() {
    let (plain, left) = (TestServer::start(), TestServer::start_with(&[("profile", "dragonfly")]));
    let (mut plain, mut left) = (plain.client(), left.client());
    leave(&mut left);
    for request in [
        "COMMAND COUNT",
        "COMMAND",
        "COMMAND DOCS",
        "CLIENT HELP",
        "CONFIG GET *",
        "MODULE LIST",
        "nosuch a b",
        "CLIENT nosuch",
        "EXPIRE k 1 NX",
        "SET k v IFEQ v",
        "LOCK.LIST",
        "SELECT 15",
    ] {
        assert_eq!(plain.call(request), left.call(request), "{request}");
    }
    let named = |client: &mut Client| {
        let info = client.call("INFO server");
        let fields = info.split(' ').filter(|field| field.contains("version:") || field.contains("mode:"));
        fields.map(str::to_owned).collect::<Vec<_>>()
    };
    let of_plain = named(&mut plain);
    assert_eq!(of_plain.len(), 4);
    assert_eq!(of_plain, named(&mut left));
}

#[test]
fn every_profile_serves_keys_and_refuses_what_nobody_knows() {
    let server = in_test_mode();
    let names = server.client().call("CONFIG SET profile nosuch");
    let names: Vec<&str> = names.split("following: , ").nth(1).expect("a list").split(", ").collect();
    assert_eq!(names.len(), 17);
    for name in names {
        let mut client = server.client();
        client.expect(&[
            (&format!("AUTH ns-{name} x"), "+OK"),
            (&format!("CONFIG SET profile {name}"), "+OK"),
            ("SET k v", "+OK"),
            ("GET k", "$1 v"),
            ("PING", "+PONG"),
        ]);
        assert!(client.call("HELLO 3").starts_with('%'), "{name}");
        assert!(client.call("nosuch a").starts_with("-ERR "), "{name}");
    }
}
