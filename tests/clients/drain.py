"""Drains a server under load into another one, with redis-py: no call fails.

    drain.py BINARY

redis-py takes the host of MOVING and keeps its port, so the other server has the same port at 127.0.0.2.
"""

import json
import subprocess
import sys
import threading

import redis
from redis.maint_notifications import EndpointType, MaintNotificationsConfig

WORKERS = 4
CALLS = 300  # of each worker, before and after


def start(binary, host, port):
    command = [binary, '--bind', host, '--port', str(port), '--save', '', '--exit-on-stdin-close', '--loglevel', 'warning']
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    return process, json.loads(process.stdout.readline())['port']


def main(binary):
    old, port = start(binary, '127.0.0.1', 0)
    new, _ = start(binary, '127.0.0.2', port)
    notices = MaintNotificationsConfig(enabled=True, endpoint_type=EndpointType.INTERNAL_IP)
    client = redis.Redis(host='127.0.0.1', port=port, protocol=3, maint_notifications_config=notices, retry=None)
    enough, drained, errors = threading.Barrier(WORKERS + 1), threading.Event(), []

    def work():
        try:
            for _ in range(CALLS):
                client.incr('calls')
            enough.wait()
            while not drained.is_set():
                client.incr('calls')
            for _ in range(CALLS):
                client.incr('calls')
        except redis.RedisError as error:
            errors.append(error)
            enough.abort()

    workers = [threading.Thread(target=work) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    try:
        enough.wait()
        drain = [binary, 'drain', f'redis://127.0.0.1:{port}', '--to', f'127.0.0.2:{port}', '--seconds', '30']
        subprocess.run(drain, check=True, timeout=60)
        assert old.wait(30) == 0, 'the drained server has ended'
        drained.set()
        for worker in workers:
            worker.join(60)
        assert not errors, errors
        moved = int(redis.Redis(host='127.0.0.2', port=port).get('calls'))
        assert moved >= WORKERS * CALLS, f'{moved} calls at the other server'
    finally:
        drained.set()
        for process in (old, new):
            process.stdin.close()
            process.wait(30)
    print('drain: redis-py has moved without a failed call')


if __name__ == '__main__':
    main(sys.argv[1])
