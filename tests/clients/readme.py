"""Runs the examples of docs/LOCKS.md as they stand there, but for the address, beside a holder of the lock.

    KEYLATCH_SERVERS=host:port readme.py NODE_FOLDER RUST_MANIFEST RUST_TARGET

Each has to wait in line, to get the lock when the holder releases it, to print its fence, and to release it.
NODE_FOLDER has the packages of Node; RUST_MANIFEST is of a package that depends on the redis crate, built in RUST_TARGET.
"""

import os
import pathlib
import re
import shlex
import subprocess
import sys
import time
import zlib

import redis

KEY = 'lock:report'
PATIENCE_S = 120
ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / 'docs' / 'LOCKS.md'


def between(name):
    """Returns the part of the page between two marks."""
    return PAGE.read_text().split(f'<!-- {name} -->')[1].split(f'<!-- /{name} -->')[0]


def examples():
    """Returns name, language and text of each example."""
    return re.findall(r'^([^\n]+):\n\n```(\w+)\n(.*?)^```$', between('examples'), re.MULTILINE | re.DOTALL)


class Programs:
    """Makes programs of examples."""

    def __init__(self, node, manifest, target, port):
        self.node, self.manifest, self.target, self.port = pathlib.Path(node), manifest, pathlib.Path(target), port

    def python(self, text):
        return [sys.executable, '-c', text]

    def js(self, text):
        path = self.node / f'readme-{zlib.crc32(text.encode())}.mjs'
        path.write_text(text)
        return ['node', str(path)]

    def rust(self, text):
        path = self.target / 'readme.rs'
        if not path.exists() or path.read_text() != text:  # or it would be built again
            path.write_text(text)
        build = ['cargo', 'build', '--quiet', '--locked', '--manifest-path', self.manifest, '--bin', 'readme']
        environment = os.environ | {'README_EXAMPLE': str(path)}
        subprocess.run([*build, '--target-dir', str(self.target)], env=environment, check=True, timeout=2 * PATIENCE_S)
        return [str(self.target / 'debug' / 'readme')]

    def sh(self, text):
        return ['bash', '-c', f'redis-cli() {{ command redis-cli -p {self.port} "$@"; }}\n{text}']


def wait(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f'FAILED: waited in vain for {what}')
        time.sleep(0.005)


def run(name, command, client):
    """Runs a program that uses the lock while another holds it."""
    first = client.execute_command('LOCK.ACQUIRE', KEY, 'holder', 'PX', PATIENCE_S * 1000)
    program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        waiting = lambda: client.execute_command('LOCK.INFO', KEY)['waiters'] or program.poll() is not None
        wait(waiting, f'{name} to stand in line')
        assert client.execute_command('LOCK.RELEASE', KEY, 'holder') == 1
        said, _ = program.communicate(timeout=PATIENCE_S)
    finally:
        program.kill()
    fence = re.search(r'with fence (\d+)', said)
    if program.returncode or not fence or int(fence[1]) <= first:
        sys.exit(f'FAILED: {name} ended with status {program.returncode} and said {said!r}')
    if client.exists(KEY):
        sys.exit(f'FAILED: {name} has not released the lock')


def transcripts(client, port):
    """Types the commands of a session and compares what is shown; the fences are other numbers each time."""
    real = {}  # a fence in the page, and what it is in this session
    for command, shown in re.findall(r'^\$ redis-cli (.*)\n((?:[^$`].*\n)*)', between('fences'), re.MULTILINE):
        for written, number in real.items():
            command = command.replace(written, number)
        typed = ['redis-cli', '-p', port, *shlex.split(command.split(' #')[0])]
        said = subprocess.run(typed, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout.split()
        # Not at a terminal redis-cli shows replies without their types; null is an empty line.
        expected = [word for word in re.sub(r'\d+\) |\(integer\) |\(nil\)|"', ' ', shown).split()]
        if command.startswith('LOCK.ACQUIRE') and len(said) == len(expected) == 1:
            real[expected[0]] = said[0]
        expected = [real.get(word, word) for word in expected]
        if said != expected:
            sys.exit(f'FAILED: redis-cli {command}: {said}, not {expected}')
    assert len(real) == 2, 'the session has two holders'


def main():
    node, manifest, target = sys.argv[1:]
    host, port = os.environ['KEYLATCH_SERVERS'].split(':')[:2]
    client = redis.Redis(host, int(port), protocol=3, decode_responses=True)
    programs = Programs(node, manifest, target, port)
    found = examples()
    if len(found) < 6:
        sys.exit(f'FAILED: only {len(found)} examples in the page')
    for name, language, text in found:
        if 'localhost:6379' not in text and language != 'sh':
            sys.exit(f'FAILED: {name} does not name the address')
        run(name, getattr(programs, language)(text.replace('localhost:6379', f'{host}:{port}')), client)
        print(f'LOCKS.md, {name}: waits, works with a fence, releases', flush=True)
    client.flushall()
    transcripts(client, port)
    print('LOCKS.md, fences: a late write is refused, as shown', flush=True)


if __name__ == '__main__':
    main()
