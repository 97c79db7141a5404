//! Signals to other processes, without the program `kill`, which a bare machine does not have.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// Sends a signal, named without `SIG`, to a process, or to the process group with a negative number. The process may
/// be gone: then nothing happens, and false is returned.
pub(crate) fn send(name: &str, to: i32) -> bool {
    let signal = match name {
        "ABRT" => Signal::ABORT,
        "ALRM" => Signal::ALARM,
        "CONT" => Signal::CONT,
        "HUP" => Signal::HUP,
        "INT" => Signal::INT,
        "KILL" => Signal::KILL,
        "QUIT" => Signal::QUIT,
        "STOP" => Signal::STOP,
        "TERM" => Signal::TERM,
        "USR1" => Signal::USR1,
        "USR2" => Signal::USR2,
        _ => panic!("SIG{name} is not in the list of this function"),
    };
    let id = Pid::from_raw(to.abs()).expect("a process has a number");
    let sent = if to < 0 { kill_process_group(id, signal) } else { kill_process(id, signal) };
    sent.is_ok()
}

/// Sends a signal to a process that exists, by its number as the standard library has it.
#[track_caller]
pub(crate) fn send_to(name: &str, id: u32) {
    assert!(send(name, i32::try_from(id).expect("numbers of processes are small")), "SIG{name} to {id}");
}
