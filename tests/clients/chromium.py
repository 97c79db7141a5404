"""A headless Chromium that is controlled through a pipe, by the DevTools protocol: no driver is needed.

Each message is JSON that ends with a zero byte, both ways.
"""

import base64
import fcntl
import itertools
import json
import os
import select
import subprocess
import tempfile
import time

PATIENCE_S = 60


class Chromium:
    """A browser with one page; used in a with statement."""

    def __init__(self, width=1200, height=900, dark=False, scale=2):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        (theirs, self.sender), (self.receiver, mine) = os.pipe(), os.pipe()

        def give_pipes():
            # The browser reads from descriptor 3 and writes to 4.
            spare = [fcntl.fcntl(pipe, fcntl.F_DUPFD, 10) for pipe in (theirs, mine)]
            for number, pipe in zip((3, 4), spare):
                os.dup2(pipe, number, inheritable=True)

        command = ['chromium', '--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
                   '--no-first-run', '--hide-scrollbars', '--remote-debugging-pipe', f'--user-data-dir={self.folder.name}',
                   'about:blank']
        self.process = subprocess.Popen(command, preexec_fn=give_pipes, close_fds=False, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs)
        os.close(mine)
        self.numbers, self.rest, self.events, self.answers = itertools.count(1), b'', [], []
        self.session = None
        target = self.tell('Target.createTarget', url='about:blank')['targetId']
        self.session = self.tell('Target.attachToTarget', targetId=target, flatten=True)['sessionId']
        self.tell('Page.enable')
        self.tell('Runtime.enable')
        self.tell('Log.enable')
        self.scale = scale
        self.resize(width, height)
        scheme = {'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}
        self.tell('Emulation.setEmulatedMedia', features=[scheme])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.sender)
        os.close(self.receiver)
        self.folder.cleanup()

    def tell(self, method, **parameters):
        """Calls a method and returns its result; events that come meanwhile are kept."""
        number = next(self.numbers)
        self._send(number, method, parameters)
        while True:
            message = self._receive()
            if message.get('id') == number:
                assert 'error' not in message, (method, message)
                return message['result']
            self._take(message)

    def _send(self, number, method, parameters):
        message = {'id': number, 'method': method, 'params': parameters}
        if self.session:
            message['sessionId'] = self.session
        os.write(self.sender, json.dumps(message).encode() + b'\0')

    def _receive(self):
        deadline = time.monotonic() + PATIENCE_S
        while b'\0' not in self.rest:
            ready, _, _ = select.select([self.receiver], [], [], max(0, deadline - time.monotonic()))
            assert ready, 'Chromium does not answer'
            read = os.read(self.receiver, 1 << 20)
            assert read, 'Chromium has ended'
            self.rest += read
        message, self.rest = self.rest.split(b'\0', 1)
        return json.loads(message)

    def _take(self, message):
        """Handles an event: a request for a user's name and password is answered at once."""
        method, parameters = message.get('method'), message.get('params', {})
        if method == 'Fetch.requestPaused':
            self._send(next(self.numbers), 'Fetch.continueRequest', {'requestId': parameters['requestId']})
        elif method == 'Fetch.authRequired':
            # A second question of the same request means that the answer was wrong.
            known = self.answers.pop(0) if self.answers else None
            answer = {'response': 'CancelAuth'}
            if known:
                answer = {'response': 'ProvideCredentials', 'username': known[0], 'password': known[1]}
            parameters = {'requestId': parameters['requestId'], 'authChallengeResponse': answer}
            self._send(next(self.numbers), 'Fetch.continueWithAuth', parameters)
        elif method in ('Runtime.exceptionThrown', 'Log.entryAdded'):
            self.events.append(json.dumps(parameters))

    def answer_with(self, *users):
        """Answers the next questions for a user with these names and passwords, and cancels later ones."""
        self.answers = list(users)
        self.tell('Fetch.enable', handleAuthRequests=True, patterns=[{'urlPattern': '*/release/*'}])

    def resize(self, width, height):
        """Makes the window as large as this."""
        size = {'width': width, 'height': height, 'deviceScaleFactor': self.scale, 'mobile': False}
        self.tell('Emulation.setDeviceMetricsOverride', **size)

    def go(self, url):
        """Opens a page."""
        self.tell('Page.navigate', url=url)

    def run(self, script):
        """Returns the value of an expression, which may be a promise."""
        result = self.tell('Runtime.evaluate', expression=script, returnByValue=True, awaitPromise=True)
        assert 'exceptionDetails' not in result, (script, result)
        return result['result'].get('value')

    def wait_for(self, condition):
        """Waits until an expression is true, and returns its value."""
        deadline = time.monotonic() + PATIENCE_S
        while not (value := self.run(condition)):
            assert time.monotonic() < deadline, f'not seen: {condition}\n{self.run("document.body.innerText")}'
            time.sleep(0.05)
        return value

    def click(self, expression):
        """Clicks on an element, as a mouse does."""
        place = self.run(f'(() => {{ const node = {expression}; node.scrollIntoView({{ block: "center" }}); '
                         'const box = node.getBoundingClientRect(); '
                         'return [box.x + box.width / 2, box.y + box.height / 2]; })()')
        for kind in ('mousePressed', 'mouseReleased'):
            self.tell('Input.dispatchMouseEvent', type=kind, x=place[0], y=place[1], button='left', clickCount=1)

    def picture(self, path, expression):
        """Writes a picture of an element."""
        box = self.run(f'(() => {{ const box = {expression}.getBoundingClientRect(); '
                       'return [box.x + scrollX, box.y + scrollY, box.width, box.height]; })()')
        clip = dict(zip(('x', 'y', 'width', 'height'), box), scale=1)
        data = self.tell('Page.captureScreenshot', format='png', clip=clip, captureBeyondViewport=True)['data']
        with open(path, 'wb') as file:
            file.write(base64.b64decode(data))
