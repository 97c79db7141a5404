"""Looks at the page of the metrics port in headless Chromium: what it shows of locks, how it fits on screens and phones,
and that it releases a lock only when a user has confirmed it and the server allows it.

    KEYLATCH_SERVERS=host:port:pid KEYLATCH_METRICS_PORT=port page.py

pictures.py shows the same locks in the documentation.
"""

import os
import re
import threading
import time

import redis

from chromium import Chromium

HOST, PORT = os.environ['KEYLATCH_SERVERS'].split(':')[:2]
METRICS_PORT = int(os.environ['KEYLATCH_METRICS_PORT'])
PAGE = f'http://127.0.0.1:{METRICS_PORT}/'
HOSTILE = '<img src=x onerror="document.title=1">'
LONG = 'lock:' + 'a-name-of-a-hundred-bytes-' * 4
# From screens to phones.
WIDTHS = (1280, 1000, 800, 500, 390)


def client(name, host=HOST, port=PORT):
    """Returns a connection with a name."""
    connected = redis.Redis(host, int(port), single_connection_client=True, client_name=name, socket_timeout=None)
    connected.ping()
    return connected


def acquire(holder, key, token, *more):
    fence = holder.execute_command('LOCK.ACQUIRE', key, token, *more)
    assert fence, (key, token)
    return fence


class Waiter(threading.Thread):
    """A client that waits for a lock."""

    def __init__(self, name, key, *more):
        super().__init__(daemon=True)
        self.request, self.fence, self.client = (key, f'token of {name}', *more, 'BLOCK', 0), None, client(name)
        before = self.client.info('locks')['waiting']
        self.start()
        while self.client_count() == before:
            time.sleep(0.01)

    @staticmethod
    def client_count():
        return redis.Redis(HOST, int(PORT)).info('locks')['waiting']

    def run(self):
        self.fence = self.client.execute_command('LOCK.ACQUIRE', *self.request)


def next_millisecond(_seconds):
    """Returns when the server's clock shows another millisecond: ages and waits of locks are whole milliseconds."""
    server = redis.Redis(HOST, int(PORT))
    milliseconds = lambda: server.time()[1] // 1000
    before = milliseconds()
    while milliseconds() == before:
        pass


def scene(later=next_millisecond):
    """Returns clients that hold locks of every kind, and wait for them; `later` lets time pass in between."""
    here = [client(name) for name in ('worker-1', 'worker-2', 'worker-3')]
    here.append(redis.Redis(HOST, int(PORT)))
    acquire(here[0], 'lock:invoices', 'secret-0', 'PX', 600_000, 'META', 'closing November')
    later(40)
    here.append(Waiter('worker-4', 'lock:invoices', 'PX', 600_000))
    later(7)
    here[0].execute_command('LOCK.RELEASE', 'lock:invoices', 'secret-0')
    later(0)
    acquire(here[0], 'lock:report', 'secret-1', 'PX', 600_000, 'META', 'nightly report', 'NOTIFY')
    for number in range(3):
        acquire(here[number], 'lock:catalogue', f'secret-r{number}', 'SHARED', 'PX', 600_000, 'META', f'import {number}')
    acquire(here[1], 'pool:gpu', 'secret-p1', 'PERMITS', 2, 'OF', 4, 'PX', 600_000, 'META', 'training')
    acquire(here[2], 'pool:gpu', 'secret-p2', 'PERMITS', 1, 'PX', 600_000)
    later(65)
    here.append(Waiter('worker-5', 'lock:report', 'PX', 600_000))
    later(3)
    here.append(Waiter('worker-6', 'lock:report', 'PX', 600_000))
    later(1)
    here.append(Waiter('worker-7', 'lock:catalogue', 'PX', 600_000))
    here.append(Waiter('worker-8', 'pool:gpu', 'PERMITS', 3, 'PX', 600_000))
    later(2)
    return here


def row(key):
    """Returns the expression of the body of a lock in the table."""
    return (f'[...document.querySelectorAll("#locks > tbody")]'
            f'.find(body => body.rows[0].cells[0].textContent.includes({key!r}))')


def text(browser, key):
    return browser.run(f'{row(key)}.innerText')


def unfold(browser, key):
    browser.click(f'{row(key)}.querySelector("button.fold")')
    browser.wait_for(f'!{row(key)}.rows[1].hidden')


def buttons(browser):
    return browser.run('[...document.querySelectorAll("#locks button.danger")].length')


