//! Sorted sets: ZADD, ZRANGE and related commands.
//!
//! The rows are here, the handlers in a file for each kind of command.
//!
//! Invariant: a range of members is converted to one of ranks before it is used, and replies are written straight from
//! the stored value.

pub(in crate::command) mod add;
mod combine;
mod elements;
mod moves;
mod pop;
mod random;
mod range;
mod read;

use crate::command::sorted_set::combine::{zdiff, zdiffstore, zinter, zintercard, zinterstore, zunion, zunionstore};
use crate::command::sorted_set::moves::{bzmove, zmove, zmovemember};
use crate::command::sorted_set::pop::{bzmpop, bzpopmax, bzpopmin, zmpop, zpopmax, zpopmin};
use crate::command::sorted_set::range as ranges;
use crate::command::sorted_set::read::{zcard, zcount, zlexcount, zmscore, zrank, zrevrank, zscan, zscore};
use crate::dispatch::Command;
use crate::spec::{
    ACCESS, Arg, BLOCKING, DELETE, DENY_OOM, Effect, FAST, Group, INSERT, MOVABLE_KEYS, OW, READ, RO, RW, UPDATE,
    WRITE, block, double, element, integer, key, one_of, pattern, string, token,
};

const ADD_COST: &str = "O(log(N)) for each item added, where N is the number of elements in the sorted set.";
const LOG_COST: &str = "O(log(N)) with N being the number of elements in the sorted set.";
const INCREMENT_COST: &str = "O(log(N)) where N is the number of elements in the sorted set.";
const REMOVE_COST: &str = "O(M*log(N)) with N being the number of elements in the sorted set and M the number of \
    elements to be removed.";
const SCORES_COST: &str = "O(N) where N is the number of members being requested.";
const RANGE_COST: &str = "O(log(N)+M) with N being the number of elements in the sorted set and M the number of \
    elements returned.";
const SUBRANGE_COST: &str = "O(log(N)+M) with N being the number of elements in the sorted set and M the number of \
    elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can \
    consider it O(log(N)).";
const STORE_RANGE_COST: &str = "O(log(N)+M) with N being the number of elements in the sorted set and M the number of \
    elements stored into the destination key.";
const REMOVE_RANGE_COST: &str = "O(log(N)+M) with N being the number of elements in the sorted set and M the number of \
    elements removed by the operation.";
const POP_COST: &str = "O(log(N)*M) with N being the number of elements in the sorted set, and M being the number of \
    elements popped.";
const MULTI_POP_COST: &str = "O(K) + O(M*log(N)) where K is the number of provided keys, N being the number of elements \
    in the sorted set, and M being the number of elements popped.";
const MOVE_COST: &str = "O(K*(log(N)+log(M))) where K is the number of moved members and N and M are the source and \
    destination sizes.";
const MOVE_SELECTED_COST: &str = "O(log(N) + K*(log(N)+log(M))) where N and M are the source and destination sizes and K \
    is the number of moved members.";
const MOVE_NAMED_COST: &str = "O(K*(log(N)+log(M))) where K is the number of given members and N and M are the source \
    and destination sizes.";
const RANDOM_COST: &str = "O(N) where N is the number of elements returned";
const UNION_COST: &str = "O(N)+O(M*log(M)) with N being the sum of the sizes of the input sorted sets, and M being the \
    number of elements in the resulting sorted set.";
const UNIONSTORE_COST: &str = "O(N)+O(M log(M)) with N being the sum of the sizes of the input sorted sets, and M being \
    the number of elements in the resulting sorted set.";
const INTER_COST: &str = "O(N*K)+O(M*log(M)) worst case with N being the smallest input sorted set, K being the number \
    of input sorted sets and M being the number of elements in the resulting sorted set.";
const INTERCARD_COST: &str = "O(N*K) worst case with N being the smallest input sorted set, K being the number of input \
    sorted sets.";
