//! The section of INFO about files: loads, saves and the append-only file, in progress and past.
//!
//! Nothing is forked: the fields about child processes and their memory are zero.

use crate::command::server::info::field::{InfoField, InfoValue, field, optional, zero};
use crate::command::server::info::reading::Reading;
use crate::persist::{FileJob, Job, JobOutcome, Loading, LogFigures};

#[rustfmt::skip] // a table
pub(super) const PERSISTENCE: &[InfoField] = &[
    field("loading", |from| {
        let is_loading = from.files().loading.is_some_and(|loading| !loading.is_beside);
        u64::from(is_loading || grace_left_ms(from).is_some()).into()
    }),
    field("async_loading", |from| u64::from(from.files().loading.is_some_and(|loading| loading.is_beside)).into()),
    zero("current_cow_peak"),
    zero("current_cow_size"),
    zero("current_cow_size_age"),
    field("current_fork_perc", |from| {
        let (written, keys) = from.files().work.map_or((0, 0), |work| (work.written, work.keys));
        percent(written, keys)
    }),
    field("current_save_keys_processed", |from| from.files().work.map_or(0, |work| work.written).into()),
    field("current_save_keys_total", |from| from.files().work.map_or(0, |work| work.keys).into()),
    field("rdb_changes_since_last_save", |from| from.totals().changes.saturating_sub(from.files().saved_changes).into()),
    field("rdb_bgsave_in_progress", |from| {
        // A snapshot that is sent to replicas counts, as in Redis.
        u64::from(running(from, Job::Save).is_some() || from.files().sent_since_ms.is_some()).into()
    }),
    field("rdb_last_save_time", |from| from.files().saved_ms.div_euclid(1000).into()),
    field("rdb_last_bgsave_status", |from| status(&from.files().saves.error)),
    field("rdb_last_bgsave_time_sec", |from| took_s(&from.files().saves)),
    field("rdb_current_bgsave_time_sec", |from| match from.files().sent_since_ms {
        Some(since_ms) => (from.call.now().wall_ms().saturating_sub(since_ms) / 1000).max(0).into(),
        None => running_s(from, Job::Save),
    }),
    field("rdb_saves", |from| from.files().saves.succeeded.into()),
    zero("rdb_last_cow_size"),
    field("rdb_last_load_keys_expired", |from| from.files().keys_expired.into()),
    field("rdb_last_load_keys_loaded", |from| from.files().keys_loaded.into()),
    field("aof_enabled", |from| u64::from(from.files().has_log()).into()),
    field("aof_rewrite_in_progress", |from| {
        // A rewrite that is about to begin counts, so that clients that wait for its end do not miss it.
        u64::from(from.files().begins_log() || running(from, Job::Rewrite).is_some()).into()
    }),
    field("aof_rewrite_scheduled", |from| u64::from(is_rewrite_scheduled(from)).into()),
    field("aof_last_rewrite_time_sec", |from| took_s(&from.files().rewrites)),
    field("aof_current_rewrite_time_sec", |from| running_s(from, Job::Rewrite)),
    field("aof_last_bgrewrite_status", |from| status(&from.files().rewrites.error)),
    field("aof_rewrites", |from| from.files().rewrites.succeeded.into()),
    field("aof_rewrites_consecutive_failures", |from| from.files().rewrites.failed.into()),
    field("aof_last_write_status", |from| status(&from.files().log.as_ref().and_then(|log| log.error.clone()))),
    zero("aof_last_cow_size"),
    zero("module_fork_in_progress"),
    zero("module_fork_last_cow_size"),
    optional("aof_current_size", |from| log(from, |log| log.len)),
    optional("aof_base_size", |from| log(from, |log| log.base_len)),
    optional("aof_pending_rewrite", |from| {
        let is_scheduled = u64::from(is_rewrite_scheduled(from));
        log(from, |_| 0).map(|_| is_scheduled.into())
    }),
    optional("aof_buffer_length", |from| log(from, |log| log.unwritten)),
    optional("aof_pending_bio_fsync", |from| log(from, |log| u64::from(log.is_syncing))),
    optional("aof_delayed_fsync", |from| log(from, |log| log.delayed)),
    // Clients poll these fields until the server is ready.
    optional("loading_start_time", |from| match from.files().loading {
        Some(loading) => Some(loading.begun_ms.div_euclid(1000).into()),
        None => grace_left_ms(from).map(|_| from.namespace().tenant.started.wall_ms().div_euclid(1000).into()),
    }),
    optional("loading_total_bytes", |from| loading(from, |loading| loading.total.into())),
    optional("loading_rdb_used_mem", |from| loading(from, |_| InfoValue::Count(0))),
    optional("loading_loaded_bytes", |from| loading(from, |loading| loading.read.into())),
    optional("loading_loaded_perc", |from| loading(from, |loading| percent(loading.read, loading.total))),
    optional("loading_eta_seconds", |from| match from.files().loading {
        Some(loading) => Some(left_s(loading, from.call.now().wall_ms()).into()),
        None => grace_left_ms(from).map(|left_ms| left_ms.div_ceil(1000).into()),
    }),
    // The following fields do not exist in Redis.
    field("rdb_last_save_age_seconds", |from| {
        (from.call.now().wall_ms().saturating_sub(from.files().saved_ms) / 1000).max(0).into()
    }),
    optional("last_save_error", |from| from.files().saves.error.as_deref().map(one_line)),
    optional("aof_last_error", |from| {
        let files = from.files();
        let error = files.log.as_ref().and_then(|log| log.error.as_deref()).or(files.rewrites.error.as_deref());
        error.map(one_line)
    }),
    optional("aof_tail_dropped_bytes", |from| log(from, |log| log.cut)),
];