def check_sections(browser):
    """Checks what is shown of locks, and that no name is more than a text."""
    browser.go(PAGE)
    browser.wait_for('document.querySelectorAll("#locks > tbody").length >= 5')
    for key in ('lock:report', 'lock:catalogue', 'pool:gpu'):
        unfold(browser, key)
    report, catalogue, pool = (text(browser, key) for key in ('lock:report', 'lock:catalogue', 'pool:gpu'))
    for part in ('nightly report', 'worker-1', 'In line: 2', 'worker-5', 'worker-6'):
        assert part in report, (part, report)
    for part in ('shared', 'Held by 3', 'import 0', 'import 2', 'worker-3', 'worker-7', 'exclusive'):
        assert part in catalogue, (part, catalogue)
    for part in ('1 of 4 free', 'Held by 2', '2 permits', '1 permit', '3 permits', 'worker-8'):
        assert part in pool, (part, pool)
    handed = browser.run('at("handovers").innerText')
    for part in ('lock:invoices', 'worker-1', 'worker-4'):
        assert part in handed, (part, handed)
    assert HOSTILE in text(browser, 'onerror'), 'it is a text'
    whole = browser.run('document.documentElement.outerHTML')
    assert 'secret' not in whole and browser.run('document.images.length') == 0 and buttons(browser) == 0
    assert browser.run('document.title') != '1'


def check_order(browser):
    """Checks both orders of locks."""
    first = 'document.querySelector("#locks > tbody").innerText'
    assert 'lock:report' in browser.run(first)
    browser.click('at("order")')
    browser.wait_for(f'{first}.includes("lock:invoices")')
    browser.click('at("order")')
    browser.wait_for(f'{first}.includes("lock:report")')


def check_saved(browser):
    """Checks what is said of a server that may save its data."""
    admin, said = redis.Redis(HOST, int(PORT)), 'at("server").innerText'
    assert 'saved' not in browser.run(said), 'it saves nothing'
    admin.config_set('save', '3600 1')
    browser.wait_for(f'{said}.includes("not saved since the start")')
    admin.bgsave()
    browser.wait_for(f'/ saved [0-9].* ago/.test({said})')
    admin.config_set('save', '')


def release_button(key):
    """Returns the expression of the button beside a lock."""
    return f'{row(key)}.rows[0].querySelector("button.danger")'


def let_release(browser):
    admin = redis.Redis(HOST, int(PORT))
    admin.execute_command('ACL', 'SETUSER', 'ops', 'on', '>right', '+@admin', '+lock.release', '~*')
    admin.config_set('metrics-release-user', 'ops')
    browser.wait_for(release_button('lock:report') + ' !== null')


# The elements and texts that are cut off, or reach beyond the box that they are in.
CUT = """(() => {
  const wide = [...document.querySelectorAll('body *')].filter(node => node.clientWidth
    && node.scrollWidth > node.clientWidth && getComputedStyle(node).overflowX !== 'visible');
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), beyond = [];
  for (let text; (text = texts.nextNode());) {
    const box = text.parentElement.closest('.tile, section'), range = document.createRange();
    range.selectNodeContents(text);
    const right = box ? box.getBoundingClientRect().right : innerWidth;
    if (text.parentElement.checkVisibility() && range.getBoundingClientRect().right > right + 1) beyond.push(text);
  }
  return [...wide, ...beyond].map(node => `${node.nodeName} ${node.textContent.trim().slice(0, 60)}`);
})()"""


def is_seen(node):
    """Returns the expression of whether an element is where a reader sees it, not beside the window or its table."""
    return (f'(() => {{ const node = {node}; node.scrollIntoView({{ block: "center" }}); '
            'const box = node.getBoundingClientRect(); '
            'return box.width > 0 && box.left >= 0 && box.right <= innerWidth '
            '&& node.contains(document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2)); })()')


def check_widths(browser):
    """Checks that the page fits on a screen and on a phone, also with locks that are unfolded."""
    holder = f'{row("lock:report")}.rows[0].querySelector("[data-column=Holder]")'
    unfolded = f'{row("lock:catalogue")}.rows[1].querySelector("table")'
    for width in WIDTHS:
        browser.resize(width, 900)
        browser.wait_for(f'innerWidth === {width}')
        browser.run('show()')
        whole = browser.run('document.documentElement.scrollWidth')
        assert whole <= width, (width, whole)
        cut = browser.run(CUT)
        assert not cut, (width, cut)
        nodes = [holder, release_button('lock:report'), f'{unfolded}.tBodies[0].rows[2].cells[0]',
                 f'{unfolded}.querySelectorAll("button.danger")[2]']
        unseen = [node for node in nodes if not browser.run(is_seen(node))]
        assert not unseen, (width, unseen)
        assert 'worker-1' in browser.run(f'{holder}.innerText')
        assert LONG in text(browser, LONG)


