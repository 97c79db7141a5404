//! DEBUG DIGEST: a digest of the data, computed as in Redis, to compare two servers.
//!
//! A digest is twenty bytes that start at zero. To *add* bytes is to XOR their SHA-1 into it, which does not depend on
//! the order; to *mix* them is to add them and then to replace the digest by its own SHA-1, which does.

use sha1::{Digest as _, Sha1};

use crate::dispatch::Call;
use crate::error::Result;
use crate::resp::format_general;
use crate::store::entry::Entry;
#[cfg(feature = "internals")]
use crate::store::{HeldLock, Holder, LockRecord, NEVER};
use crate::store::{Lookup, StreamId, ValueRef, View};
#[cfg(feature = "internals")]
use crate::time::clock::{Deadline, Now};

#[derive(Default)]
struct Digest([u8; 20]);

impl Digest {
    /// The numbers of the types in Redis.
    const STRING: [u8; 4] = 0u32.to_be_bytes();
    const LIST: [u8; 4] = 1u32.to_be_bytes();
    const SET: [u8; 4] = 2u32.to_be_bytes();
    const HASH: [u8; 4] = 4u32.to_be_bytes();
    const STREAM: [u8; 4] = 6u32.to_be_bytes();
    const SORTED_SET: [u8; 4] = 3u32.to_be_bytes();

    /// The significant digits of scores.
    const SCORE_DIGITS: i32 = 17;

    fn add(&mut self, bytes: &[u8]) {
        self.0.iter_mut().zip(Sha1::digest(bytes)).for_each(|(byte, other)| *byte ^= other);
    }

    fn mix(&mut self, bytes: &[u8]) {
        self.add(bytes);
        self.0 = Sha1::digest(self.0).into();
    }

    /// Mixes in a value, and the presence of a TTL.
    fn entry(&mut self, entry: &Entry) {
        self.value(entry.contents());
        if entry.deadline().is_some() {
            self.add(b"!!expire!!");
        }
    }

