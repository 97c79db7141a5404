"""Runs the programs of docs/LOCKS.md as they stand there, but for the address, beside a holder of their locks.

    KEYLATCH_SERVERS=host:port locks_page.py NODE_FOLDER RUST_MANIFEST RUST_TARGET

Each has to wait, to get its lock when the holder releases it, to print what the page says, with fences of its own,
and to release the lock. NODE_FOLDER has the packages of Node; RUST_MANIFEST is of a package that depends on the redis
crate, built in RUST_TARGET. The examples of Go and Java are built beside the tests of the helpers, whose connections
they use, where `go` and `javac` are; with KEYLATCH_REQUIRE_GO and KEYLATCH_REQUIRE_JAVA it is a failure if these are
not. Sessions, settings and scripts without redis-cli are run by tests/it/locks_page.rs.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap
import time
import zlib

import redis

PATIENCE_S = 120
ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / 'docs' / 'LOCKS.md'
LANGUAGES = ('python', 'js', 'go', 'java', 'rust', 'sh')
ELSEWHERE = ('redis', 'conf')  # run by tests/it/locks_page.rs
LOCKS = ('lock:report', 'lock:page', 'lock:pool', 'account:1', 'account:2')
FENCE = re.compile(r'\d{13,}')

GO = """
package lock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"keylatch/lock"
)

func TestExampleOfThePage(t *testing.T) {
	if err := example(context.Background(), theServer()); err != nil {
		t.Fatal(err)
	}
}

func example(ctx context.Context, client lock.Client) error {
BODY
	return nil
}
"""
JAVA = """
package keylatch.lock.tests;

import java.time.Duration;
import keylatch.lock.Client;
import keylatch.lock.Lock;
import keylatch.lock.Options;

