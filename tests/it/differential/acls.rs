//! Stories about users: rules, passwords, and the output of ACL commands.
//!
//! Users outlive a story, so each story begins by deleting its users. Rules about categories are used only where the
//! result is the same regardless of other commands of a server. The order of rules about single commands is internal to
//! Redis.

use std::collections::BTreeSet;

use keylatch::internals::CATEGORIES;
use keylatch::internals::table;

use super::deviations::DECLARED;
use super::oracle::Arena;
use super::script::tell;

#[test]
fn rules_make_and_change_users_as_redis_does() {
    tell("rules", RULES);
}

#[test]
fn rules_are_refused_with_the_texts_of_redis() {
    tell("refused", REFUSED);
}

#[test]
fn selectors_are_read_and_shown_as_redis_does() {
    tell("selectors", SELECTORS);
}

#[test]
fn names_and_passwords_authenticate_as_in_redis() {
    tell("login", LOGIN);
}

#[test]
fn the_rest_of_acl_answers_as_redis_does() {
    tell("rest", REST);
}

/// Categories of the modules of Redis 8.
const CATEGORIES_OF_MODULES: [&str; 6] = ["json", "bloom", "cuckoo", "cms", "topk", "tdigest"];

#[test]
fn acl_cat_lists_the_categories_of_redis_and_that_of_locks() {
    let Some(arena) = Arena::open() else { return };
    let replies = arena.pair().call(&["ACL", "CAT"]);
    let lines = |reply: Option<Vec<u8>>| -> Vec<String> {
        let reply = String::from_utf8(reply.expect("a reply")).expect("text");
        reply.split("\r\n").skip(2).step_by(2).map(str::to_owned).collect()
    };
    let (mut ours, theirs) = (lines(replies.keylatch), lines(replies.redis));
    assert_eq!(ours.pop().as_deref(), Some("lock"));
    ours.retain(|name| !CATEGORIES_OF_MODULES.contains(&name.as_str()));
    assert_eq!(ours, theirs);
}

/// Compares the categories, restricted to the commands of both servers.
#[test]
fn categories_hold_what_redis_has_in_them() {
    let Some(arena) = Arena::open() else { return };
    let names = |reply: Option<Vec<u8>>| -> BTreeSet<String> {
        let reply = String::from_utf8(reply.expect("a reply")).expect("text");
        reply.split("\r\n").skip(2).step_by(2).map(str::to_owned).collect()
    };
    let mut pair = arena.pair();
    let all = pair.call(&["COMMAND", "LIST", "FILTERBY", "PATTERN", "*"]);
    let (we_know, they_know) = (names(all.keylatch), names(all.redis));
    assert_eq!(we_know.len(), table().every().count());
    for category in CATEGORIES.iter().filter(|category| **category != "lock") {
        let members = pair.call(&["ACL", "CAT", category]);
        let (ours, theirs) = (names(members.keylatch), names(members.redis));
        let differs = |name: &str| DECLARED.iter().any(|(of, field, _)| *of == name && *field == "ACL categories");
        let common = |names: &BTreeSet<String>, others: &BTreeSet<String>| {
            names.intersection(others).filter(|name| !differs(name)).cloned().collect::<BTreeSet<_>>()
        };
        assert_eq!(common(&ours, &they_know), common(&theirs, &we_know), "{category}");
    }
}

