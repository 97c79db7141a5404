"""Uses a server through redis-cli in all its modes, redis-benchmark, the exporter of Prometheus and webdis.

    KEYLATCH_SERVERS=host:port tools.py
"""

import http.client
import json
import os
import pty
import re
import select
import socket
import subprocess
import tempfile
import termios
import time

PATIENCE_S = 60
HOST, PORT = os.environ['KEYLATCH_SERVERS'].split(':')[:2]
AT = ['-h', HOST, '-p', PORT]


def cli(*words, given=''):
    """Runs redis-cli to its end; returns its whole output, without its colours."""
    command = ['redis-cli', *AT, *words]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=PATIENCE_S)
    return re.sub(r'\x1b\[[\d;]*m', '', done.stdout + done.stderr)


def same(got, expected):
    assert got == expected, f'{got!r}\n  and not\n{expected!r}'


def says(got, *patterns):
    for pattern in patterns:
        assert re.search(pattern, got), f'nothing like {pattern!r} in\n{got}'


def until(condition, what):
    """Waits for another process; the clock is real, and the wait is bounded."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f'waited in vain for {what}'
        time.sleep(0.02)
    return found


def free_port():
    with socket.create_server((HOST, 0)) as listener:
        return listener.getsockname()[1]


def one_command():
    """redis-cli with a command in its arguments, in every format."""
    same(cli('FLUSHALL'), 'OK\n')
    same(cli('MSET', 'a', '1', 'big', 'x' * 5000), 'OK\n')
    same(cli('MGET', 'a', 'missing'), '1\n\n')
    same(cli('--no-raw', 'MGET', 'a', 'missing'), '1) "1"\n2) (nil)\n')
    same(cli('--json', 'MGET', 'a', 'missing'), '["1",null]\n')
    same(json.loads(cli('-3', '--json', 'HELLO', '3'))['proto'], 3)
    same(cli('--csv', 'MGET', 'a', 'missing'), '"1",NULL\n')
    same(cli('-3', '--no-raw', 'CONFIG', 'GET', 'maxmemory'), '1# "maxmemory" => "0"\n')
    same(cli('-x', 'SET', 'read', given='hello'), 'OK\n')
    same(cli('-X', 'TAG', 'SET', 'read', 'TAG', 'GET', given='again'), 'hello\n')
    same(cli('--quoted-input', 'SET', r'"nul\x00"', '1'), 'OK\n')
    same(cli('-n', '3', 'DBSIZE'), '0\n')
    same(cli('-u', f'redis://{HOST}:{PORT}/3', 'SET', 'there', '1'), 'OK\n')
    same(cli('-r', '3', '-i', '0', 'INCR', 'n'), '1\n2\n3\n')
    same(cli('-e', 'NOSUCH'), "ERR unknown command 'NOSUCH', with args beginning with: \n")
    says(cli('-a', 'wrong', '--no-auth-warning', 'PING'), 'AUTH failed: ERR AUTH <password> called without', 'PONG')
    says(cli('--no-raw', 'CLIENT', 'HELP'), 'CLIENT <subcommand>', 'KILL', 'HELP')
    says(cli('HELP', 'GETEX'), r'GETEX key \[EX seconds\|PX milliseconds', 'since: 6.2.0', 'group: string')
    with tempfile.NamedTemporaryFile('w', suffix='.lua') as script:
        script.write("return {KEYS[1], ARGV[1], redis.call('GET', KEYS[1])}")
        script.flush()
        same(cli('--eval', script.name, 'a', ',', 'word'), 'a\nword\n1\n')


def many_commands():
    """redis-cli fed by a pipe, and in the modes that go through all keys."""
    lines = ''.join(f'SET key:{number} {"x" * (number % 50 + 1)}\n' for number in range(1000))
    same(cli(given=lines), 'OK\n' * 1000)
    words = [f'*3\r\n$3\r\nSET\r\n$5\r\np:{number:03}\r\n$1\r\n1\r\n' for number in range(1000)]
    says(cli('--pipe', given=''.join(words)), 'errors: 0, replies: 1000')
    says(cli('--pipe', given='SET a 1\r\nNOSUCH\r\nINCR big\r\n'), 'errors: 2, replies: 3')
    same(sorted(cli('--scan', '--pattern', 'p:*').split()), [f'p:{number:03}' for number in range(1000)])
    same(cli('--scan', '--quoted-pattern', r'"n\x75l*"'), 'nul\n')  # it shows what is before the zero
    total = int(cli('DBSIZE'))
    says(cli('--bigkeys'), """Biggest string found '"big"' has 5000 bytes""", f'{total} strings with')
    says(cli('--memkeys'), """Biggest string found '"big"' has 5\\d\\d\\d bytes""", f'{total} strings with')
    says(cli('--hotkeys'), 'ERR An LFU maxmemory policy is not selected')
    cli('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lfu')
    cli('SET', 'hot', '1')  # a key of before may begin with any count
    cli('-r', '300', 'GET', 'hot')
    says(cli('OBJECT', 'FREQ', 'hot'), r'^\d+$')
    says(cli('--hotkeys'), r'hot key found with counter: \d+\s+keyname: ')
    cli('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')


def measurements():
    """redis-cli's clocks and counters."""
    says(cli('--latency', '--raw', '-i', '0.3'), r'^\d+ \d+ \d+\.\d\d \d+')
    says(cli('--intrinsic-latency', '1'), r'\d+ total runs')
    endless = {'--stat': 'keys       mem      clients', '--latency-history': 'seconds range', '--latency-dist': '-----'}
    for mode, sign in endless.items():
        with tempfile.TemporaryFile('w+') as said:
            running = subprocess.Popen(['redis-cli', *AT, '--no-raw', mode, '-i', '0.1'], stdout=said)
            until(lambda: sign in (said.seek(0), said.read())[1], mode)
            running.kill()
            running.wait()


