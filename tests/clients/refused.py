"""Runs every example of every page that acquires a lock, with servers that do not grant it.

    KEYLATCH_SERVERS=host:port refused.py NODE_FOLDER RUST_MANIFEST RUST_TARGET

The server has to be in test mode. No example may do what its lock protects, and each has to end with a status other
than 0. Tests among the examples need no such proof: they fail by themselves.
"""

import contextlib
import os
import re
import socket
import subprocess
import sys
import textwrap

import redis
from locks_page import FENCE, PATIENCE_S, ROOT, Programs, examples, promised, wait

LOCKS = re.compile(r'LOCK\.ACQUIRE|\bNX\b|\bnx=|\.lock\(|\bA?s?y?n?c?Lock\(|\b[aA]cquire\(')
TESTS = re.compile(r"def test_|\btest\('|#\[test\]|TestCase")
TAKES = ('LOCK.ACQUIRE', 'LOCK.ACQUIREMULTI', 'SET')
ERRORS = {
    'another type': 'WRONGTYPE Operation against a key holding the wrong kind of value',
    'another server': "ERR unknown command 'LOCK.ACQUIRE', with args beginning with: 'lock:report'",
    'a replica': "READONLY You can't write against a read only replica.",
}
PYTHON = 'write = lambda part, fence: print("entered")\nasync def work(): print("entered")\nparts = [1]\n'
NODE = 'const write = async () => console.log("entered");\nconst work = write, parts = [];\n'


class Example:
    """An example: its page and language, its program for an address, and what it prints if it believes in its lock."""

    def __init__(self, page, language, text, entered, waits=False):
        self.name, self.language, self.text = f'{page.relative_to(ROOT)}, {language}', language, text
        self.entered, self.waits = entered, waits  # it gives up a wait in line after ten seconds

    def program(self, programs, address):
        port = address.split(':')[1]
        text = self.text.replace('Redis()', f'Redis(port={port})')
        text = text.replace('createClient()', f"createClient({{ url: 'redis://{address}' }})")
        return programs.at(address).of(self.language, text)


def helper_in_python(text):
    """Makes a program of an example of packages/python/lock, with its body in a coroutine if necessary."""
    if 'async with' in text:
        text = f'import asyncio\nasync def main():\n{textwrap.indent(text, "    ")}\nasyncio.run(main())'
    return PYTHON + text


def helper_in_node(text):
    """Makes a program of an example of packages/node/lock. Node 20 has no `await using`, so it releases nothing."""
    imports = "import { createClient } from 'redis';\nimport { acquire } from 'keylatch-lock';\n"
    connected = 'const client = await createClient().connect();\n'
    text = text if 'import' in text else imports + connected + text
    return NODE + text.replace('await using', 'const').replace("'keylatch-lock'", "'./lock/index.js'")


def found():
    """Returns the examples of all pages that take a lock, and fails for one that is not known here."""
    whole = [text for _, _, text in examples()]
    pages = (page for depth in ('', '*/', '*/*/', '*/*/*/') for page in ROOT.glob(f'{depth}*.md'))
    for page in (page for page in pages if 'target' not in page.parts):
        for language, text in re.findall(r'^```(python|js|rust|sh|go|java)\n(.*?)^```$', page.read_text(), re.M | re.S):
            if not LOCKS.search(text) or TESTS.search(text):
                continue
            if text in whole:
                entered = FENCE.split(promised(text)[0])[0]
                yield Example(page, language, text, entered, waits='client.lock(' not in text)
            elif language in ('go', 'java') or language == 'rust' and page.parent.name == 'lock':
                continue  # of the helpers, whose own tests refuse them their locks
            elif page == ROOT / 'README.md' and 'one process at a time' in text:
                yield Example(page, language, text, 'one process at a time')
            elif page == ROOT / 'README.md' and 'console.log(await client.set(' in text:
                yield Example(page, language, text, 'OK')
            elif page.parent.name == 'lock':
                helper = {'python': helper_in_python, 'js': helper_in_node}[language]
                yield Example(page, language, helper(text), 'entered')
            else:
                sys.exit(f'FAILED: nothing shows that an example of {page} is safe without its lock:\n{text}')


