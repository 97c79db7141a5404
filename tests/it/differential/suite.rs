//! Stories about what Redis' own test-suite asked and nobody here had thought of.

use super::script::tell;

#[test]
fn exchanged_databases_show_watchers_no_key_that_had_ended_before() {
    tell(STALE);
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