def watching():
    """MONITOR and SUBSCRIBE, which go on."""
    with tempfile.TemporaryFile('w+') as said:
        heard = lambda: (said.seek(0), said.read())[1]
        for words, sign, doing, brings in (
            (['MONITOR'], 'OK', ['ECHO', 'watched'], r'\d+\.\d{6} \[0 127.0.0.1:\d+\] "ECHO" "watched"'),
            (['-3', 'PSUBSCRIBE', 'n*'], 'psubscribe', ['PUBLISH', 'news', 'hello'], r'pmessage\nn\*\nnews\nhello'),
        ):
            running = subprocess.Popen(['redis-cli', *AT, *words], stdout=said)
            until(lambda: sign in heard(), words)
            cli(*doing)
            until(lambda: re.search(brings, heard()), brings)
            running.kill()
            running.wait()


def at_a_terminal():
    """redis-cli as people use it: hints while they type, completion, help, a transaction in the prompt."""
    child, terminal = pty.fork()
    if child == 0:
        termios.tcsetwinsize(0, (24, 200))
        os.environ |= {'TERM': 'xterm', 'REDISCLI_HISTFILE': '/dev/null'}
        os.execvp('redis-cli', ['redis-cli', *AT])
    seen = b''

    def sees(sign):
        nonlocal seen
        while sign not in seen:
            assert select.select([terminal], [], [], PATIENCE_S)[0], f'waited in vain for {sign}, got {seen}'
            seen += os.read(terminal, 4096)
        seen = seen[seen.index(sign) + len(sign) :]

    def types(keys):
        for key in keys:  # a key at a time, as its line editor expects
            os.write(terminal, key.encode())
            time.sleep(0.005)

    def enters(keys, *signs):
        types(keys + '\r')
        for sign in (*signs, b'> '):  # what is typed before the prompt is lost
            sees(sign)

    sees(b'> ')
    types('SET ')
    sees(b'key value [NX|XX')
    enters('greeting hello', b'OK')
    types('CLIENT KI\t')
    sees(b'CLIENT KILL')
    enters('\x15HELP @string', b'STRLEN')
    enters('MULTI', b'OK', b'(TX)')
    enters('GET greeting', b'QUEUED')
    enters('EXEC', b'1) "hello"')
    enters('SELECT 3', b'[3]')
    types('exit\r')
    os.waitpid(child, 0)
    os.close(terminal)


