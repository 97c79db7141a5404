// With jest: `advance` moves its fake timers together with the clock of the server.
'use strict';

const { once } = require('node:events');
const { Queue, Worker } = require('bullmq');
const { instance } = require('keylatch');

const TIMERS = ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'setImmediate', 'clearImmediate'];
const REAL = [...TIMERS, 'nextTick', 'queueMicrotask', 'hrtime', 'performance'];
const HOUR_MS = 3_600_000;
const START_MS = Date.UTC(2040, 0);
const SOON_MS = 9000; // less than the ten seconds after which a worker of BullMQ looks at its date of itself
let keylatch;
beforeEach(async () => {
  keylatch = await instance();
});
afterEach(() => {
  jest.useRealTimers();
  keylatch.close();
});

test('with the Date of jest a job of BullMQ for in an hour runs at once, and not before', async () => {
  jest.useFakeTimers({ doNotFake: REAL });
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
  jest.useFakeTimers({ now: START_MS });
  await keylatch.command('SET', 'session', 'token', 'PX', HOUR_MS);
  const found = new Promise((resolve) => {
    setTimeout(() => resolve(keylatch.command('GET', 'session')), HOUR_MS);
  });
  await keylatch.advance(HOUR_MS);
  expect(await found).toBe(null);
  expect(Date.now()).toBe(START_MS + HOUR_MS);
});

test('with process: false the clock of the process stays', async () => {
  jest.useFakeTimers({ now: START_MS });
  await keylatch.advance(HOUR_MS, { process: false });
  expect(Date.now()).toBe(START_MS);
});