/// Returns the job if it is in progress.
fn running(from: &mut Reading<'_, '_>, job: Job) -> Option<FileJob> {
    from.files().work.filter(|work| work.job == job)
}

/// Returns the seconds for which a job has been in progress; -1 if it is not.
fn running_s(from: &mut Reading<'_, '_>, job: Job) -> InfoValue {
    let now_ms = from.call.now().wall_ms();
    running(from, job).map_or(-1, |work| (now_ms.saturating_sub(work.begun_ms) / 1000).max(0)).into()
}

/// Returns the seconds that the last job took; -1 if there was none.
fn took_s(outcome: &JobOutcome) -> InfoValue {
    outcome.took_s.map_or(InfoValue::Int(-1), InfoValue::Count)
}

fn status(error: &Option<String>) -> InfoValue {
    if error.is_some() { "err".into() } else { "ok".into() }
}

/// Returns an error as the value of a field, which is a single line.
fn one_line(error: &str) -> InfoValue {
    error.replace(['\r', '\n'], " ").into()
}

fn percent(part: u64, whole: u64) -> InfoValue {
    InfoValue::Decimal(if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }, 2)
}

/// Returns a figure of the append-only file, if there is one.
fn log(from: &mut Reading<'_, '_>, read: impl FnOnce(&LogFigures) -> u64) -> Option<InfoValue> {
    let files = from.files();
    match &files.log {
        Some(log) => Some(read(log).into()),
        None => files.is_log_starting.then(|| 0_u64.into()), // as in Redis, before the first base is written
    }
}

/// Returns true if a rewrite, or the first base of a file, waits for a save.
fn is_rewrite_scheduled(from: &mut Reading<'_, '_>) -> bool {
    let waits = from.files().is_log_starting && running(from, Job::Save).is_some();
    waits || from.files().is_rewrite_scheduled
}

/// Returns a figure of the load in progress, if there is one.
fn loading(from: &mut Reading<'_, '_>, read: impl FnOnce(Loading) -> InfoValue) -> Option<InfoValue> {
    from.files().loading.map(read)
}

/// Returns the estimated seconds until a load ends, by its pace up to now; at least one, because it has not ended.
fn left_s(loading: Loading, now_ms: i64) -> u64 {
    let elapsed_s = (now_ms.saturating_sub(loading.begun_ms) / 1000).max(0).unsigned_abs();
    let unread = u128::from(loading.total.saturating_sub(loading.read));
    let left_s = (u128::from(elapsed_s) * unread).checked_div(u128::from(loading.read)).unwrap_or(1);
    u64::try_from(left_s).unwrap_or(u64::MAX).max(1)
}

fn grace_left_ms(from: &Reading<'_, '_>) -> Option<u64> {
    from.namespace().restrictions.grace_left_ms(from.call.now())
}
