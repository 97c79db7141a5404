//! Search for the running servers of this executable on this machine, and their addresses, through the kernel.
//!
//! A health check is defined with the image, while the port is chosen at the start of the container, by arguments, a
//! file or `CONFIG SET`: only the kernel knows it for certain. In a container this finds the one server that runs
//! there.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::dial::Address;

/// The state of a listening socket in `/proc/net/tcp`.
const TCP_LISTEN: &str = "0A";
/// The flag of a listening socket in `/proc/net/unix`.
const UNIX_LISTEN: &str = "00010000";

/// Returns the addresses of every process of this executable that listens.
///
/// # Errors
/// If the system has no `/proc`.
pub(super) fn servers() -> io::Result<Vec<Vec<Address>>> {
    let executable = identity(Path::new("/proc/self/exe"))?;
    let mut servers = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let process = entry?.path();
        // Processes of other users, and those that have just exited, cannot be read.
        if identity(&process.join("exe")).is_ok_and(|found| found == executable) {
            let addresses = addresses(&process).unwrap_or_default();
            if !addresses.is_empty() {
                servers.push(addresses);
            }
        }
    }
    Ok(servers)
}

fn identity(file: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(file).map(|file| (file.dev(), file.ino()))
}

/// Returns the addresses that a process listens on.
fn addresses(process: &Path) -> io::Result<Vec<Address>> {
    let mut inodes = Vec::new();
    for fd in fs::read_dir(process.join("fd"))? {
        let link = fs::read_link(fd?.path()).unwrap_or_default();
        let inode = link.to_str().and_then(|link| link.strip_prefix("socket:[")?.strip_suffix(']'));
        inodes.extend(inode.map(str::to_owned));
    }
    let table = |name: &str| fs::read_to_string(process.join("net").join(name)).unwrap_or_default();
    let mut found: Vec<Address> =
        table("tcp").lines().chain(table("tcp6").lines()).filter_map(|line| tcp(line, &inodes)).collect();
    found.extend(table("unix").lines().filter_map(|line| unix(line, &inodes)));
    Ok(found)
}

/// Parses a line of `/proc/net/tcp` or `tcp6`, if it is a listening socket of the process.
fn tcp(line: &str, inodes: &[String]) -> Option<Address> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [_, local, _, TCP_LISTEN, _, _, _, _, _, inode, ..] = fields[..] else { return None };
    let (ip, port) = local.split_once(':')?;
    let ip = ip_address(ip)?;
    let reachable = match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let port = u16::from_str_radix(port, 16).ok()?;
    inodes.iter().any(|ours| ours == inode).then(|| Address::Tcp(reachable.to_string(), port))
}

/// Parses an address as the kernel prints it: words of 32 bits, each in the byte order of the machine.
fn ip_address(hex: &str) -> Option<IpAddr> {
    let words: Option<Vec<u8>> = (0..hex.len())
        .step_by(8)
        .map(|at| u32::from_str_radix(hex.get(at..at + 8)?, 16).ok())
        .map(|word| word.map(u32::to_ne_bytes))
        .collect::<Option<Vec<_>>>()
        .map(|words| words.concat());
    match &words?[..] {
        bytes if bytes.len() == 4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        bytes => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
    }
}

/// Parses a line of `/proc/net/unix`, if it is a listening socket of the process that has a path.
fn unix(line: &str, inodes: &[String]) -> Option<Address> {
    let fields: Vec<&str> = line.splitn(8, ' ').map(str::trim).collect();
    let [_, _, _, UNIX_LISTEN, ..] = fields[..] else { return None };
    // The path comes last and may contain blanks; the inode before it is padded with blanks.
    let (inode, path) =
        fields[6..].join(" ").trim().split_once(' ').map(|(inode, path)| (inode.to_owned(), PathBuf::from(path)))?;
    (inodes.contains(&inode) && path.is_absolute()).then_some(Address::Unix(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_read() {
        let ours = ["77".to_owned(), "4242".to_owned()];
        let rest = "00000000:0000 0A 00000000:00000000 00:00000000 00000000  999        0";
        let tcp_cases = [
            (format!("  0: 0100007F:18EB {rest} 77 1 0000000000000000 100 0 0 10 0"), Some("127.0.0.1:6379")),
            (format!("  0: 00000000:0050 {rest} 77 1"), Some("127.0.0.1:80")),
            (format!("  1: {}:18EB {rest} 77 1", "0".repeat(32)), Some("::1:6379")),
            (format!("  1: {}01000000:18EB {rest} 77 1", "0".repeat(24)), Some("::1:6379")),
            (format!("  0: 0100007F:18EB {rest} 78 1"), None),
            (format!("  0: 0100007F:18EB {} 77 1", rest.replace(" 0A ", " 01 ")), None),
            (
                "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
                    .into(),
                None,
            ),
        ];
        for (line, expected) in tcp_cases {
            assert_eq!(tcp(&line, &ours).map(|found| found.to_string()).as_deref(), expected, "{line}");
        }
        let unix_cases = [
            ("0000000000000000: 00000002 00000000 00010000 0001 01 4242 /run/a b.sock", Some("/run/a b.sock")),
            ("0000000000000000: 00000002 00000000 00010000 0001 01    77 /s", Some("/s")),
            ("0000000000000000: 00000002 00000000 00000000 0001 03 4242 /run/s", None),
            ("0000000000000000: 00000002 00000000 00010000 0001 01 4243 /run/s", None),
            ("0000000000000000: 00000002 00000000 00010000 0001 01 4242", None),
            ("0000000000000000: 00000002 00000000 00010000 0001 01 4242 @abstract", None),
        ];
        for (line, expected) in unix_cases {
            assert_eq!(unix(line, &ours).map(|found| found.to_string()).as_deref(), expected, "{line}");
        }
    }
}