def start(examples, programs, address):
    """Starts the examples, which run at the same time."""
    return [
        subprocess.Popen(each.program(programs, address), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for each in examples
    ]


def run(examples, programs, address, why, between=lambda: None):
    """Runs the examples; `between` is called as long as one runs."""
    started = start(examples, programs, address)
    try:
        between()
        for each, process in zip(examples, started):
            said, _ = process.communicate(timeout=PATIENCE_S)
            if each.entered in said or not process.returncode:
                sys.exit(f'FAILED: {each.name}, {why}: ended with status {process.returncode} and said {said!r}')
    finally:
        for process in started:
            process.kill()
    print(f'{len(examples)} examples, {why}: none goes on without its lock', flush=True)


def cut(client, examples, programs, address):
    """Cuts the connections of examples that retry for as long as they may wait: they retry, and none gets its lock."""
    acquired = lambda: client.info('locks')['acquired_total']
    connections = lambda: client.info('stats')['total_connections_received']
    had, before, started = acquired(), connections(), []
    with fault(client, 'DROP'):
        try:
            started = start(examples, programs, address)
            wait(lambda: connections() - before >= 10 * len(examples), 'all examples to connect again and again')
            ended = [each.name for each, process in zip(examples, started) if process.poll() is not None]
        finally:
            for process in started:
                process.kill()
        said = [process.communicate(timeout=PATIENCE_S)[0] for process in started]
    if ended or acquired() != had or any(each.entered in text for each, text in zip(examples, said)):
        sys.exit(f'FAILED: while connections are cut, {ended} give up, or one goes on: {said!r}')
    print(f'{len(examples)} examples, cut again and again: none goes on without its lock', flush=True)


@contextlib.contextmanager
def fault(client, *kind, commands=TAKES):
    for command in commands:
        client.execute_command('TEST.FAULT', 'ADD', command, *kind)
    yield
    client.execute_command('TEST.FAULT', 'CLEAR')


@contextlib.contextmanager
def password(client):
    client.config_set('requirepass', 'secret')
    yield
    client.config_set('requirepass', '')


def held(client, examples, programs, address):
    """Makes another client hold the lock for longer than each example waits."""
    client.execute_command('LOCK.ACQUIRE', 'lock:report', 'holder', 'PX', 1_000_000)

    def waited():
        info = lambda: client.execute_command('LOCK.INFO', 'lock:report')
        wait(lambda: len(info()['waiters']) == len(examples), 'all examples to stand in line')
        client.execute_command('TEST.TIME', 'ADVANCE', 10_000)

    run(examples, programs, address, 'held by another', waited)


def main():
    host, port = os.environ['KEYLATCH_SERVERS'].split(':')[:2]
    address = f'{host}:{port}'
    client = redis.Redis(host, int(port), protocol=3, decode_responses=True)
    programs = Programs(*sys.argv[1:], address)
    every = [each for each in found() if each.program(programs, address)]
    assert len(every) >= 11, every
    for why, error in ERRORS.items():
        with fault(client, 'ERROR', error):
            run(every, programs, address, why)
    with fault(client, 'ERROR', 'LOADING Redis is loading the dataset in memory', commands='*'):
        run(every, programs, address, 'a server that loads')
    with password(client):
        run(every, programs, address, 'no password')
    with fault(client, 'DROP'):
        # ioredis asks as often as it can connect.
        asks_once = [each for each in every if not re.search('ioredis|keylatch|lock/index', each.text)]
        run(asks_once, programs, address, 'cut connections')
    cut(client, [each for each in every if re.search('keylatch|lock/index', each.text)], programs, address)
    held(client, [each for each in every if each.waits], programs, address)
    with socket.socket() as nobody:
        nobody.bind(('127.0.0.1', 0))  # and does not listen
        port = str(nobody.getsockname()[1])
        run(every, programs, f'127.0.0.1:{port}', 'no server')


if __name__ == '__main__':
    main()
