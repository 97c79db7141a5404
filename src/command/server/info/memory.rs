//! The section `memory` of INFO.

use crate::command::server::info::field::{InfoField, InfoValue, field, zero};

#[rustfmt::skip] // a table
pub(super) const MEMORY: &[InfoField] = &[
    field("used_memory", |from| from.memory().used.into()),
    field("used_memory_human", |from| human(from.memory().used).into()),
    field("used_memory_rss", |from| from.memory().rss.into()),
    field("used_memory_rss_human", |from| human(from.memory().rss).into()),
    field("used_memory_peak", |from| from.memory().peak.into()),
    field("used_memory_peak_human", |from| human(from.memory().peak).into()),
    field("used_memory_peak_perc", |from| percent(from.memory().used, from.memory().peak)),
    field("used_memory_overhead", |from| from.memory().overhead().into()),
    field("used_memory_startup", |from| from.memory().startup.into()),
    field("used_memory_dataset", |from| from.memory().dataset.into()),
    field("used_memory_dataset_perc", |from| percent(from.memory().dataset, from.memory().net())),
    field("allocator_allocated", |from| from.memory().allocated.into()),
    field("allocator_active", |from| from.memory().active.into()),
    field("allocator_resident", |from| from.memory().resident.into()),
    field("allocator_muzzy", |from| from.memory().muzzy.into()),
    field("total_system_memory", |from| from.system_memory().into()),
    field("total_system_memory_human", |from| human(from.system_memory()).into()),
    field("used_memory_lua", |from| from.scripts().eval_bytes.into()),
    field("used_memory_vm_eval", |from| from.scripts().eval_bytes.into()),
    field("used_memory_lua_human", |from| human(from.scripts().eval_bytes).into()),
    field("used_memory_scripts_eval", |from| from.scripts().scripts_bytes.into()),
    field("number_of_cached_scripts", |from| from.scripts().scripts.into()),
    field("number_of_functions", |from| from.scripts().functions.into()),
    field("number_of_libraries", |from| from.scripts().libraries.into()),
    field("used_memory_vm_functions", |from| from.scripts().functions_bytes.into()),
    field("used_memory_vm_total", |from| from.scripts().vm_bytes().into()),
    field("used_memory_vm_total_human", |from| human(from.scripts().vm_bytes()).into()),
    field("used_memory_functions", |from| from.scripts().libraries_bytes.into()),
    field("used_memory_scripts", |from| from.scripts().texts_bytes().into()),
    field("used_memory_scripts_human", |from| human(from.scripts().texts_bytes()).into()),
    field("maxmemory", |from| from.settings().maxmemory.into()),
    field("maxmemory_human", |from| human(from.settings().maxmemory as usize).into()),
    field("maxmemory_policy", |from| from.settings().maxmemory_policy.as_str().into()),
    field("allocator_frag_ratio", |from| fixed_ratio(from.memory().active, from.memory().allocated)),
    field("allocator_frag_bytes", |from| difference(from.memory().active, from.memory().allocated).into()),
    field("allocator_rss_ratio", |from| fixed_ratio(from.memory().resident, from.memory().active)),
    field("allocator_rss_bytes", |from| difference(from.memory().resident, from.memory().active).into()),
    field("rss_overhead_ratio", |from| fixed_ratio(from.memory().rss, from.memory().resident)),
    field("rss_overhead_bytes", |from| difference(from.memory().rss, from.memory().resident).into()),
    field("mem_fragmentation_ratio", |from| fixed_ratio(from.memory().rss, from.memory().used)),
    field("mem_fragmentation_bytes", |from| difference(from.memory().rss, from.memory().used).into()),
    field("mem_not_counted_for_evict", |from| from.namespace().store.memory_account().exempt().into()),
    field("mem_replication_backlog", |from| from.memory().backlog.into()),
    field("mem_total_replication_buffers", |from| from.namespace().log.kept_len().into()),
    field("mem_clients_slaves", |from| from.memory().replicas.into()),
    field("mem_clients_normal", |from| from.memory().clients.into()),
    zero("mem_cluster_links"),
    zero("mem_aof_buffer"),
    zero("mem_overhead_db_hashtable_rehashing"),
    field("mem_allocator", |from| from.memory().allocator.clone().into()),
    field("mem_allocator_quantum", |from| from.memory().quantum.into()),
    zero("active_defrag_running"),
    field("lazyfree_pending_objects", |from| from.namespace().store.reclaimer().pending().into()),
    field("lazyfreed_objects", |from| from.namespace().store.reclaimer().freed().into()),
];

/// Divides; a divisor of 0 counts as 1.
pub(crate) fn ratio(whole: usize, part: usize) -> f64 {
    whole as f64 / part.max(1) as f64
}

/// Subtracts; the result may be negative.
pub(crate) fn difference(whole: usize, part: usize) -> i64 {
    whole as i64 - part as i64
}

fn percent(part: usize, whole: usize) -> InfoValue {
    format!("{:.2}%", ratio(part * 100, whole)).into()
}

fn fixed_ratio(whole: usize, part: usize) -> InfoValue {
    InfoValue::Decimal(ratio(whole, part), 2)
}

/// Formats a number of bytes in human-readable form: `1.50K`.
pub(crate) fn human(bytes: usize) -> String {
    let (mut value, mut units) = (bytes as f64, "KMGTP".chars());
    let mut unit = None;
    while value >= 1024.0 {
        value /= 1024.0;
        unit = units.next();
    }
    unit.map_or_else(|| format!("{bytes}B"), |unit| format!("{value:.2}{unit}"))
}
