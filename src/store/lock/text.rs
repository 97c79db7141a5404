//! Text format for the state of a lock: for files, and for replicas.
//!
//! ```text
//! 1 <mode> <size or fence> <since> <holders> then of each
//! <fence> <since> <permits> <until> <flags> <length of the token> <of META> <of the user> <token><META><user>
//! ```
//!
//! The mode is `x` for an exclusive lock, `s` for a shared one, `p` for a semaphore. Times are wall-clock times:
//! `since` in microseconds since 1970, `until` in milliseconds, -1 for never. Of the flags, 1 is SESSION, 2 NOTIFY, 4
//! META. A lock that was acquired by another command than LOCK.ACQUIRE has no user.

use std::io::Write;
use std::sync::Arc;

use crate::store::expire::NEVER;
use crate::store::lock::held::HeldLock;
use crate::store::lock::holders::{Sharing, is_shared_value};
use crate::store::lock::image::{HolderImage, LockImage};
use crate::store::lock::{LockHolder, LockRecord};
use crate::time::clock::Now;

/// Version of the format, the first word of a text.
const VERSION: i64 = 1;
const SESSION: i64 = 1;
const NOTIFY: i64 = 2;
const META: i64 = 4;

/// Writes the text of a lock.
pub(in crate::store) fn encode(lock: HeldLock<'_>, now: Now) -> Vec<u8> {
    let mut out = Vec::new();
    let wall_us = |held_us: u64| now.wall_us().saturating_sub_unsigned(held_us);
    let since_us = |record: &LockRecord| wall_us(record.held_us(now.mono_us()));
    match lock {
        HeldLock::Exclusive(record) => {
            push(&mut out, format_args!("{VERSION} x 0 {} 1 ", since_us(record)));
            push_holder(&mut out, record, (0, -1), since_us(record));
        }
        HeldLock::Shared(holders) => {
            let (mode, number) = match holders.sharing() {
                Sharing::Readers { fence } => ('s', fence),
                Sharing::Permits { size } => ('p', size.into()),
            };
            let held_since_us = wall_us(holders.held_us(now.mono_us()));
            push(&mut out, format_args!("{VERSION} {mode} {number} {held_since_us} {} ", holders.len()));
            for (_, holder) in holders.iter() {
                let until_ms = match holder.until_ms {
                    NEVER => -1,
                    until_ms => now.wall_offset_ms().saturating_add_unsigned(until_ms).max(0),
                };
                push_holder(&mut out, &holder.record, (holder.permits, until_ms), since_us(&holder.record));
            }
        }
    }
    out
}

fn push(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text); // a vector takes everything
}

fn push_holder(out: &mut Vec<u8>, record: &LockRecord, (permits, until_ms): (u32, i64), since_us: i64) {
    let user = record.hold.as_ref().and_then(|hold| hold.holder().user());
    let (meta, user) = (record.meta.as_deref().unwrap_or_default(), user.as_deref().unwrap_or_default());
    let flag = |is_set: bool, flag| if is_set { flag } else { 0 };
    let flags =
        flag(record.session.is_some(), SESSION) + flag(record.is_announced, NOTIFY) + flag(record.meta.is_some(), META);
    let (fence, lens) = (record.fence, [record.token.len(), meta.len(), user.len()]);
    push(out, format_args!("{fence} {since_us} {permits} {until_ms} {flags} {} {} {} ", lens[0], lens[1], lens[2]));
    out.extend_from_slice(&record.token);
    out.extend_from_slice(meta);
    out.extend_from_slice(user);
    out.push(b' ');
}

/// Reader of the words of a text.
struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    fn word(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == b' ')?;
        let word = &self.0[..end];
        self.0 = &self.0[end + 1..];
        Some(word)
    }

    fn number(&mut self) -> Option<i64> {
        std::str::from_utf8(self.word()?).ok()?.parse().ok()
    }

    fn bytes(&mut self, len: i64) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(len).ok()?)?;
        self.0 = rest;
        Some(bytes)
    }
}

/// Parses the text of a lock; `former` returns the stand-in holder for the clients of a user. Returns `None` for any
/// other text.
pub(in crate::store) fn decode(
    text: &[u8],
    now: Now,
    former: impl Fn(&[u8]) -> Arc<dyn LockHolder>,
) -> Option<LockImage> {
    let mut words = Words(text);
    if words.number()? != VERSION {
        return None;
    }
    let mode = words.word()?;
    let (number, since_us, count) = (words.number()?, now.mono_us_at(words.number()?), words.number()?);
    let shared = match mode {
        b"x" => None,
        b"s" => Some((Sharing::Readers { fence: number }, since_us)),
        b"p" => Some((Sharing::Permits { size: u32::try_from(number).ok()? }, since_us)),
        _ => return None,
    };
    let mut holders = Vec::new();
    for _ in 0..count {
        holders.push(read_holder(&mut words, now, &former)?);
    }
    let is_whole = words.0.is_empty() && !holders.is_empty() && (shared.is_some() || holders.len() == 1);
    is_whole.then(|| LockImage::new(shared, holders))
}

