// Libraries that compare with the clock of their process, or wait by its timers: both are moved with that of the server.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { afterEach, beforeEach, test } from 'node:test';
import BeeQueue from 'bee-queue';
import { Queue, Worker } from 'bullmq';
import { instance } from 'keylatch';
import sinon from 'sinon';

const HOUR_MS = 3_600_000;
let keylatch, clock;
beforeEach(async () => {
  keylatch = await instance();
});
afterEach(() => {
  clock.restore();
  keylatch.close();
});

test('with the Date of sinon a job for in an hour runs, not before', async () => {
  clock = sinon.useFakeTimers({ now: Date.now(), toFake: ['Date'] });
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
  assert.equal(await work(), 'now');
  clock.tick(HOUR_MS);
  assert.equal(await work(), 'later');
  await queue.close();
});

test('a worker that waits by a timer of its own runs a job for in an hour, not before', async () => {
  clock = sinon.useFakeTimers({ now: Date.now(), toFake: ['Date', 'setTimeout', 'clearTimeout'] });
  const queue = new BeeQueue('jobs', { redis: { url: keylatch.url }, activateDelayedJobs: true });
  const ran = [];
  queue.process(async (job) => ran.push(job.data.name));
  const next = () => once(queue, 'succeeded');
  await queue.createJob({ name: 'later' }).delayUntil(Date.now() + HOUR_MS).save();
  await Promise.all([next(), queue.createJob({ name: 'now' }).save()]);
  const second = next();
  await keylatch.advance(HOUR_MS);
  assert.deepEqual(ran, ['now']);
  await clock.tickAsync(HOUR_MS);
  await second;
  assert.deepEqual(ran, ['now', 'later']);
  await queue.close();
});
