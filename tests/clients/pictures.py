"""Takes the pictures of the page in the documentation, in light and dark, with Chromium; needs pngquant and zopfli.

    KEYLATCH_SERVERS=host:port:pid KEYLATCH_METRICS_PORT=port pictures.py locks|metrics|engine FOLDER

Of `locks` the server is in test mode: KEYLATCH_TEST_MODE=yes KEYLATCH_METRICS_PORT=port servers.py BINARY 1
pictures.py locks FOLDER. Of the others it works for five minutes, which is what the plots show and longer than
servers.py lets a command run, so it is started by hand; of `engine` two servers whose data is in the same
cluster, of which the first has the metrics port.
"""

import math
import os
import random
import subprocess
import sys
import threading
import time

import redis

from chromium import Chromium
from page import HOST, PAGE, PORT, acquire, client, let_release, row, scene, unfold

SECONDS = 330
LOCKS = ['lock:report:monthly', 'lock:mail:newsletter', 'lock:billing:run', 'lock:index:products', 'lock:import:prices']


def take(name, folder, expression, prepare, width, colours, scale=2):
    """Takes a picture of an element, of few colours."""
    for scheme in ('light', 'dark'):
        with Chromium(width, 1200, scheme == 'dark', scale) as browser:
            browser.go(PAGE)
            prepare(browser)
            path = os.path.join(folder, f'{name}-{scheme}.png')
            browser.picture(path, expression)
            convert = ['pngquant', '--nofs', '--speed', '1', '--strip', '--force', '--output', path, str(colours), path]
            subprocess.run(convert, check=True)
            subprocess.run(['zopflipng', '-y', path, path], check=True, stdout=subprocess.DEVNULL)


def take_locks(folder):
    admin = redis.Redis(HOST, int(PORT))
    here = scene(lambda seconds: admin.execute_command('TEST.TIME', 'ADVANCE', seconds * 1000))

    def prepare(browser):
        browser.wait_for('document.querySelectorAll("#locks > tbody").length >= 4')
        let_release(browser)
        unfold(browser, 'lock:catalogue')
        browser.wait_for(f'{row("lock:catalogue")}.innerText.includes("import 2")')
        browser.run('scrollTo(0, 0)')

    take('locks', folder, 'document.querySelector("#locks").closest("section")', prepare, 1200, 32)
    print(f'pictures of {len(here)} clients')


class Worker(threading.Thread):
    """A client that takes locks in turn and works while it holds them."""

    def __init__(self, name, keys, hold_s, idle_s, *place):
        super().__init__(name=name, daemon=True)
        self.client, self.keys, self.hold_s, self.idle_s = client(name, *place), keys, hold_s, idle_s

    def run(self):
        for turn in range(1 << 30):
            key, token = random.choice(self.keys), f'{self.name} {turn}'
            meta = ['META', 'closing of the month'] if key == LOCKS[0] else []
            if self.client.execute_command('LOCK.ACQUIRE', key, token, 'PX', 60_000, *meta, 'BLOCK', 60_000):
                time.sleep(random.lognormvariate(math.log(self.hold_s), 0.9))
                self.client.execute_command('LOCK.RELEASE', key, token)
            time.sleep(random.expovariate(1 / self.idle_s))


class Site(threading.Thread):
    """A client that reads and writes, more by day than by night."""

    def __init__(self, name, began):
        super().__init__(daemon=True)
        self.client, self.began = client(name), began

    def run(self):
        while True:
            busy = 1 + 0.55 * math.sin((time.monotonic() - self.began) / 24) + random.uniform(-0.1, 0.1)
            with self.client.pipeline(transaction=False) as batch:
                for _ in range(int(90 * busy)):
                    key = f'session:{random.randrange(40_000)}'
                    batch.get(key) if random.random() < 0.8 else batch.set(key, 'x' * 40, ex=900)
                batch.execute()
            time.sleep(0.1)


def work():
    """Lets clients work for as long as the plots show."""
    admin = redis.Redis(HOST, int(PORT))
    with admin.pipeline(transaction=False) as batch:
        for number in range(40_000):
            batch.set(f'session:{number}', 'x' * 40, ex=3600)
        batch.execute()
    slow, quick = LOCKS[:2], LOCKS[2:]
    workers = [Worker(f'worker-{number}', quick, 0.05, 0.2) for number in range(1, 9)]
    workers += [Worker(f'cron-{number}', slow, 3, 4) for number in range(1, 5)]
    workers += [Worker(f'web-{number}', slow, 0.4, 6) for number in range(1, 6)]
    sites = [Site(f'site-{number}', time.monotonic()) for number in range(1, 4)]
    for one in workers + sites:
        one.start()
    time.sleep(SECONDS / 2)
    admin.bgsave()
    time.sleep(SECONDS / 2)
    holders = [client('trainer-1'), client('trainer-2'), client('import-1'), client('import-2')]
    acquire(holders[0], 'pool:gpu', 'token 1', 'PERMITS', 2, 'OF', 4, 'PX', 600_000)
    acquire(holders[1], 'pool:gpu', 'token 2', 'PERMITS', 1, 'PX', 600_000)
    for holder in holders[2:]:
        acquire(holder, 'lock:catalogue', f'token {holder}', 'SHARED', 'PX', 600_000)
    return holders


def at_least(count):
    """Returns the condition that there are so many locks, and that the plots have what came with the page."""
    return (f'document.querySelectorAll("#locks > tbody").length >= {count} '
            '&& at("link").className === "live" && series.commands.length >= SECONDS')


def only(shown):
    """Returns the statement that leaves the other parts of the page out."""
    return (f'document.querySelectorAll("body > *, main > *").forEach(node => {{ '
            f'if (!node.matches({shown!r})) node.style.display = "none"; }}); document.body.style.paddingBottom = "8px"')


def take_metrics(folder):
    here = work()

    def prepare(browser):
        browser.wait_for(at_least(3))
        browser.run(only('header, main, .tiles, .plots, section:has(#locks)'))

    take('metrics', folder, 'document.body', prepare, 1160, 20)
    print(f'pictures of {len(here)} holders and others')


def look_up():
    """Reads a key again and again, for which a process asks its cluster."""
    reader = client('site')
    while True:
        reader.get('settings')
        time.sleep(random.expovariate(40))


def take_engine(folder):
    other = os.environ['KEYLATCH_SERVERS'].split()[1].split(':')[:2]
    for number in range(1, 7):
        Worker(f'worker-{number}', LOCKS[1:], 0.05, 0.2, *(other if number % 2 else ())).start()
    threading.Thread(target=look_up, daemon=True).start()
    importer = client('importer', *other)
    acquire(importer, 'lock:import', 'token', 'PX', 600_000, 'META', 'catalogue')
    time.sleep(SECONDS)
    reporter, waiter = client('worker-7'), client('worker-8', *other)
    acquire(reporter, 'lock:report', 'token', 'PX', 120_000, 'META', 'nightly report')
    waits = ('LOCK.ACQUIRE', 'lock:report', 'token of worker-8', 'PX', 60_000, 'BLOCK', 0)
    threading.Thread(target=waiter.execute_command, args=waits, daemon=True).start()

    def prepare(browser):
        browser.wait_for(at_least(3))
        browser.run(only('main, #engine, section:has(#locks)') + '; document.body.style.padding = "10px"')

    take('engine', folder, 'document.body', prepare, 1160, 20, scale=1)
    print('pictures of two processes')


if __name__ == '__main__':
    {'locks': take_locks, 'metrics': take_metrics, 'engine': take_engine}[sys.argv[1]](sys.argv[2])
