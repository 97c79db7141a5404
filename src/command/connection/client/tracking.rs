//! CLIENT TRACKING, CACHING, TRACKINGINFO and GETREDIR: client-side caching.
//!
//! The state and the messages are in [`tracking`](crate::push::tracking).

use crate::client::tracking::{BROADCAST, BROKEN, CACHING, NO_LOOP, ON, OPT_IN, OPT_OUT, TrackingFlags};
use crate::command::connection::client::is_word;
use crate::dispatch::Call;
use crate::error::{Error, Result};
use crate::push::tracking::{Overlap, find_overlap};
use crate::spec::{Arg, integer, one_of, string, token};

/// The grammar of CLIENT TRACKING.
pub(crate) const TRACKING_ARGS: &[Arg] = &[
    one_of("status", &[token("on", "ON"), token("off", "OFF")]),
    integer("client-id").token("REDIRECT").optional(),
    string("prefix").token("PREFIX").optional().multiple_token(),
    token("bcast", "BCAST").optional(),
    token("optin", "OPTIN").optional(),
    token("optout", "OPTOUT").optional(),
    token("noloop", "NOLOOP").optional(),
];

/// The reply of CLIENT GETREDIR while tracking is off.
const NO_REDIRECTION: i64 = -1;

const SWITCHED: &str = "before disabling tracking for this client, and then re-enabling it with a different mode.";

#[derive(Default)]
struct Options<'a> {
    flags: TrackingFlags,
    redirect: u64,
    prefixes: Vec<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn read(call: &mut Call<'a>) -> Result<Self> {
        let mut options = Options::default();
        while let Some(word) = call.args.next_arg() {
            let has_value = call.args.left() > 0;
            if is_word(word, "REDIRECT") && has_value {
                if options.redirect != 0 {
                    return Err(Error::other("A client can only redirect to a single other client"));
                }
                let id = call.args.int()? as u64;
                call.namespace
                    .clients
                    .find(id)
                    .ok_or(Error::other("The client ID you want redirect to does not exist"))?;
                options.redirect = id;
            } else if is_word(word, "BCAST") {
                options.flags |= BROADCAST;
            } else if is_word(word, "OPTIN") {
                options.flags |= OPT_IN;
            } else if is_word(word, "OPTOUT") {
                options.flags |= OPT_OUT;
            } else if is_word(word, "NOLOOP") {
                options.flags |= NO_LOOP;
            } else if is_word(word, "PREFIX") && has_value {
                options.prefixes.push(call.args.bytes()?);
            } else {
                return Err(Error::Syntax);
            }
        }
        Ok(options)
    }

    /// Checks that the options are compatible with each other and with the present mode.
    fn check(&self, before: TrackingFlags) -> Result<()> {
        let (wants, has) = (|flags| self.flags & flags == flags, |flag| before & flag != 0);
        if !wants(BROADCAST) && !self.prefixes.is_empty() {
            return Err(Error::other("PREFIX option requires BCAST mode to be enabled"));
        }
        if has(ON) && has(BROADCAST) != wants(BROADCAST) {
            return Err(Error::other(format!("You can't switch BCAST mode on/off {SWITCHED}")));
        }
        if wants(BROADCAST) && self.flags & (OPT_IN | OPT_OUT) != 0 {
            return Err(Error::other("OPTIN and OPTOUT are not compatible with BCAST"));
        }
        if wants(OPT_IN | OPT_OUT) {
            return Err(Error::other("You can't specify both OPTIN mode and OPTOUT mode"));
        }
        if wants(OPT_IN) && has(OPT_OUT) || wants(OPT_OUT) && has(OPT_IN) {
            return Err(Error::other(format!("You can't switch OPTIN/OPTOUT mode {SWITCHED}")));
        }
        Ok(())
    }
}

pub(crate) fn tracking(call: &mut Call<'_>) -> Result<()> {
    let status = call.args.bytes()?;
    let options = Options::read(call)?;
    let (tracking, events) = (&call.namespace.push.tracking, call.namespace.store.events());
    let client = call.caller.info.clone();
    if is_word(status, "ON") {
        options.check(client.tracking.flags())?;
        let existing = tracking.prefixes_of(client.id);
        if let Some(overlap) = find_overlap(&existing, &options.prefixes) {
            return Err(refusal(&overlap));
        }
        tracking.join(&client, options.flags, options.redirect, &options.prefixes, events);
    } else if is_word(status, "OFF") {
        tracking.leave(&client, events);
        call.take_pushed();
    } else {
        return Err(Error::Syntax);
    }
    call.end_batch();
    call.update_recording();
    call.reply.ok();
    Ok(())
}

fn refusal(overlap: &Overlap<'_>) -> Error {
    let (prefix, kind, other) = match overlap {
        Overlap::Existing(prefix, other) => (prefix, "an existing", other),
        Overlap::Provided(prefix, other) => (prefix, "another provided", other),
    };
    Error::PrefixOverlap(prefix.to_vec(), kind, other.to_vec())
}

pub(crate) fn caching(call: &mut Call<'_>) -> Result<()> {
    let (word, mode) = (call.args.bytes()?, &call.caller.info.tracking);
    if !mode.is_on() {
        return Err(Error::other(
            "CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
        ));
    }
    let (needed, refusal) = match word {
        word if is_word(word, "YES") => {
            (OPT_IN, "CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
        }
        word if is_word(word, "NO") => {
            (OPT_OUT, "CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
        }
        _ => return Err(Error::Syntax),
    };
    if !mode.has(needed) {
        return Err(Error::other(refusal));
    }
    mode.raise(CACHING);
    call.reply.ok();
    Ok(())
}

pub(crate) fn get_redir(call: &mut Call<'_>) -> Result<()> {
    let redirection = redirection(call);
    call.reply.int(redirection);
    Ok(())
}

fn redirection(call: &Call<'_>) -> i64 {
    let mode = &call.caller.info.tracking;
    if mode.is_on() { mode.redirect() as i64 } else { NO_REDIRECTION }
}

pub(crate) fn tracking_info(call: &mut Call<'_>) -> Result<()> {
    let mode = &call.caller.info.tracking;
    let told = [
        (ON, "on"),
        (BROADCAST, "bcast"),
        (OPT_IN, "optin"),
        (OPT_IN | CACHING, "caching-yes"),
        (OPT_OUT, "optout"),
        (OPT_OUT | CACHING, "caching-no"),
        (NO_LOOP, "noloop"),
        (BROKEN, "broken_redirect"),
    ];
    let flags = mode.flags();
    let mut words: Vec<&str> = told.iter().filter(|(all, _)| flags & all == *all).map(|(_, word)| *word).collect();
    if words.is_empty() {
        words.push("off");
    }
    let redirection = redirection(call);
    let prefixes = call.namespace.push.tracking.prefixes_of(call.caller.info.id);
    let reply = &mut call.reply;
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(words.len());
    words.iter().for_each(|word| reply.bulk(word.as_bytes()));
    reply.bulk(b"redirect");
    reply.int(redirection);
    reply.bulk(b"prefixes");
    reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| reply.bulk(prefix));
    Ok(())
}
