//! Geographic positions: sorted sets whose scores are positions.
//!
//! GEOADD is ZADD with the scores of positions; searches find members by intervals of scores.

mod polygon;
mod position;
mod protocol;
mod search;

use smallvec::SmallVec;

use crate::command::geo::position::Position;
use crate::command::geo::protocol::{read_position, read_unit, reply_distance, reply_position};
use crate::command::geo::search::{
    georadius, georadius_ro, georadiusbymember, georadiusbymember_ro, geosearch, geosearchstore,
};
use crate::command::sorted_set::add::{ZaddOptions, put};
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::resp::Request;
use crate::spec::{
    ACCESS, Arg, DENY_OOM, Effect, Group, KeyFlags, MOVABLE_KEYS, OW, READ, RO, RW, UPDATE, WRITE, block, double,
    integer, key, one_of, string, token,
};
use crate::store::Lookup;
use crate::store::value::SortedSet;

const ADD_COST: &str = "O(log(N)) for each item added, where N is the number of elements in the sorted set.";
const HASH_COST: &str = "O(log(N)) for each member requested, where N is the number of elements in the sorted set.";
const POSITION_COST: &str = "O(N) where N is the number of members requested.";
const SEARCH_COST: &str = "O(N+log(M)) where N is the number of elements in the grid-aligned bounding box area around \
    the shape provided as the filter and M is the number of items inside the shape";
const RADIUS_COST: &str = "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area \
    delimited by center and radius and M is the number of items inside the index.";

const BY_RADIUS: &str = "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` argument";
const BY_RADIUS_AND_MEMBER: &str = "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` and `FROMMEMBER` arguments";
const RO_BY_RADIUS: &str = "`GEOSEARCH` with the `BYRADIUS` argument";
const RO_BY_RADIUS_AND_MEMBER: &str = "`GEOSEARCH` with the `BYRADIUS` and `FROMMEMBER` arguments";

const READ_KEY: Arg = key("key", RO | ACCESS);
const UNIT: Arg = one_of("unit", &[token("m", "M"), token("km", "KM"), token("ft", "FT"), token("mi", "MI")]);
const LONGITUDE: Arg = double("longitude");
const LATITUDE: Arg = double("latitude");
const RADIUS: Arg = double("radius");
const FROM: Arg = one_of(
    "from",
    &[string("member").token("FROMMEMBER"), block("longitude_latitude", &[LONGITUDE, LATITUDE]).token("FROMLONLAT")],
)
.optional();
const BY: Arg = one_of(
    "by",
    &[
        block("circle", &[RADIUS.token("BYRADIUS"), UNIT]),
        block("box", &[double("width").token("BYBOX"), double("height"), UNIT]),
        block(
            "polygon",
            &[
                integer("num-vertices").token("BYPOLYGON"),
                block("longitude_latitude", &[LONGITUDE, LATITUDE]).multiple(),
            ],
        )
        .only_valkey("9.0.0"),
    ],
);
const ORDER: Arg = one_of("order", &[token("asc", "ASC"), token("desc", "DESC")]).optional();
const ANY: Arg = token("any", "ANY").optional();
const COUNT: Arg = block("count", &[integer("count").token("COUNT"), ANY]).optional();
const COUNT_BEFORE_ANY: Arg = block("count", &[integer("count").token("COUNT"), ANY.since("6.2.0")]).optional();
const WITH: [Arg; 3] = [
    token("withcoord", "WITHCOORD").optional(),
    token("withdist", "WITHDIST").optional(),
    token("withhash", "WITHHASH").optional(),
];
const STORE: Arg = key("key", OW | UPDATE).token("STORE").optional();
const STOREDIST: Arg = key("key", OW | UPDATE).token("STOREDIST").optional();

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("GEOADD", geoadd, WRITE | DENY_OOM, Group::Geo)
        .args(&[
            key("key", RW | UPDATE),
            one_of("condition", &[token("nx", "NX"), token("xx", "XX")]).optional().since("6.2.0"),
            token("change", "CH").optional().since("6.2.0"),
            block("longitude_latitude_member", &[LONGITUDE, LATITUDE, string("member")]).multiple(),
        ])
        .docs("3.2.0", ADD_COST, "Adds members with their positions, or moves them."),
    Command::new("GEODIST", geodist, READ, Group::Geo)
        .args(&[READ_KEY, string("member1"), string("member2"), UNIT.optional()])
        .docs("3.2.0", "O(log(N))", "Returns the distance between two members."),
    Command::new("GEOHASH", geohash, READ, Group::Geo)
        .args(&[READ_KEY, string("member").multiple()]).arity(-2)
        .docs("3.2.0", HASH_COST, "Returns the positions of members as geohashes."),
    Command::new("GEOPOS", geopos, READ, Group::Geo)
        .args(&[READ_KEY, string("member").multiple()]).arity(-2)
        .docs("3.2.0", POSITION_COST, "Returns the positions of members."),
    Command::new("GEORADIUS", georadius, WRITE | DENY_OOM | MOVABLE_KEYS, Group::Geo)
        .args(&[
            READ_KEY, LONGITUDE, LATITUDE, RADIUS, UNIT, WITH[0], WITH[1], WITH[2], COUNT_BEFORE_ANY, ORDER, STORE,
            STOREDIST,
        ])
        .key_search(|request| searched_and_stored(request, 6))
        .deprecated("6.2.0", BY_RADIUS)
        .docs("3.2.0", RADIUS_COST, "Finds the members within a radius of a position."),
    Command::new("GEORADIUSBYMEMBER", georadiusbymember, WRITE | DENY_OOM | MOVABLE_KEYS, Group::Geo)
        .args(&[
            READ_KEY, string("member"), RADIUS, UNIT, WITH[0], WITH[1], WITH[2], COUNT, ORDER, STORE, STOREDIST,
        ])
        .key_search(|request| searched_and_stored(request, 5))
        .deprecated("6.2.0", BY_RADIUS_AND_MEMBER)
        .docs("3.2.0", RADIUS_COST, "Finds the members within a radius of a member."),
    Command::new("GEORADIUSBYMEMBER_RO", georadiusbymember_ro, READ, Group::Geo)
        .args(&[READ_KEY, string("member"), RADIUS, UNIT, WITH[0], WITH[1], WITH[2], COUNT, ORDER])
        .deprecated("6.2.0", RO_BY_RADIUS_AND_MEMBER)
        .docs("3.2.10", RADIUS_COST, "Finds the members within a radius of a member, read-only."),
    Command::new("GEORADIUS_RO", georadius_ro, READ, Group::Geo)
        .args(&[READ_KEY, LONGITUDE, LATITUDE, RADIUS, UNIT, WITH[0], WITH[1], WITH[2], COUNT_BEFORE_ANY, ORDER])
        .deprecated("6.2.0", RO_BY_RADIUS)
        .docs("3.2.10", RADIUS_COST, "Finds the members within a radius of a position, read-only."),
    Command::new("GEOSEARCH", geosearch, READ, Group::Geo)
        .args(&[READ_KEY, FROM, BY, ORDER, COUNT, WITH[0], WITH[1], WITH[2]]).arity(-7)
        .docs("6.2.0", SEARCH_COST, "Finds the members in a circle, a rectangle or a polygon."),
    Command::new("GEOSEARCHSTORE", geosearchstore, WRITE | DENY_OOM, Group::Geo)
        .args(&[
            key("destination", OW | UPDATE), key("source", RO | ACCESS), FROM, BY, ORDER, COUNT,
            token("storedist", "STOREDIST").optional(),
        ])
        .arity(-8)
        .effect(Effect::ValuesUnless(|request| !request.args().any(|word| is_word(word, "BYPOLYGON"))))
        .docs("6.2.0", SEARCH_COST, "Stores the members in a circle, a rectangle or a polygon in another key."),
];

