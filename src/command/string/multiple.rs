//! MSETEX: sets several keys at once, under a condition on all of them and with a common TTL.
//!
//! MSET and MSETNX, which only take pairs, are elsewhere.
//!
//! Invariant: either all keys are set or none.

use smallvec::SmallVec;

use crate::command::string::events::{SET, SET_EX};
use crate::command::ttl::{Amount, OtherTtlOption, TtlOption};
use crate::dispatch::args::is_word;
use crate::dispatch::{Args, Call};
use crate::error::{Error, Result};
use crate::resp::parse_int;
use crate::spec::{Arg, OW, UPDATE, block, key, one_of, string, token};
use crate::store::{Key, Str, Ttl};

pub(crate) const PAIRS: Arg = block("data", &[key("key", OW | UPDATE), string("value")]).multiple();
pub(crate) const CONDITION: Arg = one_of("condition", &[token("nx", "NX"), token("xx", "XX")]).optional();

pub(crate) fn msetex(call: &mut Call<'_>) -> Result<()> {
    let count = read_count(&mut call.args)?;
    let mut pairs: SmallVec<[(Key<'_>, Str<'_>); 8]> = SmallVec::new();
    for _ in 0..count {
        pairs.push((call.args.key()?, call.args.text()?));
    }
    let (exists, ttl) = read_options(&mut call.args)?;
    let ttl = ttl.of_written_key(call, Ttl::Clear)?;
    let met = exists.is_none_or(|expected| pairs.iter().all(|(key, _)| call.view.exists(*key) == expected));
    if met {
        let event = if matches!(ttl, Ttl::At(_)) { SET_EX } else { SET };
        for (key, value) in pairs {
            call.view.set(key, value, ttl, event);
        }
    }
    call.reply.int(i64::from(met));
    Ok(())
}

/// Parses the number of pairs, and checks that they follow.
fn read_count(args: &mut Args<'_>) -> Result<usize> {
    let count = parse_int(args.bytes()?).and_then(|count| i32::try_from(count).ok()).filter(|count| *count > 0);
    let count = count.ok_or(Error::other("invalid numkeys value"))?.unsigned_abs() as usize;
    if count <= args.left() / 2 { Ok(count) } else { Err(Error::other("wrong number of key-value pairs")) }
}

/// Parses the options to the end of the request: the required existence (XX) or absence (NX) of all keys, and their
/// TTL.
fn read_options<'a>(args: &mut Args<'a>) -> Result<(Option<bool>, TtlOption<Amount<'a>>)> {
    let (mut exists, mut ttl) = (None, TtlOption::Absent);
    while let Some(word) = args.next_arg() {
        if is_word(word, "NX") && exists != Some(true) {
            exists = Some(false);
        } else if is_word(word, "XX") && exists != Some(false) {
            exists = Some(true);
        } else {
            ttl.choose(TtlOption::read(word, OtherTtlOption::KeepTtl, args)?)?;
        }
    }
    Ok((exists, ttl))
}