def check_labels(browser):
    """Checks that each button says what it does, to those who hear the page, too."""
    label = 'node => (node.getAttribute("aria-label") ?? node.textContent).trim()'
    labels = browser.run(f'[...document.querySelectorAll("button")].map({label})')
    assert all(labels), labels
    releases = browser.run(f'[...document.querySelectorAll("#locks button.danger")].map({label})')
    assert any(re.fullmatch('Release lock:report, held by client [0-9]+', one) for one in releases), releases
    assert all(re.fullmatch('(?s)Release .+, held by .+', one) for one in releases), releases


def check_release(browser, waiters):
    """Checks the button: it asks first, and needs the user's password."""
    admin = redis.Redis(HOST, int(PORT))
    button = release_button('lock:report')
    held = lambda: admin.execute_command('LOCK.FENCE', 'lock:report', 'secret-1')
    fence = held()

    def ask():
        browser.click(button)
        browser.wait_for('at("confirm").open')
        said = browser.run('at("confirm").innerText')
        for part in ('lock:report', 'worker-1', 'nightly report', str(fence)):
            assert part in said, (part, said)

    ask()
    browser.click('at("confirm-no")')
    browser.wait_for('!at("confirm").open')
    browser.answer_with(('ops', 'wrong'))
    ask()
    browser.click('at("confirm-yes")')
    assert browser.wait_for('!at("confirm-result").hidden && at("confirm-result").textContent').startswith('401')
    browser.click('at("confirm-no")')
    assert held() == fence and waiters[0].fence is None
    browser.answer_with(('ops', 'right'))
    ask()
    browser.click('at("confirm-yes")')
    browser.wait_for('!at("confirm").open')
    waiters[0].join(60)
    assert waiters[0].fence > fence and held() is None
    browser.wait_for(f'{row("lock:report")}.rows[0].innerText.includes("worker-5")')
    # One of several holders.
    browser.click(f'{row("lock:catalogue")}.rows[1].querySelectorAll("button.danger")[1]')
    browser.wait_for('at("confirm").open && at("confirm").innerText.includes("worker-2")')
    browser.click('at("confirm-yes")')
    browser.wait_for('!at("confirm").open')
    left = [admin.execute_command('LOCK.FENCE', 'lock:catalogue', f'secret-r{number}') for number in range(3)]
    assert left[0] and left[1] is None and left[2], left


def check_other_sites(browser):
    """Checks that another site cannot use the password that the browser knows by now."""
    admin = redis.Redis(HOST, int(PORT))
    fence = admin.execute_command('LOCK.FENCE', 'lock:report', 'token of worker-5')
    body = f'{{"db":0,"key":"bG9jazpyZXBvcnQ=","fence":"{fence}","number":null}}'
    browser.go('about:blank')
    browser.wait_for('location.href === "about:blank"')
    ask = (f'fetch("{PAGE}release/lock", {{ method: "POST", credentials: "include", mode: MODE, body: {body!r}, '
           'headers: HEADERS }).then(answer => answer.type, error => "refused")')
    simple = browser.run(ask.replace('MODE', '"no-cors"').replace('HEADERS', '{ "Content-Type": "text/plain" }'))
    own = '{ "Content-Type": "application/json", "X-Keylatch": "release" }'
    asked = browser.run(ask.replace('MODE', '"cors"').replace('HEADERS', own))
    assert (simple, asked) in (('opaque', 'refused'), ('refused', 'refused')), (simple, asked)
    assert admin.execute_command('LOCK.FENCE', 'lock:report', 'token of worker-5') == fence


def check():
    here = scene()
    hostile = redis.Redis(HOST, int(PORT))
    acquire(hostile, LONG, 'secret-l', 'PX', 600_000, 'META', 'words of a purpose ' * 8)
    hostile.set('plain', 'secret-s', nx=True, px=600_000)
    here.append(Waiter('a-client-whose-name-is-a-rather-long-one-as-well', 'plain', 'PX', 600_000))
    acquire(hostile, HOSTILE, 'secret-h', 'PX', 600_000, 'META', HOSTILE + '\n\nevent: state')
    waiters = [one for one in here if isinstance(one, Waiter) and 'lock:report' in one.request]
    with Chromium() as browser:
        check_sections(browser)
        check_order(browser)
        check_saved(browser)
        let_release(browser)
        check_labels(browser)
        check_widths(browser)
        check_release(browser, waiters)
        check_other_sites(browser)
        thrown = [event for event in browser.events if 'exceptionDetails' in event or 'Content Security Policy' in event]
        assert not thrown, thrown
    print('the page: locks of every kind, hand-overs, screens and phones, a release that is confirmed, in Chromium')


if __name__ == '__main__':
    check()
