// With vitest: `advance` moves its fake timers together with the clock of the server.

import { once } from 'node:events';
import { Queue, Worker } from 'bullmq';
import { instance } from 'keylatch';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

const HOUR_MS = 3_600_000;
const START_MS = Date.UTC(2040, 0);
const SOON_MS = 9000; // less than the ten seconds after which a worker of BullMQ looks at its date of itself
let keylatch;
beforeEach(async () => {
  keylatch = await instance();
});
afterEach(() => {
  vi.useRealTimers();
  keylatch.close();
});

test('with the Date of vitest a job of BullMQ for in an hour runs at once, and not before', async () => {
  vi.useFakeTimers({ toFake: ['Date'] });
  const connection = { url: keylatch.url };
  const [queue, worker] = [new Queue('jobs', { connection }), new Worker('jobs', async () => {}, { connection })];
  const ran = [];
  worker.on('completed', ({ name }) => ran.push(name));
  await queue.add('later', {}, { delay: HOUR_MS });
  await keylatch.advance(HOUR_MS / 2);
  await Promise.all([once(worker, 'completed'), queue.add('now', {})]);
  expect(ran).toEqual(['now']);
  const later = once(worker, 'completed');
  await keylatch.advance(HOUR_MS / 2);
  await later;
  expect(ran).toEqual(['now', 'later']);
  await worker.close();
  await queue.close();
}, SOON_MS);

test('a fake timer comes due when what is stored has expired', async () => {
  vi.useFakeTimers({ now: START_MS });
  await keylatch.command('SET', 'session', 'token', 'PX', HOUR_MS);
  const found = new Promise((resolve) => {
    setTimeout(() => resolve(keylatch.command('GET', 'session')), HOUR_MS);
  });
  await keylatch.advance(HOUR_MS);
  expect(await found).toBe(null);
  expect(Date.now()).toBe(START_MS + HOUR_MS);
});

test('with process: false the clock of the process stays', async () => {
  vi.useFakeTimers({ now: START_MS });
  await keylatch.advance(HOUR_MS, { process: false });
  expect(Date.now()).toBe(START_MS);
});

test('a Date that was set without fake timers is followed', async () => {
  vi.setSystemTime(START_MS);
  await keylatch.advance(HOUR_MS);
  expect(Date.now()).toBe(START_MS); // it has no clock that could be found
  keylatch.follow({ tick: (ms) => vi.setSystemTime(Date.now() + ms) });
  await keylatch.advance(HOUR_MS);
  expect(Date.now()).toBe(START_MS + HOUR_MS);
});