const DIFF_COST: &str = "O(L + (N-K)log(N)) worst case where L is the total number of elements in all the sets, N is \
    the size of the first set, and K is the size of the result set.";
const SCAN_COST: &str = "O(1) for every call. O(N) for a complete iteration, including enough command calls for the \
    cursor to return back to 0. N is the number of elements inside the collection..";

const READ_KEY: Arg = key("key", RO | ACCESS);
const REMOVE_KEY: Arg = key("key", RW | DELETE);
const POP_KEY: Arg = key("key", RW | ACCESS | DELETE);
const TARGET: Arg = key("destination", OW | UPDATE);
const NUMKEYS: Arg = integer("numkeys");
const READ_KEYS: Arg = READ_KEY.multiple();
const MEMBER: Arg = element("member");
const SCORES: [Arg; 2] = [double("min"), double("max")];
const MEMBERS: [Arg; 2] = [string("min"), string("max")];
const RANKS: [Arg; 2] = [integer("start"), integer("stop")];
const WITHSCORES: Arg = token("withscores", "WITHSCORES").optional();
const LIMIT: Arg = block("offset_count", &[integer("offset"), integer("count")]).token("LIMIT").optional();
const SORT_BY: Arg = one_of("sortby", &[token("byscore", "BYSCORE"), token("bylex", "BYLEX")]).optional();
const REV: Arg = token("rev", "REV").optional();
const WHERE: Arg = one_of("where", &[token("min", "MIN"), token("max", "MAX")]);
const COUNT: Arg = integer("count").token("COUNT").optional();
const MOVE_FROM: Arg = key("source", RW | ACCESS | DELETE);
const MOVE_TO: Arg = key("destination", RW | INSERT);
const WEIGHTS: Arg = integer("weight").token("WEIGHTS").optional().multiple();
const AGGREGATE: Arg = one_of(
    "aggregate",
    &[token("sum", "SUM"), token("min", "MIN"), token("max", "MAX"), token("count", "COUNT").since("8.8.0")],
)
.token("AGGREGATE")
.optional();

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("BZMOVE", bzmove, WRITE | DENY_OOM | BLOCKING, Group::SortedSet)
        .effect(Effect::Given)
        .args(&[MOVE_FROM, MOVE_TO, WHERE, double("timeout"), COUNT])
        .docs("8.12.0", MOVE_COST, "Moves members with the lowest or highest scores to another sorted set, or waits for them."),
    Command::new("BZMPOP", bzmpop, WRITE | BLOCKING | MOVABLE_KEYS, Group::SortedSet)
        .effect(Effect::Given)
        .args(&[double("timeout"), NUMKEYS, POP_KEY.multiple(), WHERE, COUNT])
        .docs("7.0.0", MULTI_POP_COST, "Removes elements with the lowest or highest scores from the first sorted set that has any, or waits for one."),
    Command::new("BZPOPMAX", bzpopmax, WRITE | BLOCKING | FAST, Group::SortedSet)
        .effect(Effect::Given)
        .args(&[POP_KEY.multiple(), double("timeout")])
        .docs("5.0.0", LOG_COST, "Removes the element with the highest score from the first sorted set that has any, or waits for one."),
    Command::new("BZPOPMIN", bzpopmin, WRITE | BLOCKING | FAST, Group::SortedSet)
        .effect(Effect::Given)
        .args(&[POP_KEY.multiple(), double("timeout")])
        .docs("5.0.0", LOG_COST, "Removes the element with the lowest score from the first sorted set that has any, or waits for one."),
    Command::new("ZADD", add::zadd, WRITE | DENY_OOM | FAST, Group::SortedSet)
        .args(&[
            key("key", RW | UPDATE),
            one_of("condition", &[token("nx", "NX"), token("xx", "XX")]).optional().since("3.0.2"),
            one_of("comparison", &[token("gt", "GT"), token("lt", "LT")]).optional().since("6.2.0"),
            token("change", "CH").optional().since("3.0.2"),
            token("increment", "INCR").optional().since("3.0.2"),
            block("score_member", &[double("score"), MEMBER]).multiple(),
        ])
        .docs("1.2.0", ADD_COST, "Adds members to a sorted set, or changes their scores."),
    Command::new("ZCARD", zcard, READ | FAST, Group::SortedSet)
        .args(&[key("key", RO)])
        .docs("1.2.0", "O(1)", "Returns the number of members of a sorted set."),
    Command::new("ZCOUNT", zcount, READ | FAST, Group::SortedSet)
        .args(&[READ_KEY, SCORES[0], SCORES[1]])
        .docs("2.0.0", LOG_COST, "Counts the members with scores in a range."),
    Command::new("ZDIFF", zdiff, READ | MOVABLE_KEYS, Group::SortedSet)
        .args(&[NUMKEYS, READ_KEYS, WITHSCORES])
        .docs("6.2.0", DIFF_COST, "Returns the elements of a sorted set whose members are in none of the others."),
    Command::new("ZDIFFSTORE", zdiffstore, WRITE | DENY_OOM | MOVABLE_KEYS, Group::SortedSet)
        .args(&[TARGET, NUMKEYS, READ_KEYS])
        .docs("6.2.0", DIFF_COST, "Stores the elements of a sorted set whose members are in none of the others."),
    Command::new("ZINCRBY", add::zincrby, WRITE | DENY_OOM | FAST, Group::SortedSet)
        .args(&[key("key", RW | ACCESS | UPDATE), integer("increment"), MEMBER])
        .docs("1.2.0", INCREMENT_COST, "Adds to the score of a member; a missing one counts as 0."),
    Command::new("ZINTER", zinter, READ | MOVABLE_KEYS, Group::SortedSet)
        .args(&[NUMKEYS, READ_KEYS, WEIGHTS, AGGREGATE, WITHSCORES])
        .docs("6.2.0", INTER_COST, "Returns the members that are in all of several sorted sets."),
    Command::new("ZINTERCARD", zintercard, READ | MOVABLE_KEYS, Group::SortedSet)
        .args(&[NUMKEYS, READ_KEYS, integer("limit").token("LIMIT").optional()])
        .docs("7.0.0", INTERCARD_COST, "Counts the members that are in all of several sorted sets."),
    Command::new("ZINTERSTORE", zinterstore, WRITE | DENY_OOM | MOVABLE_KEYS, Group::SortedSet)
        .args(&[TARGET, NUMKEYS, READ_KEYS, WEIGHTS, AGGREGATE])
        .effect(Effect::ValuesUnless(combine::is_known_to_older_servers))
        .docs("2.0.0", INTER_COST, "Stores the members that are in all of several sorted sets."),
    Command::new("ZLEXCOUNT", zlexcount, READ | FAST, Group::SortedSet)
        .args(&[READ_KEY, MEMBERS[0], MEMBERS[1]])
        .docs("2.8.9", LOG_COST, "Counts the members in a range of members with equal scores."),
    Command::new("ZMOVE", zmove, WRITE | DENY_OOM, Group::SortedSet)
        .effect(Effect::Given)
        .args(&[
            MOVE_FROM,
            MOVE_TO,
            one_of("selection", &[
                token("min", "MIN"),
                token("max", "MAX"),
                block("score-range", &[token("byscore", "BYSCORE"), double("score-min"), double("score-max")]),
            ]),
            COUNT,
        ])
        .docs("8.12.0", MOVE_SELECTED_COST, "Moves members with the lowest or highest scores, or those in a range, to another sorted set."),
    Command::new("ZMOVEMEMBER", zmovemember, WRITE | DENY_OOM, Group::SortedSet)
        .effect(Effect::Given)
        .args(&[
            MOVE_FROM,
            MOVE_TO,
            one_of("condition", &[token("nx", "NX"), token("xx", "XX")]).optional(),
            block("members", &[integer("num-members"), MEMBER.multiple()]).token("MEMBERS"),
        ])
        .docs("8.12.0", MOVE_NAMED_COST, "Moves members to another sorted set, at will only those that it has or has not."),
    Command::new("ZMPOP", zmpop, WRITE | MOVABLE_KEYS, Group::SortedSet)
        .effect(Effect::Given)
        .args(&[NUMKEYS, POP_KEY.multiple(), WHERE, COUNT])
        .docs("7.0.0", MULTI_POP_COST, "Removes elements with the lowest or highest scores from the first sorted set that has any."),
    Command::new("ZMSCORE", zmscore, READ | FAST, Group::SortedSet)
        .args(&[READ_KEY, MEMBER.multiple()])
        .docs("6.2.0", SCORES_COST, "Returns the scores of several members."),
    Command::new("ZPOPMAX", zpopmax, WRITE | FAST, Group::SortedSet)
        .args(&[POP_KEY, integer("count").optional()])
        .docs("5.0.0", POP_COST, "Removes and returns the elements with the highest scores."),
    Command::new("ZPOPMIN", zpopmin, WRITE | FAST, Group::SortedSet)
        .args(&[POP_KEY, integer("count").optional()])
        .docs("5.0.0", POP_COST, "Removes and returns the elements with the lowest scores."),
    Command::new("ZRANDMEMBER", random::zrandmember, READ, Group::SortedSet)
        .args(&[
            READ_KEY,
            block("options", &[integer("count"), token("withscores", "WITHSCORES").optional()]).optional(),
        ])
        .tips(&["nondeterministic_output"])
        .docs("6.2.0", RANDOM_COST, "Returns random members of a sorted set."),
    Command::new("ZRANGE", ranges::zrange, READ, Group::SortedSet)
        .args(&[
            READ_KEY,
            string("start"),
            string("stop"),
            SORT_BY.since("6.2.0"),
            REV.since("6.2.0"),
            LIMIT.since("6.2.0"),
            WITHSCORES,
        ])
        .docs("1.2.0", RANGE_COST, "Returns the elements in a range of ranks, of scores or of members."),
    Command::new("ZRANGEBYLEX", ranges::zrangebylex, READ, Group::SortedSet)
        .args(&[READ_KEY, MEMBERS[0], MEMBERS[1], LIMIT])
        .docs("2.8.9", SUBRANGE_COST, "Returns the members in a range of members with equal scores.")
        .deprecated("6.2.0", "`ZRANGE` with the `BYLEX` argument"),
    Command::new("ZRANGEBYSCORE", ranges::zrangebyscore, READ, Group::SortedSet)
        .args(&[READ_KEY, SCORES[0], SCORES[1], WITHSCORES.since("2.0.0"), LIMIT])
        .docs("1.0.5", SUBRANGE_COST, "Returns the members with scores in a range.")
        .deprecated("6.2.0", "`ZRANGE` with the `BYSCORE` argument"),
    Command::new("ZRANGESTORE", ranges::zrangestore, WRITE | DENY_OOM, Group::SortedSet)
        .args(&[key("dst", OW | UPDATE), key("src", RO | ACCESS), MEMBERS[0], MEMBERS[1], SORT_BY, REV, LIMIT])
        .docs("6.2.0", STORE_RANGE_COST, "Stores the elements in a range of ranks, of scores or of members."),
    Command::new("ZRANK", zrank, READ | FAST, Group::SortedSet)
        .args(&[READ_KEY, MEMBER, token("withscore", "WITHSCORE").optional().since("7.2.0")])
        .docs("2.0.0", "O(log(N))", "Returns the rank of a member, counted from the lowest score."),
    Command::new("ZREM", add::zrem, WRITE | FAST, Group::SortedSet)
        .args(&[REMOVE_KEY, MEMBER.multiple()])
        .docs("1.2.0", REMOVE_COST, "Removes members from a sorted set."),
    Command::new("ZREMRANGEBYLEX", ranges::zremrangebylex, WRITE, Group::SortedSet)
        .args(&[REMOVE_KEY, MEMBERS[0], MEMBERS[1]])
        .docs("2.8.9", REMOVE_RANGE_COST, "Removes the members in a range of members with equal scores."),
    Command::new("ZREMRANGEBYRANK", ranges::zremrangebyrank, WRITE, Group::SortedSet)
        .args(&[REMOVE_KEY, RANKS[0], RANKS[1]])
        .docs("2.0.0", REMOVE_RANGE_COST, "Removes the members in a range of ranks."),
    Command::new("ZREMRANGEBYSCORE", ranges::zremrangebyscore, WRITE, Group::SortedSet)
        .args(&[REMOVE_KEY, SCORES[0], SCORES[1]])
        .docs("1.2.0", REMOVE_RANGE_COST, "Removes the members with scores in a range."),
    Command::new("ZREVRANGE", ranges::zrevrange, READ, Group::SortedSet)
        .args(&[READ_KEY, RANKS[0], RANKS[1], WITHSCORES])
        .docs("1.2.0", RANGE_COST, "Returns the elements in a range of ranks, counted from the highest score.")
        .deprecated("6.2.0", "`ZRANGE` with the `REV` argument"),
    Command::new("ZREVRANGEBYLEX", ranges::zrevrangebylex, READ, Group::SortedSet)
        .args(&[READ_KEY, MEMBERS[1], MEMBERS[0], LIMIT])
        .docs("2.8.9", SUBRANGE_COST, "Returns the members in a range of members with equal scores, the last one first.")
        .deprecated("6.2.0", "`ZRANGE` with the `REV` and `BYLEX` arguments"),
    Command::new("ZREVRANGEBYSCORE", ranges::zrevrangebyscore, READ, Group::SortedSet)
        .args(&[READ_KEY, SCORES[1], SCORES[0], WITHSCORES, LIMIT])
        .docs("2.2.0", SUBRANGE_COST, "Returns the members with scores in a range, the highest score first.")
        .deprecated("6.2.0", "`ZRANGE` with the `REV` and `BYSCORE` arguments"),
    Command::new("ZREVRANK", zrevrank, READ | FAST, Group::SortedSet)
        .args(&[READ_KEY, MEMBER, token("withscore", "WITHSCORE").optional().since("7.2.0")])
        .docs("2.0.0", "O(log(N))", "Returns the rank of a member, counted from the highest score."),
    Command::new("ZSCAN", zscan, READ, Group::SortedSet)
        .args(&[
            READ_KEY,
            integer("cursor"),
            pattern("pattern").token("MATCH").optional(),
            COUNT,
        ])
        .tips(&["nondeterministic_output"])
        .docs("2.8.0", SCAN_COST, "Iterates over the members of a sorted set and their scores."),
    Command::new("ZSCORE", zscore, READ | FAST, Group::SortedSet)
        .args(&[READ_KEY, MEMBER])
        .docs("1.2.0", "O(1)", "Returns the score of a member."),
    Command::new("ZUNION", zunion, READ | MOVABLE_KEYS, Group::SortedSet)
        .args(&[NUMKEYS, READ_KEYS, WEIGHTS, AGGREGATE, WITHSCORES])
        .docs("6.2.0", UNION_COST, "Returns the members that are in any of several sorted sets."),
    Command::new("ZUNIONSTORE", zunionstore, WRITE | DENY_OOM | MOVABLE_KEYS, Group::SortedSet)
        .args(&[TARGET, NUMKEYS, READ_KEYS, WEIGHTS, AGGREGATE])
        .effect(Effect::ValuesUnless(combine::is_known_to_older_servers))
        .docs("2.0.0", UNIONSTORE_COST, "Stores the members that are in any of several sorted sets."),
];