/// Finds the key that is searched and the key of STORE or STOREDIST, of which the last occurrence counts.
fn searched_and_stored(request: Request<'_>, options_at: usize) -> Vec<(usize, KeyFlags)> {
    let is_store = |at: &usize| ["STORE", "STOREDIST"].iter().any(|word| is_word(request.arg(*at), word));
    let mut stored = None;
    let mut at = options_at;
    while at + 1 < request.len() {
        let is_found = is_store(&at);
        stored = if is_found { Some((at + 1, OW | UPDATE)) } else { stored };
        at += 1 + usize::from(is_found);
    }
    std::iter::once((1, RO | ACCESS)).chain(stored).collect()
}

fn geoadd(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let (mut options, mut count) = (ZaddOptions::default(), 0);
    for word in call.args.rest() {
        match word {
            word if is_word(word, "NX") => options.only_new = true,
            word if is_word(word, "XX") => options.only_existing = true,
            word if is_word(word, "CH") => options.counts_changes = true,
            _ => break,
        }
        count += 1;
    }
    for _ in 0..count {
        call.args.next_arg();
    }
    if !call.args.left().is_multiple_of(3) || options.only_new && options.only_existing {
        return Err(Error::Syntax);
    }
    let members = call.args.rest().skip(2).step_by(3);
    let mut scores: SmallVec<[f64; 8]> = SmallVec::new();
    while call.args.left() > 0 {
        scores.push(read_position(&mut call.args)?.score());
        call.args.next_arg();
    }
    if scores.is_empty() {
        return Err(Error::Syntax);
    }
    let tally = put(call, key, options, &scores, members)?;
    call.reply.int(tally.count(options) as i64);
    Ok(())
}

fn geopos(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let set = call.view.get::<SortedSet>(key, Lookup::READ)?;
    call.reply.array(call.args.left());
    while let Some(member) = call.args.next_arg() {
        match set.and_then(|set| set.score(member)) {
            Some(score) => reply_position(&mut call.reply, Position::of_score(score)),
            None => call.reply.null_array(),
        }
    }
    Ok(())
}

fn geohash(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let set = call.view.get::<SortedSet>(key, Lookup::READ)?;
    call.reply.array(call.args.left());
    while let Some(member) = call.args.next_arg() {
        match set.and_then(|set| set.score(member)) {
            Some(score) => call.reply.bulk(&Position::of_score(score).geohash()),
            None => call.reply.null(),
        }
    }
    Ok(())
}

fn geodist(call: &mut Call<'_>) -> Result<()> {
    let (key, one, other) = (call.args.key()?, call.args.bytes()?, call.args.bytes()?);
    let unit_m = match call.args.left() {
        0 => 1.0,
        1 => read_unit(call.args.bytes()?)?,
        _ => return Err(Error::Syntax),
    };
    let set = call.view.get::<SortedSet>(key, Lookup::READ)?;
    let position = |member| set.and_then(|set| set.score(member)).map(Position::of_score);
    match (position(one), position(other)) {
        (Some(one), Some(other)) => reply_distance(&mut call.reply, one.distance_m(other) / unit_m),
        _ => call.reply.null(),
    }
    Ok(())
}
