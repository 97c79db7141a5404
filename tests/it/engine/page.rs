//! The commands of CLUSTER.md, executed as they are except for addresses and folders, and the same commands in other
//! files.

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::engine::etcd::{Etcd, Supervised, is_healthy};
use crate::harness::{Client, wait_until};
use crate::process::{Process, binary};

/// Returns the commands of a block of the page, each on one line.
fn commands(block: &str) -> Vec<String> {
    let page = include_str!("../../../docs/CLUSTER.md");
    let begin = format!("<!-- {block} -->\n```sh\n");
    let text = page.split(&begin).nth(1).and_then(|rest| rest.split("```").next()).expect("a block of commands");
    text.replace("\\\n", "").lines().map(str::to_owned).collect()
}

/// Machines of the page, as addresses of the loopback interface that no other test uses.
struct Machines {
    net: String,
    folders: Vec<TempDir>,
    running: Vec<Supervised>,
}

impl Machines {
    fn new() -> Self {
        let net = format!("127.{}.{}.", 1 + std::process::id() % 250, std::process::id() / 250 % 250);
        Machines { net, folders: Vec::new(), running: Vec::new() }
    }

    /// Returns a command of the page in the form in which it runs here.
    fn here(&self, command: &str, folder: &Path) -> String {
        let folder = folder.to_str().expect("a plain path");
        let listening = format!("{} --bind $IP --protected-mode no --dir {folder} --engine", binary().display());
        let command = command.replace("keylatch --engine", &listening).replace("/var/lib/etcd", folder);
        command.replace("keylatch copy", &format!("{} copy", binary().display())).replace("10.0.0.", &self.net)
    }

    /// Starts a command of the page on each machine.
    fn start(&mut self, command: &str) {
        for number in 1..=3 {
            let folder = tempfile::tempdir().expect("a directory");
            let command = format!("exec {}", self.here(command, folder.path()));
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", &command]).env("N", number.to_string()).env("IP", format!("{}{number}", self.net));
            self.running.push(Supervised::start(&shell));
            self.folders.push(folder);
        }
    }

    fn addr(&self, number: usize, port: u16) -> SocketAddr {
        format!("{}{number}:{port}", self.net).parse().expect("an address")
    }
}

#[test]
fn the_commands_of_the_page_set_up_a_cluster_and_copy_keys_to_it() {
    if Etcd::shared().is_none() {
        return;
    }
    let mut machines = Machines::new();
    let [etcd, keylatch] = &commands("nodes")[..] else { panic!("two commands") };
    machines.start(etcd);
    wait_until(|| (1..=3).all(|number| is_healthy(machines.addr(number, 2379))));
    machines.start(keylatch);
    let mut old = Process::start(&[]);
    old.client().expect(&[("SET lock token PX 100000", "+OK"), ("RPUSH list a b", ":2")]);
    wait_until(|| (1..=3).all(|number| TcpStream::connect(machines.addr(number, 6379)).is_ok()));
    let copy = commands("copy").remove(0).replace("10.0.0.9:6379", &old.known_addr().to_string());
    let copy = machines.here(&copy, machines.folders[0].path());
    let output = Command::new("timeout").args(["30", "sh", "-c", &copy]).output().expect("a shell");
    assert!(output.status.success(), "{output:?}");
    for number in 1..=3 {
        let mut client = Client::connect(machines.addr(number, 6379));
        client.expect(&[("GET lock", "$5 token"), ("LRANGE list 0 -1", "*2 $1 a $1 b")]);
        // It is late by the duration of the copy, and never early.
        assert!(client.int("PTTL lock") > 0);
    }
}

#[test]
fn units_and_containers_start_etcd_with_the_options_of_the_page() {
    let options = |text: &str| -> BTreeSet<String> {
        text.split_whitespace().filter(|word| word.starts_with("--")).map(str::to_owned).collect()
    };
    let of_page = options(&commands("nodes")[0]);
    assert!(of_page.len() > 5);
    let unit = include_str!("../../../contrib/cluster/etcd.service");
    let command = unit.split("ExecStart=").nth(1).and_then(|rest| rest.split("\n#").next()).expect("a command");
    assert_eq!(options(command), of_page);
    let compose = include_str!("../../../contrib/cluster/compose.yaml");
    let containers: Vec<&str> =
        compose.split("etcd --name").skip(1).map(|rest| rest.split("keylatch1:").next().expect("text")).collect();
    assert_eq!(containers.len(), 3);
    containers.iter().for_each(|command| assert_eq!(options(&format!("--name {command}")), of_page));
}
