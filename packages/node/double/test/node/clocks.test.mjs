// `advance` moves fake clocks of the process together with that of the server.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { afterEach, beforeEach, test } from 'node:test';
import BeeQueue from 'bee-queue';
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { explore, instance } from 'keylatch';
import sinon from 'sinon';

const HOUR_MS = 3_600_000;
const START_MS = Date.UTC(2040, 0);
const SOON = { timeout: 9000 }; // less than the ten seconds after which a worker of BullMQ looks at its date of itself
let keylatch;
beforeEach(async () => {
  keylatch = await instance();
});
afterEach(() => {
  sinon.restore();
  keylatch.close();
});

/** Has a worker that waits for a job for in an hour do it. */
async function checkThatAJobRunsInAnHour() {
  const connection = { url: keylatch.url };
  const [queue, worker] = [new Queue('jobs', { connection }), new Worker('jobs', async () => {}, { connection })];
  const ran = [];
  worker.on('completed', ({ name }) => ran.push(name));
  await queue.add('later', {}, { delay: HOUR_MS });
  await keylatch.advance(HOUR_MS / 2);
  await Promise.all([once(worker, 'completed'), queue.add('now', {})]);
  assert.deepEqual(ran, ['now']);
  const later = once(worker, 'completed');
  await keylatch.advance(HOUR_MS / 2);
  await later;
  assert.deepEqual(ran, ['now', 'later']);
  await worker.close();
  await queue.close();
}

test('with the Date of sinon a job of BullMQ for in an hour runs at once, and not before', SOON, async () => {
  sinon.useFakeTimers({ now: Date.now(), toFake: ['Date'] });
  await checkThatAJobRunsInAnHour();
});

test('so it does with the Date of node:test, which is followed', SOON, async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
  keylatch.follow(t.mock.timers);
  await checkThatAJobRunsInAnHour();
});

test('a worker that waits by a timer of its own runs a job for in an hour, not before', async () => {
  sinon.useFakeTimers({ now: Date.now(), toFake: ['Date', 'setTimeout', 'clearTimeout'] });
  const queue = new BeeQueue('jobs', { redis: { url: keylatch.url }, activateDelayedJobs: true });
  const ran = [];
  queue.process(async (job) => ran.push(job.data.name));
  const next = () => once(queue, 'succeeded');
  await queue.createJob({ name: 'later' }).delayUntil(Date.now() + HOUR_MS).save();
  await keylatch.advance(HOUR_MS / 2);
  await Promise.all([next(), queue.createJob({ name: 'now' }).save()]);
  assert.deepEqual(ran, ['now']);
  const second = next();
  await keylatch.advance(HOUR_MS / 2);
  await second;
  assert.deepEqual(ran, ['now', 'later']);
  await queue.close();
});

for (const toFake of [['Date'], ['setTimeout', 'clearTimeout'], ['performance'], undefined]) {
  test(`a clock of sinon moves by as much as that of the server: ${toFake ?? 'all'}`, async () => {
    const clock = sinon.useFakeTimers({ now: START_MS, ...toFake && { toFake } });
    const before = await keylatch.freeze();
    assert.equal(await keylatch.advance(HOUR_MS), before + HOUR_MS);
    assert.equal(clock.now, START_MS + HOUR_MS);
    await keylatch.advance(0.6); // rounded for both
    assert.equal(clock.now, START_MS + HOUR_MS + 1);
    assert.equal(await keylatch.now(), before + HOUR_MS + 1);
  });
}

test('a fake timer comes due when what is stored has expired', async () => {
  sinon.useFakeTimers({ now: START_MS, toFake: ['Date', 'setTimeout', 'clearTimeout'] });
  await keylatch.command('SET', 'session', 'token', 'PX', HOUR_MS);
  const found = new Promise((resolve) => {
    setTimeout(() => resolve(keylatch.command('GET', 'session')), HOUR_MS);
  });
  await keylatch.advance(HOUR_MS);
  assert.equal(await found, null);
});

test('so it does with timers of node:test', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  keylatch.follow(t.mock.timers);
  await keylatch.command('SET', 'session', 'token', 'PX', HOUR_MS);
  const found = new Promise((resolve) => {
    setTimeout(() => resolve(keylatch.command('GET', 'session')), HOUR_MS);
  });
  await keylatch.advance(HOUR_MS);
  assert.equal(await found, null);
});

test('with process: false the clock of the process stays', async () => {
  sinon.useFakeTimers({ now: START_MS });
  const before = await keylatch.freeze();
  assert.equal(await keylatch.advance(HOUR_MS, { process: false }), before + HOUR_MS);
  assert.equal(Date.now(), START_MS);
  await assert.rejects(keylatch.advance(HOUR_MS, { proces: false }), /unknown option 'proces'/);
});

test('a clock that is not fake, or is not any more, stays', async (t) => {
  const before = Date.now();
  sinon.useFakeTimers({ now: START_MS });
  sinon.restore();
  t.mock.timers.enable({ apis: ['Date'], now: START_MS });
  keylatch.follow(t.mock.timers);
  t.mock.timers.reset();
  await keylatch.advance(HOUR_MS);
  assert.ok(Date.now() - before < HOUR_MS);
});

test('a clock that is named and found moves once', async () => {
  keylatch.follow(sinon.useFakeTimers({ now: START_MS }));
  await keylatch.advance(HOUR_MS);
  assert.equal(Date.now(), START_MS + HOUR_MS);
});

test('an object of the test moves until another is named, or none', async () => {
  const moves = [];
  keylatch.follow({ tick: (ms) => moves.push(['first', ms]) });
  await keylatch.advance(1);
  keylatch.follow({ tickAsync: async (ms) => moves.push(['second', ms]) });
  await keylatch.advance(2);
  keylatch.follow();
  await keylatch.advance(3);
  assert.deepEqual(moves, [['first', 1], ['second', 2]]);
  assert.throws(() => keylatch.follow({ advance() {} }), /a clock has a method tick or tickAsync/);
});

test('replicas and nodes move the clocks that their instance moves', async () => {
  const [replica, sentinel] = [await keylatch.replica(), await keylatch.sentinel({ replicas: 0, sentinels: 1, quorum: 1 })];
  const moves = [];
  keylatch.follow({ tick: (ms) => moves.push(ms) });
  await replica.advance(1);
  await (await sentinel.node(0)).advance(2);
  assert.deepEqual(moves, [1, 2]);
  await sentinel.close();
  replica.close();
});

test('a run of an exploration moves only the clock of its instance', async () => {
  sinon.useFakeTimers({ now: START_MS, toFake: ['Date'] });
  await explore(async (explored) => {
    const client = new Redis(explored.url, { retryStrategy: () => 1 }).on('error', () => {});
    try {
      await client.set('key', 'value', 'PX', HOUR_MS);
      const replica = await explored.replica();
      await replica.advance(HOUR_MS);
      replica.close();
      assert.equal(await explored.command('EXISTS', 'key'), 0);
      assert.throws(() => explored.follow({ tick() {} }), /moves only the clock of its instance/);
    } finally {
      client.disconnect();
    }
  }, { kinds: ['lost-reply'] });
  assert.equal(Date.now(), START_MS);
});
