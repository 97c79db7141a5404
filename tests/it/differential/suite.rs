//! Stories with cases from Redis' own test suite.

use super::script::tell;

#[test]
fn swapped_databases_show_watchers_no_key_that_had_expired_before() {
    tell("stale", STALE);
}

const STALE: &str = r#"
    # where there was none, one that has ended appears
    DEBUG SET-ACTIVE-EXPIRE 0
    SET x foo PX 1
    DEBUG SLEEP 0.01
    SELECT 1
    WATCH x
    SWAPDB 0 1
    MULTI
    PING
    EXEC

    # one that has ended takes the place of another
    DEBUG SET-ACTIVE-EXPIRE 0
    SELECT 1
    SET x foo PX 1
    SELECT 0
    SET x bar PX 1
    DEBUG SLEEP 0.01
    SELECT 1
    WATCH x
    SWAPDB 0 1
    MULTI
    PING
    EXEC

    # one that has ended takes the place of a living one
    DEBUG SET-ACTIVE-EXPIRE 0
    SET x bar PX 1
    DEBUG SLEEP 0.01
    SELECT 1
    SET x foo
    WATCH x
    SWAPDB 0 1
    MULTI
    PING
    EXEC

    # a living one takes the place of one that has ended
    DEBUG SET-ACTIVE-EXPIRE 0
    SET x bar
    SELECT 1
    SET x foo PX 1
    DEBUG SLEEP 0.01
    WATCH x
    SWAPDB 0 1
    MULTI
    PING
    EXEC

    # it ends between WATCH and the exchange, and goes away with it
    DEBUG SET-ACTIVE-EXPIRE 0
    SELECT 1
    SET x foo PX 20
    WATCH x
    DEBUG SLEEP 0.03
    SWAPDB 0 1
    MULTI
    PING
    EXEC

    # both sides watch
    DEBUG SET-ACTIVE-EXPIRE 0
    SET x foo PX 1
    DEBUG SLEEP 0.01
    WATCH x y
    b: SELECT 1
    b: WATCH x y
    b: SWAPDB 1 0
    b: MULTI
    b: PING
    b: EXEC
    MULTI
    PING
    EXEC
"#;

#[cfg(feature = "lua")]
#[test]
fn a_pause_of_writes_holds_back_the_scripts_that_may_write() {
    super::companions::play("paused-scripts", PAUSED_SCRIPTS);
}

#[cfg(feature = "lua")]
const PAUSED_SCRIPTS: &str = r##"
    # a script that says nothing of itself may write, and so may one that does not say that it will not
    a: CLIENT PAUSE 1000000 WRITE
    b> EVAL "return 1" 0
    c> EVAL "#!lua\nreturn 2" 0
    d> EVAL_RO "#!lua\nreturn 3" 0
    e> EVALSHA 0000000000000000000000000000000000000000 0
    f> FCALL nosuch 0
    g> EVAL "#!lua flags=nosuch\\nreturn 6" 0
    ? blocked_clients:6
    a: EVAL "#!lua flags=no-writes\nreturn 4" 0
    a: EVAL_RO "return 5" 0
    a: EVALSHA_RO 0000000000000000000000000000000000000000 0
    a: FCALL_RO nosuch 0
    a: EVAL "#!lua flags=no-writes,allow-oom\nreturn redis.call('SET', KEYS[1], 1)" 1 k
    a: CLIENT UNPAUSE
    b<
    c<
    d<
    e<
    f<
    g<

    # by name, it is known what they said when they were loaded
    a: SCRIPT LOAD "#!lua flags=no-writes\nreturn 1"
    a: SCRIPT LOAD "return 1"
    a: FUNCTION LOAD REPLACE "#!lua name=paused\nredis.register_function{function_name='quiet', callback=function() return 1 end, flags={'no-writes'}}\nredis.register_function('loud', function() return 2 end)"
    a: CLIENT PAUSE 1000000 WRITE
    a: EVALSHA 77f21361171213377cb083e2ffc2ae24ffdff8fb 0
    a: FCALL quiet 0
    b> EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0
    c> FCALL loud 0
    d> EVALSHA short 0
    ? blocked_clients:3
    a: CLIENT UNPAUSE
    b<
    c<
    d<
    a: FUNCTION DELETE paused

    # a transaction waits when one of its scripts has to
    b: MULTI
    b: EVAL "#!lua\nreturn 1" 0
    c: MULTI
    c: EVAL "return 2" 0
    d: MULTI
    d: EVAL "#!lua flags=no-writes\nreturn 3" 0
    a: CLIENT PAUSE 1000000 WRITE
    d: EXEC
    b> EXEC
    c> EXEC
    ? blocked_clients:2
    a: CLIENT UNPAUSE
    b<
    c<
"##;

#[cfg(feature = "lua")]
#[test]
fn the_acl_log_shows_whether_a_script_called() {
    tell("denied-in-scripts", DENIED_IN_SCRIPTS);
}

