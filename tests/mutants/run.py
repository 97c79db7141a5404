#!/usr/bin/env python3
"""Breaks the rules of locks, or of persistence, one at a time, and shows that a test detects each.

    tests/mutants/run.py [--check] [--only WORDS]... [--part N/M] [--all-failures] [LIST]

LIST, by default locks.txt beside this file, has the mutants: a rule that is broken, and the change of the source that
breaks it. Each is made in a copy of the project below target/mutants, never in the working tree; there the test binary
is built, without the features that locks do not need, and tests are run until one fails: first those of one rule each,
then those of random commands and crowds. That test is run again by itself: a mutant counts as killed only by a test
that fails both times. One whose tests take too long, or that does not build, is not killed.

In a list with SWITCH, as safety.txt beside this file, every mutant is built into the same test binaries, with all
features, and chosen by a variable when these run; each names its tests. Tests of etcd need that in PATH.

  --check           checks that every text to be replaced occurs exactly once, and builds nothing; a test of tests/it
                    does the same
  --only WORDS      runs the mutants whose names contain these words, or those of another --only
  --part N/M        runs every Mth mutant, beginning with the Nth
  --all-failures    names every test that fails, to find the tests of a rule

  LIMIT=300         the maximum duration of a run of the tests, in seconds
  CARGO_TARGET_DIR  where mutants/ is, instead of target

Prints a row for each mutant: killed and by which test, SURVIVED, does not build, or too slow. Ends with 1 unless all
are killed, and with 2 if the list does not fit the source, or a test fails without any mutant.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "mutants"
COPY = WORK / "tree"
LIMIT = int(os.environ.get("LIMIT", "300"))
BUILD = ["cargo", "test", "--locked", "--no-default-features", "--features", "lua", "--test", "it", "--no-run"]
# Many tests wait for what a mutant never does.
THREADS = ["--test-threads", "16"]
# How long: in the copy less than the tests of the project wait on the slowest of machines.
PATIENCE = (
    "tests/it/harness.rs",
    "PATIENCE: Duration = Duration::from_secs(30)",
    "PATIENCE: Duration = Duration::from_secs(20)",
)
CROWDS = ["locks::model::", "locks::proof::", "locks::contention::", "locks::killed::"]
# What is tested through the socket and depends on the rules of locks, in the order in which it is run.
TESTS = [
    (["locks::"], CROWDS),
    ([*CROWDS, "linearizable::", "fences::", "time::", "restart::", "blocked", "leaving::", "fences_of_locks"], []),
]
# One compares the lists with the source, which a mutant changes; the others need a machine that does nothing else.
NOT_TESTS = ["locks::mutants::", "slow_batch"]
# What stands in a new text for a condition that is true for its mutant alone, and what it becomes where all are built.
SWITCH = "SWITCH"
SWITCHES = """
/// Returns whether the mutant with a number is chosen.
pub(crate) fn is(number: usize) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<usize>> = std::sync::OnceLock::new();
    *CHOSEN.get_or_init(|| std::env::var("KEYLATCH_MUTANT").ok()?.parse().ok()) == Some(number)
}
"""
BUILD_SWITCHES = ["cargo", "test", "--locked", "--lib", "--test", "it", "--no-run"]


class Mutant:
    """A rule that is broken, and the changes that break it: of a file, a text, and what replaces it."""

    def __init__(self, name):
        self.name = name
        self.changes = []
        self.tests = []  # parts of the names of those that should notice it; all if there are none

    def check(self):
        """Returns the errors in the changes."""
        wrong = [] if self.changes else ["it changes nothing"]
        for path, old, new in self.changes:
            file = ROOT / path
            count = file.read_text().count(old) if old and file.is_file() else 0
            if count != 1:
                wrong.append(f"{path} has this text {count} times and not once:\n{old}")
            if old == new:
                wrong.append(f"{path} stays as it is")
        return wrong


def read_list(path):
    """Reads the mutants of a list. Its format is described in locks.txt."""
    mutants = []
    for line in path.read_text().splitlines():
        kind, rest = line[:1], line[1:]
        if kind == "=":
            mutants.append(Mutant(rest.strip()))
        elif kind == "@":
            mutants[-1].changes.append([rest.strip(), [], []])
        elif kind == "-":
            mutants[-1].changes[-1][1].append(rest)
        elif kind == "+":
            mutants[-1].changes[-1][2].append(rest)
        elif kind == "?":
            mutants[-1].tests += rest.split()
        elif line and kind != "#":
            sys.exit(f"{path}: {line!r} is none of its lines")
    for mutant in mutants:
        mutant.changes = [(path, "\n".join(old), "\n".join(new)) for path, old, new in mutant.changes]
    return mutants


def copy_project(changed=None):
    """Makes the copy equal to the working tree, except PATIENCE and the changed files, whose texts are given;
    unchanged files are kept, with their times."""
    changed = changed or {}
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout
    names = {name for name in listed.split("\0") if name and (ROOT / name).is_file()} | changed.keys()
    for name in sorted(names):
        target = COPY / name
        content = changed[name].encode() if name in changed else (ROOT / name).read_bytes()
        if name == PATIENCE[0]:
            content = content.replace(PATIENCE[1].encode(), PATIENCE[2].encode())
        if not target.exists() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    for path in COPY.rglob("*.rs"):
        if str(path.relative_to(COPY)) not in names:
            path.unlink()


def content_of_copy():
    """Returns a hash of the source and the tests."""
    paths = sorted(path for folder in ("src", "tests/it") for path in (COPY / folder).rglob("*.rs"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def build(command=BUILD, level="0"):
    """Builds test binaries of the copy; returns their paths by name, or None."""
    env = {
        **os.environ,
        "CARGO_TARGET_DIR": str(WORK / "build"),
        # Each mutant is built for one run, which is short.
        "CARGO_PROFILE_DEV_DEBUG": "0",
        "CARGO_PROFILE_DEV_OPT_LEVEL": level,
    }
    with open(WORK / "build.log", "w") as log:
        made = subprocess.run(
            [*command, "--message-format=json"], cwd=COPY, env=env, stdout=subprocess.PIPE, stderr=log, text=True
        )
    messages = [json.loads(line) for line in made.stdout.splitlines() if line.startswith("{")]
    if made.returncode != 0:
        with open(WORK / "build.log", "a") as log:
            rendered = (found.get("message", {}).get("rendered") for found in messages)
            log.writelines(text for text in rendered if text)
        return None
    built = [found for found in messages if found.get("executable") and found["profile"]["test"]]
    return {found["target"]["name"]: found["executable"] for found in built}


def run(binary, args, ends_at_once=True, mutant=None):
    """Runs tests; returns the names of those that failed, and whether the time was over."""
    env = {**os.environ, "RUST_MIN_STACK": "67108864"}
    if mutant is not None:
        env["KEYLATCH_MUTANT"] = str(mutant)
    tests = subprocess.Popen(
        [binary, *args], cwd=COPY, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        start_new_session=True,
    )
    is_over = threading.Event()

    def end():
        is_over.set()
        os.killpg(tests.pid, signal.SIGKILL)

    limit = threading.Timer(LIMIT, end)
    limit.start()
    failed, is_finished = [], False
    for line in tests.stdout:
        if found := re.match(r"test (\S+) \.\.\. FAILED", line):
            failed.append(found[1])
            if ends_at_once:
                break
        is_finished |= line.startswith("test result:")
    limit.cancel()
    if tests.poll() is None and not is_finished:
        os.killpg(tests.pid, signal.SIGKILL)
    tests.wait()
    if not failed and not is_finished and not is_over.is_set():
        failed.append("(the process of the tests has ended)")
    return failed, is_over.is_set()


def skipping(names):
    return [word for name in names for word in ("--skip", name)]


def fails_again(binary, name, mutant=None):
    """Returns whether a test that has failed also fails when it runs alone."""
    return not name[0].isalpha() or any(run(binary, ["--exact", name], mutant=mutant))


def locks(binaries):
    """Returns the runs for the rules of locks, each with its binary, the names of tests, and the excluded ones."""
    return [(binaries["it"], names, left_out) for names, left_out in TESTS]


def chosen(binaries, tests):
    """Returns the runs of tests that a mutant names: unit tests are quick, and come first."""
    unit = [test.removeprefix("lib:") for test in tests if test.startswith("lib:")]
    whole = [test for test in tests if not test.startswith("lib:")]
    runs = [(binaries["keylatch"], unit, []), (binaries["it"], whole, [])]
    return [each for each in runs if each[1]]


def run_all(runs, mutant=None):
    """Runs all tests; returns those that failed, each with its binary, and whether the time was over."""
    failed, is_over = [], False
    for binary, names, left_out in runs:
        found, is_late = run(binary, [*names, *THREADS, *skipping(NOT_TESTS + left_out)], False, mutant)
        failed, is_over = failed + [(binary, name) for name in found], is_over or is_late
    return failed, is_over


def kill(runs, mutant=None):
    """Runs tests until one fails twice; returns its name, those that failed once, and whether they took too long."""
    once, is_over = [], False
    for binary, names, left_out in runs:
        while True:
            args = [*names, *THREADS, *skipping(NOT_TESTS + left_out + once)]
            failed, is_late = run(binary, args, mutant=mutant)
            is_over |= is_late
            if not failed:
                break
            name = failed[0]
            if fails_again(binary, name, mutant):
                return name, once, is_over
            once.append(name)
    return None, once, is_over


def show(outcome, name, detail, seconds):
    print(f"{outcome:14} {name:76} {detail} ({seconds:.0f} s)", flush=True)


def run_tests(mutant, runs, all_failures, began, number=None):
    """Runs the tests for a mutant; returns whether one of them has detected it."""
    if all_failures:
        failed, is_over = run_all(runs, number)
        killer, once = ", ".join(name for _, name in failed), []
    else:
        killer, once, is_over = kill(runs, number)
    outcome = "killed" if killer else "too slow" if is_over else "SURVIVED"
    detail = killer or " ".join(f"{name} failed once" for name in once)
    show(outcome, mutant.name, detail, time.monotonic() - began)
    return bool(killer)


def run_mutant(mutant, all_failures):
    """Applies a mutant to the copy and runs the tests; returns whether one of them has detected it."""
    began = time.monotonic()
    for path, old, new in mutant.changes:
        file = COPY / path
        file.write_text(file.read_text().replace(old, new))
    try:
        binaries = build()
        if binaries is None:
            show("does not build", mutant.name, WORK / "build.log", time.monotonic() - began)
            return False
        return run_tests(mutant, locks(binaries), all_failures, began)
    finally:
        for path, _, _ in mutant.changes:
            shutil.copyfile(ROOT / path, COPY / path)


def with_switches(mutants):
    """Returns the files that mutants change, each with all changes and the code for their switches."""
    lib = (ROOT / "src/lib.rs").read_text()
    texts = {"src/lib.rs": lib.replace("mod acl;\n", "mod acl;\nmod mutant;\n", 1), "src/mutant.rs": SWITCHES}
    for number, mutant in enumerate(mutants):
        for path, old, new in mutant.changes:
            text = texts.get(path) or (ROOT / path).read_text()
            if text.count(old) != 1:
                sys.exit(f"{mutant.name}: another mutant changes this text of {path}, too:\n{old}")
            texts[path] = text.replace(old, new.replace(SWITCH, f"crate::mutant::is({number})"))
    return texts


def tests_pass(runs):
    """Returns whether tests pass without a mutant, or have for the same source."""
    named = repr([names for _, names, _ in runs])
    passed, content = WORK / "passed", content_of_copy() + named
    if passed.exists() and passed.read_text() == content:
        return True
    failed, is_over = run_all(runs)
    failed = [name for binary, name in failed if fails_again(binary, name)]
    if failed or is_over:
        print("the tests do not pass without a mutant:", *failed or ["they take too long"], file=sys.stderr)
        return False
    passed.write_text(content)
    return True


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--check", action="store_true")
    args.add_argument("--only", action="append")
    args.add_argument("--part", default="1/1")
    args.add_argument("--all-failures", action="store_true")
    args.add_argument("list", nargs="?", type=Path, default=Path(__file__).resolve().with_name("locks.txt"))
    args = args.parse_args()
    mutants = read_list(args.list)
    wrong = [f"{mutant.name}: {text}" for mutant in mutants for text in mutant.check()]
    if wrong:
        print(f"{args.list} does not fit the source:", *wrong, sep="\n", file=sys.stderr)
        return 2
    with_switch = {mutant.name: all(SWITCH in new for _, _, new in mutant.changes) for mutant in mutants}
    has_switches = any(with_switch.values())
    without = [name for name, has_switch in with_switch.items() if has_switches and not has_switch]
    if without:
        print(f"a change of these has no {SWITCH}, unlike others of {args.list}:", *without, sep="\n", file=sys.stderr)
        return 2
    first, step = map(int, args.part.split("/"))
    only = args.only or [""]
    numbers = [number for number, mutant in enumerate(mutants) if any(words in mutant.name for words in only)]
    numbers = numbers[first - 1 :: step]
    if args.check or not numbers:
        print(f"{len(numbers)} mutants")
        return 0 if numbers else 2
    began = time.monotonic()
    copy_project(with_switches(mutants) if has_switches else None)
    binaries = build(BUILD_SWITCHES, "1") if has_switches else build()
    if binaries is None:
        print(f"the project does not build: {WORK / 'build.log'}", file=sys.stderr)
        return 2
    every = sorted({test for number in numbers for test in mutants[number].tests})
    if not tests_pass(chosen(binaries, every) if has_switches else locks(binaries)):
        return 2
    show("passed", "(no mutant)", "", time.monotonic() - began)
    killed = 0
    for mutant, number in [(mutants[number], number) for number in numbers]:
        if has_switches:
            runs = chosen(binaries, mutant.tests)
            killed += run_tests(mutant, runs, args.all_failures, time.monotonic(), number)
        else:
            killed += run_mutant(mutant, args.all_failures)
    print(f"{killed} of {len(numbers)} mutants killed, in {(time.monotonic() - began) / 60:.0f} minutes")
    return 0 if killed == len(numbers) else 1


if __name__ == "__main__":
    sys.exit(main())
