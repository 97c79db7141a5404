//! The arguments of LOCK.ACQUIRE and LOCK.ACQUIREMULTI, and keys in errors: shortened, in a form that no key can use to
//! imitate other text, and hidden from callers that may not read them.

use smallvec::{SmallVec, smallvec};

use crate::command::lock::claim::{LockClaim, has_permits};
use crate::command::lock::replicated::read_replicas;
use crate::command::timeout::read_timeout;
use crate::command::ttl::{Amount, Unit};
use crate::dispatch::Call;
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};
use crate::namespace::ReservedSlot;
use crate::store::{Key, LockMode, is_shared_value};
use crate::text::quote;
use crate::time::clock::Deadline;

/// The arguments of a client that asks for locks.
pub(super) struct AcquireArgs<'a> {
    /// The key of the lock, or of several locks at once.
    pub(super) keys: SmallVec<[Key<'a>; 1]>,
    pub(super) claim: LockClaim<'a>,
    /// The end of the wait, in monotonic milliseconds; `None` without waiting.
    pub(super) until_ms: Option<u64>,
    /// The number of replicas that must have the lock before the reply; `None` without REPLICAS.
    pub(super) replicas: Option<usize>,
    /// True if a lock that the caller holds is to be held in another mode.
    is_conversion: bool,
    /// The place in the queues that was reserved for the caller.
    pub(super) kept: Option<ReservedSlot>,
}

impl<'a> AcquireArgs<'a> {
    /// Parses the arguments of LOCK.ACQUIRE.
    pub(super) fn for_one(call: &mut Call<'a>) -> Result<Self> {
        let key = call.args.key()?;
        AcquireArgs::read(call, smallvec![key], LockMode::Exclusive)
    }

    /// Parses the arguments of LOCK.ACQUIREMULTI.
    pub(super) fn for_several(call: &mut Call<'a>) -> Result<Self> {
        let count = call.args.positive("invalid numkeys value")?;
        if count >= call.args.left() {
            return Err(Error::Syntax);
        }
        let keys = (0..count).map(|_| call.args.key()).collect::<Result<SmallVec<[Key<'a>; 1]>>>()?;
        let mut sorted: Vec<&[u8]> = keys.iter().map(|key| key.bytes).collect();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::other(format!("key '{}' is named twice", shown_key(call, twice[0]))));
        }
        AcquireArgs::read(call, keys, LockMode::Several)
    }

    /// Parses the token and the options.
    fn read(call: &mut Call<'a>, keys: SmallVec<[Key<'a>; 1]>, mode: LockMode) -> Result<Self> {
        let token = call.args.bytes()?;
        let token_hash = call.namespace.store.hash(token);
        let (deadline, meta, is_session, is_announced) = (None, None, false, false);
        let claim = LockClaim { token, token_hash, mode, deadline, is_session, is_announced, meta };
        let mut ask = AcquireArgs { keys, claim, until_ms: None, replicas: None, is_conversion: false, kept: None };
        while let Some(word) = call.args.next_arg() {
            if !ask.take_option(call, word)? {
                return Err(Error::Syntax);
            }
        }
        if ask.is_conversion {
            ask.claim.mode = match ask.claim.mode {
                LockMode::Exclusive if ask.replicas.is_none() => LockMode::Upgrade,
                LockMode::Shared if ask.replicas.is_none() => LockMode::Downgrade,
                _ => return Err(Error::Syntax),
            };
        }
        ask.replicas = ask.replicas.filter(|replicas| *replicas > 0);
        if ask.claim.deadline.is_none() && !ask.claim.is_session {
            return Err(Error::other(match ask.claim.mode {
                LockMode::Several => "LOCK.ACQUIREMULTI needs PX or SESSION",
                _ => "LOCK.ACQUIRE needs PX or SESSION",
            }));
        }
        if is_shared_value(token) {
            return Err(Error::other("a token cannot begin with 'shared:' or 'permits:'"));
        }
        if ask.until_ms.is_some() && !call.is_nested() && !call.is_retry() {
            let (token, mode, db) = (token_hash, ask.claim.mode, call.caller.db);
            let keys = ask.keys.iter().map(|key| key.bytes.into());
            let asked = || ReservedSlot { number: 0, token, mode, db, keys: keys.collect() };
            ask.kept = call.namespace.lock_holders.kept_place(asked);
        }
        Ok(ask)
    }

    /// Parses an option; returns false if the option is unknown or repeated.
    fn take_option(&mut self, call: &mut Call<'a>, word: &[u8]) -> Result<bool> {
        let is_first = if is_word(word, "PX") {
            self.claim.deadline.replace(read_deadline(call)?).is_none()
        } else if is_word(word, "BLOCK") {
            self.until_ms.replace(read_timeout(call)?).is_none()
        } else if is_word(word, "SESSION") {
            !std::mem::replace(&mut self.claim.is_session, true)
        } else if is_word(word, "NOTIFY") {
            !std::mem::replace(&mut self.claim.is_announced, true)
        } else if is_word(word, "META") {
            self.claim.meta.replace(call.args.bytes()?).is_none()
        } else if self.claim.mode == LockMode::Several {
            false
        } else if is_word(word, "REPLICAS") {
            self.replicas.replace(read_replicas(call)?).is_none()
        } else if is_word(word, "CONVERT") {
            !std::mem::replace(&mut self.is_conversion, true)
        } else if is_word(word, "SHARED") {
            std::mem::replace(&mut self.claim.mode, LockMode::Shared) == LockMode::Exclusive
        } else if is_word(word, "PERMITS") {
            let count = read_permits(call)?;
            std::mem::replace(&mut self.claim.mode, LockMode::Permits { count, size: 0 }) == LockMode::Exclusive
        } else if is_word(word, "OF") {
            match &mut self.claim.mode {
                LockMode::Permits { count, size } if *size == 0 => {
                    *size = read_permits(call)?;
                    if count > size {
                        return Err(has_permits(*size));
                    }
                    true
                }
                _ => false,
            }
        } else {
            false
        };
        Ok(is_first)
    }
}

/// Parses a TTL in milliseconds, which counts from now on.
pub(super) fn read_deadline(call: &mut Call<'_>) -> Result<Deadline> {
    Amount { unit: Unit::Milliseconds, number: call.args.bytes()? }.deadline(call)
}

/// Parses a number of permits.
pub(super) fn read_permits(call: &mut Call<'_>) -> Result<u32> {
    let number = u32::try_from(call.args.int()?).ok();
    number.filter(|number| (1..=i32::MAX as u32).contains(number)).ok_or(Error::NotInteger)
}

/// The bytes of a key that are shown.
const KEY_SHOWN: usize = 64;

/// Returns a key in the form for an error to the caller.
pub(super) fn shown_key(call: &Call<'_>, key: &[u8]) -> String {
    if !call.caller.access.reads_key(key) {
        return "?".to_owned();
    }
    let key = &key[..key.len().min(KEY_SHOWN)];
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    if !key.is_empty() && key.iter().all(is_plain) { String::from_utf8_lossy(key).into_owned() } else { quote(key) }
}
