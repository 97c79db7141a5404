//! Tests that need Redis' own programs or etcd, where these are not installed: they prove nothing, or less, and say so.
//!
//! The test runner counts such a test as passed and has no way to skip one while it runs. So lines at the very end
//! report their number for each program, and how to install it; tests with a record of its replies are counted apart. A
//! child of this process writes the lines, since only the process's end is late enough: then the pipe closes through
//! which the child learns of each test.

use std::collections::HashSet;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

/// Environment variables that make a missing program a failure.
const REQUIRING: [&str; 2] = ["CI", "KEYLATCH_REQUIRE_REDIS"];

/// Script that counts the programs named in its input until this process ends.
const COUNT: &str = r#"
    redis=0 etcd=0 openssl=0 recorded=0 get='redis-server is not on PATH (apt-get install redis-server)'
    while read -r program; do
        case $program in
            etcd*) etcd=$((etcd + 1)) ;;
            openssl) openssl=$((openssl + 1)) ;;
            *record) recorded=$((recorded + 1)) ;;
            *) redis=$((redis + 1)) ;;
        esac
    done
    [ $recorded = 0 ] || echo "$recorded compared with recorded replies only: $get" >&2
    [ $redis = 0 ] || echo "$redis skipped: $get" >&2
    [ $openssl = 0 ] || echo "$openssl skipped: openssl is not on PATH (apt-get install openssl)" >&2
    [ $etcd = 0 ] || echo "$etcd skipped: etcd is not on PATH (tests/etcd/install.sh FOLDER)" >&2
"#;

struct Skipped {
    tests: HashSet<String>,
    counter: Child,
}

static SKIPPED: Mutex<Option<Skipped>> = Mutex::new(None);

/// Reports that this test proves nothing without a program; fails it where the program is required.
pub(crate) fn without(program: &str) {
    tell(program, program);
}

/// Reports that this test has only a record of a program's replies; fails it where the program is required.
pub(crate) fn with_record_only(program: &str) {
    tell(program, "record");
}

fn tell(program: &str, counted: &str) {
    if let Some(name) = REQUIRING.iter().find(|name| std::env::var_os(name).is_some()) {
        panic!("{program} is not on PATH, and {name} is set: this test needs it");
    }
    let mut skipped = SKIPPED.lock().expect("it was unlocked");
    let skipped = skipped.get_or_insert_with(|| {
        let mut shell = Command::new("/bin/sh");
        let counter = shell.args(["-c", COUNT]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("a shell");
        Skipped { tests: HashSet::new(), counter }
    });
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    if skipped.tests.insert(name) {
        let mut counter = skipped.counter.stdin.as_ref().expect("a pipe");
        writeln!(counter, "{counted}").expect("it reads");
    }
}

#[test]
fn the_end_of_a_run_says_how_many_tests_could_not_be_compared_with_redis() {
    let tests = ["differential::strings", "differential::settings", "skipped::"];
    let mut run = Command::new(std::env::current_exe().expect("a program"));
    run.args(tests).args(["--skip", "the_end_of_a_run"]).env("PATH", "/nonexistent").stdin(Stdio::null());
    for name in REQUIRING {
        run.env_remove(name);
    }
    let output = run.output().expect("it starts");
    let (passed, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let count = |module: &str| {
        let lines = passed.lines().filter(|line| line.starts_with(&format!("test {module}")) && line.ends_with("ok"));
        lines.count()
    };
    let (recorded, skipped) = (count("differential::strings"), count("differential::settings"));
    let missing = "redis-server is not on PATH (apt-get install redis-server)";
    let expected =
        [format!("{recorded} compared with recorded replies only: {missing}"), format!("{skipped} skipped: {missing}")];
    assert!(output.status.success() && recorded > 0 && skipped > 0, "{passed}");
    assert_eq!(told.lines().collect::<Vec<_>>(), expected);
}
