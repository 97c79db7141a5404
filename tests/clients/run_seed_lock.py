"""Runs the lock program in several processes at once and proves that there are never two holders.

    KEYLATCH_SERVERS="host:port:pid ..." run_seed_lock.py [--processes N] [--sections N]

Several servers have the same data, and the processes use them by turns.

Every critical section makes a marker file that must not exist yet, and adds one to a plain counter
file, which comes out exact only if no two sections overlap. Twice a process is killed while it holds
the lock, so that the others have to take it over through GETSET. Ends with status 1 on a violation.

The lock itself trusts that no holder stands still for longer than its timeout of three seconds.
"""

import argparse
import multiprocessing
import os
import sys
import tempfile
import time

import redis

import seed_lock

PATIENCE_S = 60
CRASHES = 2


class Section:
    """A job that notices when another process does it at the same time."""

    def __init__(self, directory):
        self.marker = os.path.join(directory, 'held')
        self.counter = os.path.join(directory, 'counter')
        self.violations = 0

    def __call__(self):
        self.enter()
        count = self.count()
        with open(self.counter, 'w') as file:
            file.write(str(count + 1))
        self.leave()

    def enter(self):
        try:
            os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            self.violations += 1

    def leave(self):
        try:
            os.unlink(self.marker)
        except FileNotFoundError:
            self.violations += 1

    def count(self):
        with open(self.counter) as file:
            return int(file.read() or -1)


class Witness:
    """Passes the program's calls on, and counts the ways in which it acquired the lock."""

    def __init__(self, client):
        self.client = client
        self.takeovers = 0  # GETSET found an expired time
        self.races_lost = 0  # GETSET found that another had taken over first

    def setnx(self, key, value):
        return self.client.setnx(key, value)

    def get(self, key):
        return self.client.get(key)

    def getset(self, key, value):
        now = int(time.time())
        old = self.client.getset(key, value)
        if old is not None and now > int(old):
            self.takeovers += 1
        else:
            self.races_lost += 1
        return old

    def delete(self, key):
        return self.client.delete(key)


def work(address, directory, sections, resume, results):
    """Does half of the sections before the kills are over, half of them after."""
    client, section = Witness(redis.Redis(*address)), Section(directory)
    for number in range(sections):
        if number == sections // 2:
            resume.wait(PATIENCE_S)
        seed_lock.run(client, section)
    results.put((section.violations, client.takeovers, client.races_lost))


def hold_for_ever(address, directory, held):
    """Takes the lock, says so, and waits to be killed."""

    client = Witness(redis.Redis(*address))

    def job():
        section = Section(directory)
        section.enter()
        held.send((section.violations, client.takeovers, client.races_lost))
        time.sleep(PATIENCE_S)

    seed_lock.run(client, job)


def crash_a_holder(address, directory):
    """Kills a process that holds the lock; returns what it saw until then, as work() reports it."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    victim = multiprocessing.Process(target=hold_for_ever, args=(address, directory, sender), daemon=True)
    victim.start()
    if not receiver.poll(PATIENCE_S):
        sys.exit('FAILED: the process to be killed never got the lock')
    outcome = receiver.recv()
    victim.kill()
    victim.join()
    # It cannot remove its marker any more. The others see the lock as held for seconds yet.
    Section(directory).leave()
    return outcome


def run(addresses, directory, processes, sections):
    """Plays the whole scenario; returns what went wrong, as lines, and the figures."""
    address = addresses[0]
    redis.Redis(*address).delete(seed_lock.lock_key)
    with open(Section(directory).counter, 'w') as file:
        file.write('0')
    outcomes = [crash_a_holder(address, directory)]
    resume, results = multiprocessing.Event(), multiprocessing.Queue()
    turns = [(addresses[number % len(addresses)], directory, sections, resume, results) for number in range(processes)]
    workers = [multiprocessing.Process(target=work, args=turn, daemon=True) for turn in turns]
    for worker in workers:
        worker.start()  # all find a dead holder's lock, and race for it when its time is over
    outcomes.append(crash_a_holder(addresses[-1], directory))
    resume.set()
    outcomes += [results.get(timeout=PATIENCE_S) for _ in workers]
    for worker in workers:
        worker.join()

    violations, takeovers, races_lost = map(sum, zip(*outcomes))
    count = Section(directory).count()
    problems = []
    if violations:
        problems.append(f'{violations} sections met another holder')
    if count != processes * sections:
        problems.append(f'the counter is {count}, not {processes * sections}')
    if takeovers < CRASHES:
        problems.append(f'{takeovers} takeovers through GETSET after {CRASHES} crashes')
    if redis.Redis(*address).get(seed_lock.lock_key) is not None:
        problems.append('the lock was left behind')
    return problems, f'{count} sections in {processes} processes, {takeovers} takeovers, {races_lost} lost races, {CRASHES} holders killed, {len(addresses)} servers'


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--processes', type=int, default=6)
    parser.add_argument('--sections', type=int, default=200, help='critical sections of each process')
    args = parser.parse_args()
    servers = [server.split(':') for server in os.environ['KEYLATCH_SERVERS'].split()]
    addresses = [(host, int(port)) for host, port, _ in servers]
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        problems, figures = run(addresses, directory, args.processes, args.sections)
    if problems:
        sys.exit('FAILED: ' + '; '.join(problems))
    print(f'seed lock: never two holders: {figures}, {time.monotonic() - started:.1f} s')


if __name__ == '__main__':
    main()
