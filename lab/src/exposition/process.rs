//! The families of the Python process around the engine.

use super::text::Writer;
use crate::engine::Engine;

/// Bytes of address space of a serving process, as a large model's shows.
const VIRTUAL_MEMORY: f64 = 4.6e10;
/// Bytes of it in memory.
const RESIDENT_MEMORY: f64 = 6.1e9;
/// File descriptors open without a client.
const OPEN_FILES: f64 = 54.0;
/// The limit on them.
const MOST_FILES: f64 = 1_048_576.0;
/// Collections of the garbage collector's three generations while a process starts.
const STARTING_COLLECTIONS: [u64; 3] = [1600, 145, 10];
/// Engine steps to a collection of the first generation.
const STEPS_A_COLLECTION: u64 = 200;

/// Writes them. Their values are made up, but move as a busy process's do.
pub(super) fn write(writer: &mut Writer<'_>, engine: &Engine) {
    let statistics = engine.statistics();
    let young = STARTING_COLLECTIONS[0] + statistics.steps / STEPS_A_COLLECTION;
    let collections =
        [young, STARTING_COLLECTIONS[1] + (young - STARTING_COLLECTIONS[0]) / 10, STARTING_COLLECTIONS[2]];
    let generations = [
        ("python_gc_objects_collected_total", "Objects freed by the garbage collector.", collections.map(|n| 9 * n)),
        ("python_gc_objects_uncollectable_total", "Objects the garbage collector could not free.", [0; 3]),
        ("python_gc_collections_total", "Collections of each generation.", collections),
    ];
    for (name, help, values) in generations {
        writer.family(name, "counter", help);
        for (generation, value) in values.into_iter().enumerate() {
            writer.plain(name, &format!("generation=\"{generation}\""), value as f64);
        }
    }
    writer.family("python_info", "gauge", "The Python that runs the server.");
    let python = "implementation=\"CPython\",major=\"3\",minor=\"12\",patchlevel=\"11\",version=\"3.12.11\"";
    writer.plain("python_info", python, 1.0);
    let files = OPEN_FILES + engine.in_flight() as f64;
    for (name, kind, help, value) in [
        ("process_virtual_memory_bytes", "gauge", "Address space, in bytes.", VIRTUAL_MEMORY),
        ("process_resident_memory_bytes", "gauge", "Memory in use, in bytes.", RESIDENT_MEMORY),
        ("process_start_time_seconds", "gauge", "When the process started, in Unix seconds.", writer.created),
        ("process_cpu_seconds_total", "counter", "Processor time used, in seconds.", statistics.busy.as_secs_f64()),
        ("process_open_fds", "gauge", "Open file descriptors.", files),
        ("process_max_fds", "gauge", "The limit on open file descriptors.", MOST_FILES),
    ] {
        writer.family(name, kind, help);
        writer.plain(name, "", value);
    }
}