def benchmark():
    """redis-benchmark with all its tests of strings, in each of its ways."""
    tests = ['ping_inline', 'ping_mbulk', 'set', 'get', 'incr', 'mset']
    for way in (['-c', '20'], ['-P', '16', '-r', '1000', '-d', '100'], ['--threads', '2'], ['-3']):
        command = ['redis-benchmark', *AT, '--csv', '-n', '5000', *way, '-t', ','.join(tests)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        same((len(done.stdout.splitlines()), done.returncode), (1 + len(tests), 0))
    script = "return redis.call('INCR', KEYS[1])"
    command = ['redis-benchmark', *AT, '-q', '-n', '1000', '-r', '10', 'EVAL', script, '1', 'bench:__rand_int__']
    says(subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S).stdout, 'requests per second')


def ask(port, method, path):
    """Makes a request of a server of HTTP; returns the body, or nothing while there is no such server."""
    try:
        connection = http.client.HTTPConnection(HOST, port, timeout=PATIENCE_S)
        connection.request(method, path)
        return connection.getresponse().read().decode()
    except ConnectionRefusedError:
        return None


def exporter():
    """The exporter of Prometheus."""
    port = free_port()
    places = ['-redis.addr', f'redis://{HOST}:{PORT}', '-web.listen-address', f'{HOST}:{port}']
    looks_at = ['-check-single-keys', 'big', '-count-keys', 'p:*', '-export-client-list']
    running = subprocess.Popen(['prometheus-redis-exporter', *places, *looks_at], stderr=subprocess.DEVNULL)
    found = until(lambda: ask(port, 'GET', '/metrics'), 'the exporter')
    running.kill()
    running.wait()
    says(found, r'(?m)^redis_up 1$', r'(?m)^redis_exporter_last_scrape_error{err=""} 0$',
         r'(?m)^redis_key_size{db="db0",key="big"} 5000$', r'(?m)^redis_keys_count{db="db0",key="p:\*"} 1000$',
         r'redis_commands_total{cmd="get"} \d', r'redis_memory_used_bytes \d', r'redis_instance_info{.*role="master"',
         r'redis_connected_clients_details{.*name="redis_exporter"')


def webdis():
    """webdis, which speaks HTTP for a server."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, 'webdis.json')
        with open(config, 'w', encoding='utf-8') as file:
            settings = {'redis_host': HOST, 'redis_port': int(PORT), 'http_host': HOST, 'http_port': port, 'threads': 2,
                        'pool_size': 2, 'daemonize': False, 'logfile': os.path.join(folder, 'log'), 'verbosity': 3}
            json.dump(settings, file)
        running = subprocess.Popen(['webdis', config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        same(until(lambda: ask(port, 'GET', '/PING'), 'webdis'), '{"PING":[true,"PONG"]}')
        same(ask(port, 'GET', '/SET/web/1'), '{"SET":[true,"OK"]}')
        same(ask(port, 'GET', '/MGET/web/missing'), '{"MGET":["1",null]}')
        same(ask(port, 'GET', '/INCR/big'), '{"INCR":[false,"ERR value is not an integer or out of range"]}')
        same(ask(port, 'GET', '/GET/web.txt'), '1')
        running.kill()
        running.wait()


def main():
    began = time.monotonic()
    for part in (one_command, many_commands, measurements, watching, at_a_terminal, benchmark, exporter, webdis):
        try:
            part()
        except Exception as error:
            raise SystemExit(f'FAILED: {part.__name__}: {error!r}') from error
    version = re.search(r'\d\S+', cli('--version')).group()
    print(f'redis-cli and redis-benchmark {version}, exporter, webdis: well, {time.monotonic() - began:.1f} s')


if __name__ == '__main__':
    main()
