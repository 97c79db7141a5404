"""Checks the metrics port with Prometheus' own tools: promtool, the strict parser of OpenMetrics, and redis_exporter,
whose names the metrics have.

    KEYLATCH_SERVERS=host:port:pid KEYLATCH_METRICS_PORT=port metrics.py
"""

import http.client
import os
import re
import socket
import subprocess
import threading
import time

import redis
from prometheus_client.openmetrics.parser import text_string_to_metric_families

PATIENCE_S = 60
HOST, PORT = os.environ['KEYLATCH_SERVERS'].split(':')[:2]
METRICS_PORT = int(os.environ['KEYLATCH_METRICS_PORT'])

# The exporter has these names too, but not yet in the version that Debian has, or only with an append-only file.
NEWER = {
    'redis_aof_base_size_bytes', 'redis_aof_current_size_bytes',
    'redis_acl_access_denied_auth_total', 'redis_acl_access_denied_channel_total', 'redis_acl_access_denied_cmd_total',
    'redis_acl_access_denied_key_total', 'redis_client_output_buffer_limit_disconnections_total',
    'redis_client_query_buffer_limit_disconnections_total', 'redis_evicted_clients_total',
    'redis_evicted_scripts_total', 'redis_eventloop_cycles_total', 'redis_expired_subkeys_total', 'redis_max_clients',
    'redis_number_of_functions', 'redis_pubsub_clients', 'redis_pubsubshard_channels', 'redis_total_blocking_keys',
    'redis_total_watched_keys', 'redis_watching_clients',
}


def ask(port, accept='text/plain'):
    """Returns the metrics; nothing while there is no server."""
    try:
        connection = http.client.HTTPConnection(HOST, port, timeout=PATIENCE_S)
        connection.request('GET', '/metrics', headers={'Accept': accept})
        answer = connection.getresponse()
        assert answer.status == 200, answer.status
        return answer.read().decode()
    except ConnectionRefusedError:
        return None


def work():
    """Creates activity to measure: commands, errors, keys with and without a TTL, locks, waits, a slow call."""
    client = redis.Redis(HOST, int(PORT))
    client.config_set('slowlog-log-slower-than', 0)
    client.set('key', 'value', px=600_000)
    client.get('missing')
    try:
        client.lpush('key', 'x')
    except redis.ResponseError:
        pass
    client.execute_command('LOCK.ACQUIRE', 'lock', 'token', 'PX', 600_000)
    waiter = threading.Thread(target=redis.Redis(HOST, int(PORT)).execute_command,
                              args=('LOCK.ACQUIRE', 'lock', 'other', 'PX', 600_000, 'BLOCK', PATIENCE_S * 1000))
    waiter.start()
    deadline = time.monotonic() + PATIENCE_S
    while client.info('locks')['waiting'] == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    client.execute_command('LOCK.RELEASE', 'lock', 'token')
    waiter.join()


def names(text):
    """Returns the names of all samples."""
    return set(re.findall(r'(?m)^([a-z_]+)[ {]', text))


def exported():
    """Returns the names that redis_exporter has for this server."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    places = ['-redis.addr', f'redis://{HOST}:{PORT}', '-web.listen-address', f'{HOST}:{port}']
    running = subprocess.Popen(['prometheus-redis-exporter', *places], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while (text := ask(port)) is None and time.monotonic() < deadline:
            time.sleep(0.02)
        return names(text)
    finally:
        running.kill()
        running.wait()


def main():
    work()
    text = ask(METRICS_PORT)
    done = subprocess.run(['promtool', 'check', 'metrics'], input=text, capture_output=True, text=True,
                          timeout=PATIENCE_S)
    assert (done.returncode, done.stdout + done.stderr) == (0, ''), done
    families = list(text_string_to_metric_families(ask(METRICS_PORT, 'application/openmetrics-text')))
    samples = {sample.name for family in families for sample in family.samples}
    assert samples == names(text), samples ^ names(text)
    there = exported()
    invented = {name for name in samples if name.startswith('redis_')} - there
    assert invented <= NEWER, f'redis_exporter does not have {invented - NEWER}'
    print(f'metrics: {len(families)}, well for promtool and OpenMetrics, named as by redis_exporter')


if __name__ == '__main__':
    main()