    fn value(&mut self, value: ValueRef<'_>) {
        match value {
            ValueRef::String(text, _) => {
                self.mix(&Self::STRING);
                self.mix(text.as_slice());
            }
            ValueRef::List(list) => {
                self.mix(&Self::LIST);
                list.iter().for_each(|item| item.with_text(|text| self.mix(text)));
            }
            ValueRef::Set(set) => {
                self.mix(&Self::SET);
                set.iter().for_each(|member| member.with_text(|text| self.add(text)));
            }
            ValueRef::Hash(hash) => {
                self.mix(&Self::HASH);
                hash.for_each_timed(|field, value, deadline| {
                    let mut pair = Digest::default();
                    field.with(|field| pair.mix(field));
                    value.with(|value| pair.mix(value));
                    if deadline.is_some() {
                        pair.add(b"!!hexpire!!");
                    }
                    self.add(&pair.0);
                });
            }
            ValueRef::SortedSet(set) => {
                self.mix(&Self::SORTED_SET);
                for (member, score) in set.iter() {
                    let mut element = Digest::default();
                    member.with_text(|member| element.mix(member));
                    element.mix(format_general(score.get(), Self::SCORE_DIGITS).as_bytes());
                    self.add(&element.0);
                }
            }
            ValueRef::Stream(stream) => {
                self.mix(&Self::STREAM);
                for entry in stream.range(StreamId::MIN, StreamId::MAX) {
                    self.mix(format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
                    for (field, value) in entry.fields {
                        field.with_text(|text| self.mix(text));
                        value.with_text(|text| self.mix(text));
                    }
                }
            }
        }
    }

    fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Replies with the digest of all databases.
pub(crate) fn all(call: &mut Call<'_>) -> Result<()> {
    let mut sum = Digest::default();
    for db in call.view.used_databases() {
        call.view.in_db(db, |view| {
            if view.key_count() > 0 {
                sum.mix(&(db as u32).to_be_bytes());
                add_keys(&mut sum, view);
            }
        });
    }
    call.reply.simple(&sum.hex());
    Ok(())
}

fn add_keys(sum: &mut Digest, view: &mut View<'_>) {
    let mut cursor = 0;
    loop {
        cursor = view.scan(cursor, |entry| {
            let mut digest = Digest::default();
            digest.mix(entry.key());
            digest.entry(entry);
            sum.add(&digest.0);
        });
        if cursor == 0 {
            return;
        }
    }
}

/// Replies with the digest of each value.
pub(crate) fn values(call: &mut Call<'_>) -> Result<()> {
    call.reply.array(call.args.left());
    while let Some(name) = call.args.next_arg() {
        let key = call.namespace.store.key(name);
        let mut digest = Digest::default();
        if let Some(entry) = call.view.lookup(key, Lookup::WRITE) {
            digest.entry(entry);
        }
        call.reply.simple(&digest.hex());
    }
    Ok(())
}

/// Returns everything of the data that a client could see: a line for each key, with a digest of its value, and one for
/// each library.
#[cfg(feature = "internals")]
pub(crate) fn image(namespace: &crate::namespace::Namespace) -> Vec<String> {
    use crate::store::{Cx, Origin};
    let now = namespace.clock.now();
    let (mut lines, mut keys) = (Vec::new(), Vec::new());
    let mut held = namespace.store.exclusive();
    let mut view = held.view(0, Cx::new(now, Origin::HOST));
    for db in view.used_databases() {
        view.in_db(db, |view| {
            let mut cursor = 0;
            loop {
                cursor = view.scan(cursor, |entry| {
                    let mut digest = Digest::default();
                    digest.value(entry.contents());
                    let deadline = entry.deadline().map(|deadline| deadline.wall_ms(now));
                    let beside = beside_digest(entry.contents());
                    let line = format!("{} {} deadline {deadline:?} {beside}", digest.hex(), entry.kind().name());
                    keys.push((db, entry.key().to_vec(), line));
                });
                if cursor == 0 {
                    break;
                }
            }
            for (_, key, line) in keys.drain(..) {
                let fence = view.locks().fence(namespace.store.key(&key));
                let lock = view.locks().inspect(db, namespace.store.key(&key), |lock, _| describe_lock(lock, now));
                lines.push(format!("{db} {}: {line} fence {fence} lock {lock:?}", key.escape_ascii()));
            }
        });
    }
    drop(view);
    drop(held);
    let libraries = crate::dispatch::texts::libraries(namespace);
    lines.extend(libraries.iter().map(|code| format!("library {}", code.escape_ascii())));
    lines.sort_unstable();
    lines
}

/// Describes a lock, without the times at which it was acquired.
#[cfg(feature = "internals")]
fn describe_lock(lock: HeldLock<'_>, now: Now) -> String {
    let of = |record: &LockRecord| format!("{} {} {:?}", record.token.escape_ascii(), record.fence, record.meta);
    match lock {
        HeldLock::Exclusive(record) => of(record),
        HeldLock::Shared(holders) => {
            let until = |until_ms: u64| (until_ms != NEVER).then(|| Deadline::at_mono_ms(until_ms).wall_ms(now));
            let holder = |(_, holder): (u64, &Holder)| {
                format!("{} {} until {:?}", of(&holder.record), holder.permits, until(holder.until_ms))
            };
            format!("{:?} {:?}", holders.sharing(), holders.iter().map(holder).collect::<Vec<_>>())
        }
    }
}

/// Returns the parts of a value that its digest leaves out: the deadlines of fields, and the groups of a stream.
#[cfg(feature = "internals")]
fn beside_digest(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Hash(hash) => {
            let mut fields = Vec::new();
            hash.for_each_timed(|field, _, deadline| {
                field
                    .with(|field| fields.extend(deadline.map(|deadline| (field.escape_ascii().to_string(), deadline))));
            });
            fields.sort_unstable();
            format!("fields {fields:?}")
        }
        ValueRef::Stream(stream) => {
            let groups = stream.groups().map(|(name, group)| {
                format!("{} {:?} pending {}", name.escape_ascii(), group.last, group.pending().len())
            });
            format!("last {:?} added {} groups {:?}", stream.last(), stream.added(), groups.collect::<Vec<_>>())
        }
        _ => String::new(),
    }
}