fn read_holder(words: &mut Words<'_>, now: Now, former: &impl Fn(&[u8]) -> Arc<dyn LockHolder>) -> Option<HolderImage> {
    let (fence, since_us) = (words.number()?, now.mono_us_at(words.number()?));
    let (permits, until_ms, flags) = (u32::try_from(words.number()?).ok()?, words.number()?, words.number()?);
    let lens = [words.number()?, words.number()?, words.number()?];
    let (token, meta, user) = (words.bytes(lens[0])?, words.bytes(lens[1])?, words.bytes(lens[2])?);
    words.word().filter(|rest| rest.is_empty() && !is_shared_value(token))?;
    let client = former(user);
    let until_ms = match until_ms {
        -1 => NEVER,
        until_ms => until_ms.saturating_sub(now.wall_offset_ms()).max(0).unsigned_abs(),
    };
    Some(HolderImage {
        token: token.into(),
        fence,
        since_us,
        session: (flags & SESSION != 0).then(|| client.clone()),
        holder: (!user.is_empty()).then_some(client),
        is_announced: flags & NOTIFY != 0,
        meta: (flags & META != 0).then(|| meta.into()),
        permits,
        until_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::lock::HoldGuard;
    use crate::store::lock::holders::{Holder, Holders};

    /// A client with a name.
    struct Named(Vec<u8>);

    impl LockHolder for Named {
        fn id(&self) -> u64 {
            7
        }

        fn is_gone(&self) -> bool {
            false
        }

        fn user(&self) -> Option<Arc<[u8]>> {
            Some((&*self.0).into())
        }

        fn count_lock(&self, _: u64, _: bool) {}

        fn bind_lock(&self, _: usize, _: &[u8]) {}

        fn unbind_lock(&self, _: usize, _: &[u8]) {}
    }

    fn named(user: &[u8]) -> Arc<dyn LockHolder> {
        Arc::new(Named(user.to_vec()))
    }

    fn record(token: &[u8], meta: Option<&[u8]>) -> LockRecord {
        let client = named(b"a user");
        let session = meta.is_some().then(|| client.clone());
        let (hold, meta) = (Some(HoldGuard::new(client, 0)), meta.map(Into::into));
        LockRecord { token: token.into(), fence: i64::MAX, since_us: 5_000, hold, session, is_announced: true, meta }
    }

    fn text_of(image: &LockImage, now: Now) -> Vec<u8> {
        let Some((sharing, since_us)) = image.shared else {
            return encode(HeldLock::Exclusive(&image.holders[0].record(0)), now);
        };
        let mut holders = Holders::new(sharing, since_us);
        for (at, holder) in image.holders.iter().enumerate() {
            holders.add(Holder::new(holder.record(0), at as u64, holder.permits, holder.until_ms));
        }
        encode(HeldLock::Shared(&holders), now)
    }

    #[test]
    fn what_is_known_of_a_lock_is_the_same_after_it_was_a_text() {
        let (then, now) = (Now::at_ms(10, 1_700_000_000_010), Now::at_ms(1_010, 1_700_000_001_010));
        let exclusive = record(b" a \xff\r\n", Some(b""));
        let mut shared = Holders::new(Sharing::Readers { fence: 3 }, 4_000);
        let mut permits = Holders::new(Sharing::Permits { size: 9 }, 4_000);
        for (at, token) in [b"one", b"two"].into_iter().enumerate() {
            shared.add(Holder::new(record(token, None), at as u64, 0, if at == 0 { NEVER } else { 5_000 }));
            permits.add(Holder::new(record(token, Some(b"x y")), at as u64, 3, 20));
        }
        for lock in [HeldLock::Exclusive(&exclusive), HeldLock::Shared(&shared), HeldLock::Shared(&permits)] {
            let text = encode(lock, then);
            let image = decode(&text, now, named).expect("it is a text of a lock");
            assert_eq!(image.value(), LockImage::of(lock).value());
            assert_eq!(text_of(&image, now), text, "{}", text.escape_ascii());
            for len in 0..text.len() {
                assert!(decode(&text[..len], now, named).is_none(), "{}", text[..len].escape_ascii());
            }
            assert!(decode(&[&text[..], b" "].concat(), now, named).is_none());
        }
        for text in [
            "",
            "1 x 0 0 0 ",
            "2 x 0 0 1 ",
            "1 q 0 0 1 ",
            "1 x 0 0 9223372036854775807 ",
            "1 s 0 0 1 1 1 1 1 1 9223372036854775807 0 0 t",
            "1 x 0 0 1 1 0 0 -1 0 7 0 0 shared: ",
        ] {
            assert!(decode(text.as_bytes(), now, named).is_none(), "{text}");
        }
    }
}