#[cfg(feature = "lua")]
const DENIED_IN_SCRIPTS: &str = r##"
    ACL DELUSER alice
    ACL LOG RESET
    ACL SETUSER alice on nopass +@all -incr ~object:* resetchannels &news
    b: AUTH alice x
    b: EVAL "return redis.pcall('INCR', 'object:1')" 0
    ACL LOG 1
    b: EVAL "return redis.pcall('GET', 'other')" 0
    ACL LOG 1
    b: EVAL "return redis.pcall('PUBLISH', 'weather', 'x')" 0
    ACL LOG 1
    b: EVAL "return redis.call('INCR', 'object:2')" 0
    ACL LOG

    # the script's own key is asked for by the client, and so is a script in a transaction; its calls are not
    ACL DELUSER alice
    ACL LOG RESET
    ACL SETUSER alice on nopass +@all -incr ~object:*
    b: AUTH alice x
    b: EVAL "return 1" 1 other
    ACL LOG 1
    b: MULTI
    b: EVAL "return redis.pcall('INCR', 'object:1')" 0
    b: GET object:1
    b: EVAL "return redis.pcall('SET', KEYS[1] .. 'x', 1)" 1 object:1
    ACL SETUSER alice -get
    b: EXEC
    ACL LOG
    ACL LOG RESET
    ACL DELUSER alice
"##;

#[test]
fn what_is_for_clusters_is_refused_as_by_redis() {
    tell("cluster", CLUSTER);
}

const CLUSTER: &str = r##"
    READONLY
    READONLY x
    READWRITE
    ASKING
    CLUSTER
    CLUSTER INFO
    CLUSTER INFO x
    CLUSTER NODES
    CLUSTER SLOTS
    CLUSTER SHARDS
    CLUSTER MYID
    CLUSTER KEYSLOT k
    CLUSTER RESET
    CLUSTER RESET HARD
    CLUSTER SETSLOT 1 STABLE
    CLUSTER HELP
    CLUSTER NOSUCH
    ACL SETUSER alice on nopass +readonly -@all +cluster|info
    ACL GETUSER alice
    ACL DRYRUN alice READONLY
    ACL DRYRUN alice CLUSTER INFO
    ACL DELUSER alice
    MULTI
    READONLY
    CLUSTER INFO
    EXEC
"##;

#[cfg(feature = "lua")]
#[test]
fn scripts_may_debug_once_debug_says_so() {
    tell("debugging-scripts", DEBUGGING_SCRIPTS);
}

#[cfg(feature = "lua")]
const DEBUGGING_SCRIPTS: &str = r##"
    EVAL "return redis.pcall('DEBUG', 'PROTOCOL', 'string')" 0
    DEBUG SET-DISABLE-DENY-SCRIPTS 1
    EVAL "return redis.call('DEBUG', 'PROTOCOL', 'string')" 0
    EVAL "return redis.call('DEBUG', 'PROTOCOL', 'bignum')" 0
    EVAL "return redis.call('DEBUG', 'PROTOCOL', 'map')" 0
    EVAL "return redis.call('DEBUG', 'PROTOCOL', 'set')" 0
    EVAL "return redis.call('DEBUG', 'PROTOCOL', 'double')" 0
    EVAL "return redis.call('DEBUG', 'PROTOCOL', 'null')" 0
    EVAL "return redis.call('DEBUG', 'PROTOCOL', 'verbatim')" 0
    EVAL "return redis.call('DEBUG', 'PROTOCOL', 'true')" 0
    EVAL "redis.setresp(3); return redis.call('DEBUG', 'PROTOCOL', 'bignum')" 0
    EVAL "redis.setresp(3); return redis.call('DEBUG', 'PROTOCOL', 'map')" 0
    EVAL "redis.setresp(3); return redis.call('DEBUG', 'PROTOCOL', 'set')" 0
    EVAL "redis.setresp(3); return redis.call('DEBUG', 'PROTOCOL', 'double')" 0
    EVAL "redis.setresp(3); return redis.call('DEBUG', 'PROTOCOL', 'null')" 0
    EVAL "redis.setresp(3); return redis.call('DEBUG', 'PROTOCOL', 'verbatim')" 0
    EVAL "redis.setresp(3); return redis.call('DEBUG', 'PROTOCOL', 'false')" 0
    EVAL "redis.setresp(3); return redis.call('DEBUG', 'PROTOCOL', 'attrib')" 0
    EVAL "redis.call('SET', KEYS[1], 1, 'PX', 1) redis.call('DEBUG', 'SLEEP', 0.01) return redis.call('EXISTS', KEYS[1])" 1 k
    EXISTS k
    DEBUG SET-DISABLE-DENY-SCRIPTS 0
    EVAL "return redis.pcall('DEBUG', 'PROTOCOL', 'string')" 0
"##;
