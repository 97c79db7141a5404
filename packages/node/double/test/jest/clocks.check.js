// With jest: BullMQ compares with Date, which is moved with the server's clock. Of the timers of Node all stay real.
'use strict';

const { once } = require('node:events');
const { Queue, Worker } = require('bullmq');
const { instance } = require('keylatch');

const TIMERS = ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'setImmediate', 'clearImmediate'];
const REAL = [...TIMERS, 'nextTick', 'queueMicrotask', 'hrtime', 'performance'];
const HOUR_MS = 3_600_000;
afterEach(() => jest.useRealTimers());

test('with the Date of jest a job for in an hour runs, not before', async () => {
  const keylatch = await instance();
  jest.useFakeTimers({ doNotFake: REAL });
  const connection = { url: keylatch.url };
  const queue = new Queue('jobs', { connection });
  await queue.add('later', {}, { delay: HOUR_MS });
  await queue.add('now', {});
  const work = async () => {
    const worker = new Worker('jobs', async () => {}, { connection });
    const [job] = await once(worker, 'completed');
    await worker.close();
    return job.name;
  };
  await keylatch.advance(HOUR_MS);
  expect(await work()).toBe('now');
  jest.setSystemTime(Date.now() + HOUR_MS);
  expect(await work()).toBe('later');
  await queue.close();
  keylatch.close();
});