final class Page {
    public static void main(String[] words) throws Exception {
        Client client = Server.named();
BODY
    }
}
"""


class Programs:
    """Makes programs of examples, for a server at an address."""

    def __init__(self, node, manifest, target, address):
        self.node, self.manifest, self.target = pathlib.Path(node).absolute(), manifest, pathlib.Path(target).absolute()
        self.address = address
        self.built = {}

    def at(self, address):
        """Returns the same for a server at another address."""
        other = Programs(self.node, self.manifest, self.target, address)
        other.built = self.built
        return other

    def of(self, language, text):
        """Returns the command that runs an example; None if there is no such compiler here, which is said."""
        tool = {'go': 'go', 'java': 'javac'}.get(language)
        if tool and not shutil.which(tool):
            if os.environ.get(f'KEYLATCH_REQUIRE_{language.upper()}'):
                sys.exit(f'FAILED: there is no {tool}')
            print(f'LOCKS.md: there is no {tool} here, so its example is not run', flush=True)
            return None
        return getattr(self, language)(text.replace('localhost:6379', self.address))

    def python(self, text):
        return [sys.executable, '-c', text]

    def js(self, text):
        path = self.node / f'page-{zlib.crc32(text.encode())}.mjs'
        path.write_text(text.replace('"keylatch-lock"', '"./lock/index.js"'))
        return ['node', str(path)]

    def rust(self, text):
        path = self.target / 'locks_page.rs'
        if not path.exists() or path.read_text() != text:  # or it would be built again
            path.write_text(text)
        build = ['cargo', 'build', '--quiet', '--locked', '--manifest-path', self.manifest, '--bin', 'locks_page']
        environment = os.environ | {'LOCKS_PAGE_EXAMPLE': str(path)}
        subprocess.run([*build, '--target-dir', str(self.target)], env=environment, check=True, timeout=2 * PATIENCE_S)
        return [str(self.target / 'debug' / 'locks_page')]

    def sh(self, text):
        port = self.address.split(':')[1]
        return ['bash', '-c', f'redis-cli() {{ command redis-cli -p {port} "$@"; }}\n{text}']

    def go(self, text):
        def build(folder):
            package = ROOT / 'packages' / 'go' / 'lock'
            for name in ['go.mod', *(path.name for path in package.glob('*.go'))]:
                shutil.copy(package / name, folder / name)
            (folder / 'page_test.go').write_text(GO.replace('BODY', textwrap.indent(text, '\t').rstrip()))
            environment = {'GOCACHE': str(self.target.parent / 'go'), 'GOPROXY': 'off', 'GOTOOLCHAIN': 'local'}
            command = ['go', 'test', '-c', '-o', 'page']
            subprocess.run(command, cwd=folder, env=os.environ | environment, check=True, timeout=2 * PATIENCE_S)
            return [str(folder / 'page'), '-test.run', '^TestExampleOfThePage$']

        return self.at_the_server(self.once('go', text, build))

    def java(self, text):
        def build(folder):
            package, classes = ROOT / 'packages' / 'java' / 'lock', folder / 'classes'
            page = folder / 'Page.java'
            page.write_text(JAVA.replace('BODY', textwrap.indent(text, ' ' * 8).rstrip()))
            sources = [*package.glob('src/**/*.java'), *package.glob('test/**/*.java'), page]
            command = ['javac', '--release', '17', '-d', str(classes), *map(str, sources)]
            subprocess.run(command, check=True, timeout=2 * PATIENCE_S)
            return ['java', '-cp', str(classes), 'keylatch.lock.tests.Page']

        return self.at_the_server(self.once('java', text, build))

    def once(self, name, text, build):
        """Builds an example in an empty folder, the first time."""
        if (name, text) not in self.built:
            folder = self.target / f'page-{name}-{len(self.built)}'
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            self.built[name, text] = build(folder)
        return self.built[name, text]

    def at_the_server(self, command):
        return ['env', f'KEYLATCH_SERVERS={self.address}:0', *command]


def examples():
    """Returns heading, language and text of each program of the page."""
    heading, found = '', []
    for part in re.finditer(r'^#+ ([^\n]*)$|^```(\w*)\n(.*?)^```$', PAGE.read_text(), re.MULTILINE | re.DOTALL):
        heading = part[1] or heading
        if part[1] or part[2] in ELSEWHERE or part[2] == 'sh' and 'redis-cli' not in part[3]:
            continue
        if part[2] not in LANGUAGES:
            sys.exit(f'FAILED: nothing runs a block of {part[2]!r} under "{heading}"')
        found.append((heading, part[2], part[3]))
    return found


def promised(text):
    """Returns the output that an example promises."""
    return re.findall(r'^(?:#|//) prints: (.*)$', text, re.MULTILINE)


def wait(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f'FAILED: waited in vain for {what}')
        time.sleep(0.005)


def run(name, command, client, expected):
    """Runs a program that uses locks while another holds them."""
    first = max(client.execute_command('LOCK.ACQUIREMULTI', len(LOCKS), *LOCKS, 'holder', 'PX', PATIENCE_S * 1000))
    polls = lambda: client.info('commandstats').get('cmdstat_set', {}).get('calls', 0)
    expired = lambda: client.info('locks')['expired_while_held_total']
    polled, expired_before = polls(), expired()
    program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        queued = lambda: client.execute_command('LOCK.LIST', 0, 'COUNT', 1000, 'WAITING')[1]
        waiting = lambda: queued() or polls() > polled or program.poll() is not None
        wait(waiting, f'{name} to ask for its lock')
        assert all(client.execute_command('LOCK.RELEASE', key, 'holder') for key in LOCKS)
        said, _ = program.communicate(timeout=PATIENCE_S)
    finally:
        program.kill()
    said = said.removesuffix('PASS\n').splitlines()
    fences = [int(fence) for line in said for fence in FENCE.findall(line)]
    plain = lambda lines: [FENCE.sub('FENCE', line) for line in lines]
    if program.returncode or not expected or plain(said) != plain(expected):
        sys.exit(f'FAILED: {name} ended with status {program.returncode} and said {said}, not {expected}')
    if fences != sorted(fences) or any(fence <= first for fence in fences):
        sys.exit(f'FAILED: the fences of {name} do not increase: {first}, {fences}')
    if client.exists(*LOCKS) or expired() != expired_before:
        sys.exit(f'FAILED: {name} has not released its lock')


def main():
    node, manifest, target = sys.argv[1:]
    address = ':'.join(os.environ['KEYLATCH_SERVERS'].split(':')[:2])
    host, port = address.split(':')
    client = redis.Redis(host, int(port), protocol=3, decode_responses=True)
    programs = Programs(node, manifest, target, address)
    found = examples()
    if {language for _, language, _ in found} != set(LANGUAGES):
        sys.exit(f'FAILED: an example is missing of {found}')
    for heading, language, text in found:
        name = f'"{heading}", {language}'
        if 'localhost:6379' not in text and language not in ('go', 'java', 'sh'):
            sys.exit(f'FAILED: {name} does not name the address')
        if command := programs.of(language, text):
            run(name, command, client, promised(text))
            print(f'LOCKS.md, {name}: waits, works, prints what the page says, and releases', flush=True)


if __name__ == '__main__':
    main()