const RULES: &str = r##"
    ACL DELUSER alice
    ACL GETUSER alice
    ACL LIST
    ACL SETUSER alice
    ACL GETUSER alice
    ACL LIST
    ACL USERS
    ACL SETUSER alice on
    ACL SETUSER alice ON >secret >other >secret
    ACL GETUSER alice
    ACL SETUSER alice "<secret" +get
    ACL LIST
    ACL SETUSER alice #34344e4d60c2b6d639b7bd22e18f2b0b91bc34bf0ac5f9952744435093cfb4e6
    ACL SETUSER alice #34344e4d60c2b6d639b7bd22e18f2b0b91bc34bf0ac5f9952744435093cfb4e6
    ACL LIST
    ACL SETUSER alice !34344e4d60c2b6d639b7bd22e18f2b0b91bc34bf0ac5f9952744435093cfb4e6
    ACL LIST
    ACL SETUSER alice nopass
    ACL LIST
    ACL SETUSER alice >
    ACL LIST
    ACL SETUSER alice resetpass off
    ACL LIST
    ACL SETUSER alice sanitize-payload
    ACL LIST
    ACL SETUSER alice skip-sanitize-payload nopass
    ACL GETUSER alice
    ACL SETUSER alice reset
    ACL LIST
    ACL SETUSER alice "" RESET ""
    ACL LIST

    ACL DELUSER alice
    ACL SETUSER alice +get +set
    ACL SETUSER alice -get
    ACL GETUSER alice
    ACL LIST
    ACL SETUSER alice +@all
    ACL LIST
    ACL SETUSER alice -get -set
    ACL SETUSER alice +get
    ACL LIST
    ACL SETUSER alice +set
    ACL LIST
    ACL SETUSER alice nocommands
    ACL LIST
    ACL SETUSER alice allcommands -client|id
    ACL LIST
    ACL SETUSER alice -client
    ACL SETUSER alice +client|id
    ACL SETUSER alice +client
    ACL LIST
    ACL SETUSER alice -@all +client|id +CLIENT|Getname
    ACL SETUSER alice +config|get
    ACL SETUSER alice -@all +config -config|set
    ACL LIST
    ACL SETUSER alice -@all +@string
    ACL LIST
    ACL SETUSER alice -incr
    ACL LIST
    ACL SETUSER alice +@all -@string
    ACL LIST
    ACL SETUSER alice +incr
    ACL LIST
    ACL SETUSER alice +@ALL -@Dangerous
    ACL LIST
    ACL SETUSER alice -@all +@transaction
    ACL LIST
    ACL SETUSER alice -@all +@keyspace
    ACL LIST
    ACL SETUSER alice -@all +@string +@bitmap
    ACL LIST
    ACL SETUSER alice +@all -@keyspace -@string
    ACL LIST

    ACL DELUSER alice
    ACL SETUSER alice +select|0
    ACL LIST
    ACL SETUSER alice +select|1 +SELECT|0 +select|a +select|A
    ACL LIST
    ACL SETUSER alice +select
    ACL LIST
    ACL SETUSER alice -select
    ACL LIST
    ACL SETUSER alice +@all -select +select|0
    ACL LIST
    ACL SETUSER alice -@connection
    ACL SETUSER alice +@all
    ACL LIST
    ACL SETUSER alice -@all +get|a "+get|b\x00c"
    ACL LIST

    ACL DELUSER alice
    ACL SETUSER alice ~a ~b* ~a %R~c %W~c %RW~d %r~e %wr~f %R %W~
    ACL GETUSER alice
    ACL LIST
    ACL SETUSER alice resetkeys %W~x %R~y
    ACL LIST
    ACL SETUSER alice allkeys
    ACL LIST
    ACL SETUSER alice resetkeys ~a ~*
    ACL LIST
    ACL SETUSER alice resetkeys %RW~*
    ACL LIST
    ACL SETUSER alice resetkeys ~
    ACL LIST
    ACL SETUSER alice resetkeys &a &b* &a
    ACL GETUSER alice
    ACL LIST
    ACL SETUSER alice allchannels
    ACL LIST
    ACL SETUSER alice resetchannels & "&x\xff"
    ACL LIST
    ACL SETUSER alice &*
    ACL LIST

    ACL DELUSER alice bob
    CONFIG SET acl-pubsub-default allchannels
    CONFIG GET acl-pubsub-default
    ACL SETUSER alice ()
    ACL LIST
    ACL SETUSER bob &test
    ACL SETUSER alice reset
    ACL LIST
    CONFIG SET acl-pubsub-default resetchannels
    ACL LIST
    ACL SETUSER alice reset
    ACL LIST
    CONFIG SET acl-pubsub-default nope
"##;

