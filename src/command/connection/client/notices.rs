//! CLIENT MAINT_NOTIFICATIONS: asks for notices of maintenance, as the handshakes of client libraries do.

use crate::client::info::NoticeMode;
use crate::dispatch::Call;
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};
use crate::resp::Protocol;
use crate::spec::{Arg, one_of, token};

#[rustfmt::skip] // every argument is on a line of its own
pub(super) const ARGS: &[Arg] = &[
    one_of("enabled", &[token("on", "ON"), token("off", "OFF")]),
    one_of("moving-endpoint-type", &[
        token("internal-ip", "internal-ip"),
        token("internal-fqdn", "internal-fqdn"),
        token("external-ip", "external-ip"),
        token("external-fqdn", "external-fqdn"),
        token("none", "none"),
    ]).token("moving-endpoint-type").optional(),
];

/// Kinds of addresses that a client may want to be told in MOVING.
const ENDPOINT_TYPES: [&str; 5] = ["internal-ip", "internal-fqdn", "external-ip", "external-fqdn", "none"];

pub(super) fn maint_notifications(call: &mut Call<'_>) -> Result<()> {
    let word = call.args.bytes()?;
    let is_on = is_word(word, "ON");
    if !is_on && !is_word(word, "OFF") {
        return Err(Error::Syntax);
    }
    let mut has_addresses = true;
    if let Some(word) = call.args.next_arg() {
        if !is_word(word, "moving-endpoint-type") {
            return Err(Error::Syntax);
        }
        let kind = call.args.bytes()?;
        if !ENDPOINT_TYPES.iter().any(|known| is_word(kind, known)) {
            return Err(Error::other(format!("moving-endpoint-type is one of {}", ENDPOINT_TYPES.join(", "))));
        }
        has_addresses = !is_word(kind, "none");
    }
    if call.args.left() > 0 {
        return Err(Error::Syntax);
    }
    if is_on && call.caller.protocol != Protocol::Resp3 {
        return Err(Error::other("notices of maintenance are push messages, which need RESP3"));
    }
    let mode = match (is_on, has_addresses) {
        (false, _) => NoticeMode::Off,
        (true, true) => NoticeMode::WithAddresses,
        (true, false) => NoticeMode::WithoutAddresses,
    };
    call.caller.info.flags.set_notices(mode);
    call.reply.ok();
    let at = (call.config, call.now());
    call.namespace.push.maintenance.welcome(&call.caller.info, at);
    Ok(())
}
