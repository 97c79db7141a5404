//! Properties of users: a description can be parsed again, and no rule causes a panic.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::acl::file::read_users;
use crate::acl::*;
use crate::spec::sample::commands;

/// Valid and invalid rules.
const RULES: &[&str] = &[
    "on",
    "off",
    "nopass",
    "resetpass",
    ">secret",
    ">other",
    "<secret",
    "sanitize-payload",
    "skip-sanitize-payload",
    "allkeys",
    "resetkeys",
    "~a*",
    "~b",
    "%R~a*",
    "%W~c",
    "%RW~d",
    "%R",
    "allchannels",
    "resetchannels",
    "&news.*",
    "&x",
    "allcommands",
    "nocommands",
    "+get",
    "-get",
    "+set",
    "+client",
    "-client|id",
    "+config|get",
    "+select|0",
    "+select|1",
    "-select",
    "+@all",
    "-@all",
    "+@string",
    "-@string",
    "+@dangerous",
    "-@admin",
    "+@fast",
    "-@slow",
    "+@connection",
    "-@write",
    "+@read",
    "()",
    "(+get ~a)",
    "(+@all allkeys -@dangerous)",
    "(%R~x +@read (",
    "clearselectors",
    "reset",
    "+nosuch",
    "",
    "(",
    ")",
];

fn rules() -> impl Strategy<Value = Vec<&'static str>> {
    vec(proptest::sample::select(RULES), 0..12)
}

/// Returns a user to which all valid rules of the list were applied.
fn user_of<R: AsRef<[u8]>>(rules: &[R], all_channels: bool) -> User {
    let mut user = User::new(commands(), b"alice", all_channels);
    for rule in rules {
        // An invalid rule leaves the user unchanged.
        let _ = user.apply(rule.as_ref(), RuleSettings { all_channels, profile: None });
    }
    user
}

proptest! {
    #[test]
    fn a_described_user_is_the_same_when_read_again(rules in rules(), all_channels: bool, later: bool) {
        let user = user_of(&rules, all_channels);
        let read = read_users(commands(), &user.line(), b"users.acl", RuleSettings { all_channels: later, profile: None }).expect("a description consists of rules");
        prop_assert_eq!(read.len(), 1);
        prop_assert_eq!(read[0].line().escape_ascii().to_string(), user.line().escape_ascii().to_string());
    }

    #[test]
    fn a_refused_rule_changes_nothing(rules in rules(), last in proptest::sample::select(RULES)) {
        let mut user = user_of(&rules, false);
        let before = user.line();
        if user.apply_all(&[last, "+nosuch"], RuleSettings::default()).is_err() {
            prop_assert_eq!(&user.line(), &before);
        }
        if user.apply(last.as_bytes(), RuleSettings::default()).is_err() {
            prop_assert_eq!(&user.line(), &before);
        }
    }

    #[test]
    fn no_input_causes_a_panic(words in vec(vec(proptest::sample::select(&b"on(~)+-@|%RW&<>#!\"'\\ \0\xffget"[..]), 0..9), 0..9)) {
        let user = user_of(&words, true);
        prop_assert!(user.line().starts_with(b"user alice "));
        let mut other = User::new(commands(), b"bob", false);
        let _ = other.apply_all(&words, RuleSettings::default());
        let _ = DeclaredUser::read(commands(), &words, false);
        let _ = read_users(commands(), &words.join(&b'\n'), b"users.acl", RuleSettings::default());
        let _ = read_users(commands(), &words.join(&b"\nuser x "[..]), b"users.acl", RuleSettings::default());
    }
}

#[test]
fn the_default_user_may_do_everything_until_a_rule_says_otherwise() {
    let mut user = User::all_powerful(commands());
    assert!(user.is_unlimited() && user.accepts_any_password() && user.admits(b"whatever"));
    assert_eq!(user.line(), b"user default on nopass sanitize-payload ~* &* +@all");
    user.require(Some(b"secret"));
    assert!(user.is_unlimited() && !user.accepts_any_password() && user.admits(b"secret") && !user.admits(b"Secret"));
    user.apply(b"-get", RuleSettings::default()).expect("a rule");
    assert!(!user.is_unlimited());
    user.apply(b"+get", RuleSettings::default()).expect("a rule");
    assert!(user.is_unlimited());
}

#[test]
fn a_file_is_refused_for_all_that_is_wrong_with_it() {
    let text =
        b"user alice on +nosuch foo bar\nusr x\n\nuser bob on  +get\r\nuser bob on\nuser a\tb on\nuser\nuser c (+get";
    let complaint = "f:1: Error in applying operation '+nosuch': Unknown command or category name in ACL. f:1: Syntax \
                     error. f:2 should start with user keyword followed by the username. WARNING: Duplicate user 'bob' \
                     found on line 5. 'f:6: username 'a\tb' contains invalid characters. f:7 should start with user \
                     keyword followed by the username. f:8: Unmatched parenthesis in selector definition.WARNING: ACL \
                     errors detected, no change to the previously active ACL rules was performed";
    let refused = read_users(commands(), text, b"f", RuleSettings::default()).expect_err("a bad file");
    assert_eq!(String::from_utf8_lossy(&refused), complaint);
}

#[test]
fn the_same_refusal_within_a_minute_is_counted_and_not_listed_again() {
    let why = (DenialReason::Command, Context::TopLevel);
    let entry = |object: &str, wall_ms| DenialEntry::new(why, object.as_bytes(), b"alice", wall_ms, String::new());
    let mut log = AclLog::default();
    let shown = |log: &AclLog| log.entries().map(|e| (e.count, e.object[0])).collect::<Vec<_>>();
    [entry("a", 0), entry("b", 1), entry("a", 60_000)].into_iter().for_each(|entry| log.note(entry, 3));
    assert_eq!(shown(&log), [(2, b'a'), (1, b'b')]);
    let times: Vec<_> = log.entries().map(|e| (e.id, e.created_ms, e.wall_ms)).collect();
    assert_eq!(times, [(0, 0, 60_000), (1, 1, 1)], "the id and the first time stay");
    log.note(entry("a", 120_001), 3);
    assert_eq!(shown(&log), [(1, b'a'), (2, b'a'), (1, b'b')]);
    log.note(entry("c", 120_001), 3);
    assert_eq!(shown(&log), [(1, b'c'), (1, b'a'), (2, b'a')]);
    "defghijkl".chars().for_each(|object| log.note(entry(&object.to_string(), 120_001), 20));
    log.note(entry("a", 120_001), 20);
    assert_eq!((log.entries().len(), shown(&log)[0]), (13, (1, b'a')), "only the ten newest are searched");
}

#[test]
fn channels_match_patterns_and_patterns_only_themselves() {
    let user = user_of(&["&news.*", "&x", "(&in.selector)"], false);
    for channel in ["news.", "news.today", "x", "in.selector"] {
        assert!(user.permits_channel(channel.as_bytes(), false), "{channel}");
    }
    for pattern in ["news.*", "x", "in.selector"] {
        assert!(user.permits_channel(pattern.as_bytes(), true), "{pattern}");
    }
    assert!(!user.permits_channel(b"y", false) && !user.permits_channel(b"news.a*", true));
    assert!(user_of(&["(allchannels)"], false).permits_channel(b"y*", true));
}
