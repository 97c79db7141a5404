//! DEBUG DIGEST: a digest of the data.

#[cfg(feature = "internals")]
use crate::command::lock::describe;
use crate::dispatch::Call;
use crate::error::Result;
use crate::store::entry::Entry;
use crate::store::{Lookup, View};
#[cfg(feature = "internals")]
use crate::store::{Stream, value::Hash};
use crate::types::{self, digest::Digest};

/// Mixes a value, and the presence of a TTL, into the digest of its key.
fn mix_entry(digest: &mut Digest, entry: &Entry) {
    (types::spec_of(entry).digest)(digest, entry);
    if entry.deadline().is_some() {
        digest.add(b"!!expire!!");
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
            mix_entry(&mut digest, entry);
            sum.add_digest(&digest);
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
            mix_entry(&mut digest, entry);
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
                    (types::spec_of(entry).digest)(&mut digest, entry);
                    let deadline = entry.deadline().map(|deadline| deadline.wall_ms(now));
                    let beside = undigested(entry);
                    let line = format!("{} {} deadline {deadline:?} {beside}", digest.hex(), entry.kind().name());
                    keys.push((db, entry.key().to_vec(), line));
                });
                if cursor == 0 {
                    break;
                }
            }
            for (_, key, line) in keys.drain(..) {
                let fence = view.locks().fence(namespace.store.key(&key));
                let lock = view.locks().inspect(db, namespace.store.key(&key), |lock, _| describe(lock, now));
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

/// Returns the parts of a value that its digest leaves out: the deadlines of fields, and the groups of a stream.
#[cfg(feature = "internals")]
fn undigested(entry: &Entry) -> String {
    if let Ok(hash) = entry.get::<Hash>() {
        let mut fields = Vec::new();
        hash.for_each_timed(|field, _, deadline| {
            field.with(|field| fields.extend(deadline.map(|deadline| (field.escape_ascii().to_string(), deadline))));
        });
        fields.sort_unstable();
        return format!("fields {fields:?}");
    }
    let Ok(stream) = entry.get::<Stream>() else { return String::new() };
    let groups = stream
        .groups()
        .map(|(name, group)| format!("{} {:?} pending {}", name.escape_ascii(), group.last, group.pending().len()));
    format!("last {:?} added {} groups {:?}", stream.last(), stream.added(), groups.collect::<Vec<_>>())
}