const REFUSED: &str = r##"
    ACL DELUSER alice
    ACL SETUSER "a b"
    ACL SETUSER "a\x00b"
    ACL SETUSER "a\tb" on
    ACL SETUSER "a\x0bb" on
    ACL SETUSER
    ACL SETUSER alice get
    ACL SETUSER alice " on"
    ACL SETUSER alice +nosuch
    ACL SETUSER alice -nosuch
    ACL SETUSER alice +
    ACL SETUSER alice -
    ACL SETUSER alice +@nosuch
    ACL SETUSER alice +@
    ACL SETUSER alice -@nosuch
    ACL SETUSER alice +get|
    ACL SETUSER alice +config|
    ACL SETUSER alice +config|nosuch
    ACL SETUSER alice -config|nosuch
    ACL SETUSER alice +config|get|x
    ACL SETUSER alice +get|a|b
    ACL SETUSER alice -get|a
    ACL SETUSER alice -get|a|b
    ACL SETUSER alice +nosuch|a
    ACL SETUSER alice +|
    ACL SETUSER alice +|a
    ACL SETUSER alice %Rx~a
    ACL SETUSER alice %RR~a
    ACL SETUSER alice %X
    ACL SETUSER alice "~a b"
    ACL SETUSER alice "~a\x00b"
    ACL SETUSER alice "%R~a b"
    ACL SETUSER alice "&a b"
    ACL SETUSER alice allkeys ~a
    ACL SETUSER alice ~* %R~a
    ACL SETUSER alice allchannels &a
    ACL SETUSER alice <nosuch
    ACL SETUSER alice !34344e4d60c2b6d639b7bd22e18f2b0b91bc34bf0ac5f9952744435093cfb4e6
    ACL SETUSER alice #34344e4d60c2b6d639b7bd22e18f2b0b91bc34bf0ac5f9952744435093cfb4e
    ACL SETUSER alice #34344e4d60c2b6d639b7bd22e18f2b0b91bc34bf0ac5f9952744435093cfb4eq
    ACL SETUSER alice #34344E4D60C2B6D639B7BD22E18F2B0B91BC34BF0AC5F9952744435093CFB4E6
    ACL SETUSER alice !x
    ACL SETUSER alice "no\r\nsuch"
    ACL SETUSER alice "no\x00such"
    ACL SETUSER alice (
    ACL SETUSER alice )
    ACL SETUSER alice "(\x00"
    ACL SETUSER alice " () "
    ACL SETUSER alice (get)
    ACL SETUSER alice (on)
    ACL SETUSER alice (+get
    ACL SETUSER alice (~a b)
    ACL SETUSER alice "(&* &fail)"
    ACL SETUSER alice on +get +nosuch
    ACL GETUSER alice
    ACL SETUSER alice +get
    ACL SETUSER alice +set reset foo
    ACL LIST
"##;

const SELECTORS: &str = r##"
    ACL DELUSER alice
    ACL SETUSER alice ()
    ACL GETUSER alice
    ACL LIST
    ACL SETUSER alice "(~key1 +get )" "( ~key2 +get )" "( ~key3 +get)" "(~key4 +get)"
    ACL SETUSER alice (~key5 +get ) ( ~key6 +get ) ( ~key7 +get) (~key8 +get)
    ACL GETUSER alice
    ACL LIST
    ACL SETUSER alice clearselectors
    ACL LIST
    ACL SETUSER alice "(+get \" ~a)"
    ACL LIST
    ACL SETUSER alice "(\"~a\" '+get')"
    ACL SETUSER alice "(\"\")"
    ACL SETUSER alice (+@all allkeys allchannels)
    ACL LIST
    ACL SETUSER alice reset +get ~a (%R~b %W~c &d +set)
    ACL LIST
    ACL SETUSER alice on nopass
    ACL LIST
    ACL SETUSER alice (+set "" ~x)
    ACL LIST
    ACL DELUSER alice
"##;

const LOGIN: &str = r##"
    ACL DELUSER alice
    AUTH alice x
    b: ACL SETUSER alice >passwd1
    AUTH alice passwd1
    b: ACL SETUSER alice on +acl|whoami
    AUTH alice passwd1
    ACL WHOAMI
    b: ACL SETUSER alice >passwd2
    AUTH alice passwd1
    AUTH alice passwd2
    AUTH alice passwd3
    ACL WHOAMI
    b: ACL SETUSER alice <passwd1
    AUTH alice passwd1
    b: ACL SETUSER alice #34344e4d60c2b6d639b7bd22e18f2b0b91bc34bf0ac5f9952744435093cfb4e6
    AUTH alice passwd4
    AUTH alice ""
    b: ACL SETUSER alice >"a\x00b"
    AUTH alice "a\x00b"
    AUTH alice "a"
    AUTH default ""
    ACL WHOAMI
    b: ACL SETUSER alice nopass off
    AUTH alice x
    b: ACL SETUSER alice on
    AUTH alice x
    AUTH "" x
    AUTH ALICE x
    AUTH "alice\x00" x

    CONFIG SET requirepass secret
    ~ ACL LIST
    b: PING
    b: RESET
    b: PING
    b: AUTH secret
    b: ACL WHOAMI
    ACL SETUSER default >second
    b: AUTH second
    b: AUTH secret
    CONFIG GET requirepass
    CONFIG SET requirepass secret
    b: AUTH second
    CONFIG SET requirepass third
    b: AUTH second
    b: AUTH third
    ACL SETUSER default nopass
    b: AUTH third
    b: AUTH default third
    CONFIG GET requirepass
    CONFIG SET requirepass ""
    ACL GETUSER default

    ACL SETUSER default off
    b: PING
    b: RESET
    b: PING
    b: AUTH x
    b: AUTH default x
    b: HELLO 3
    b: QUIT
    ACL SETUSER default on
    PING

    ACL DELUSER alice
    ACL SETUSER alice >pw on +@all ~*
    ACL SETUSER default -@all
    b: HELLO 2 AUTH alice pw
    b: PING
    b: ACL SETUSER default +@all
    b: RESET
    b: PING

    ACL SETUSER default resetpass >pw
    b: GET k
    b: RESET
    b: GET k
    b: AUTH pw
    b: GET k
    ACL SETUSER default nopass

    CONFIG SET requirepass secret
    b: RESET
    b: PING
    CONFIG SET requirepass ""
    b: PING
    b: HELLO
    CONFIG SET requirepass secret
    b: PING
    CONFIG SET requirepass ""
"##;

const REST: &str = r##"
    ACL DELUSER alice
    ACL
    ACL NOSUCH
    ACL CAT nosuch
    ACL CAT "nosuch\x00x"
    ACL CAT xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
    ACL CAT string bitmap
    ACL cAt string bitmap
    ~ ACL CAT transaction
    ACL GENPASS x
    ACL GENPASS -236
    ACL GENPASS 0
    ACL GENPASS 4097
    ACL GENPASS 1 2
    ACL GENPASS ""
    ACL LOAD
    ACL SAVE
    ACL LOAD x
    ACL DELUSER
    ACL DELUSER default
    ACL DELUSER nosuch default
    ACL DELUSER "default\x00"
    ACL DELUSER nosuch
    ACL SETUSER alice
    ACL DELUSER alice alice nosuch
    ACL GETUSER
    ACL GETUSER nosuch
    ACL GETUSER default
    ACL WHOAMI
    ACL WHOAMI x
    ACL USERS x
    ACL LIST x
    ACL DRYRUN
    ACL DRYRUN default
    ACL DRYRUN nosuch GET k
    ACL DRYRUN "no\r\nsuch" GET k
    ACL DRYRUN default nosuch k
    ACL DRYRUN default GET
    ACL DRYRUN default GET k
    ACL DRYRUN default get k k
    ACL DRYRUN default config
    ACL DRYRUN default config nosuch
    ACL DRYRUN default config get
    ACL DRYRUN default config get x
    ACL DRYRUN default config|get x
    ACL SETUSER "" on
    ACL GETUSER ""
    ACL USERS
    ACL DELUSER ""
    ~ CONFIG GET *acl*
    CONFIG SET aclfile x
"##;
