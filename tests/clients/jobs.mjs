// Runs the job queues of Node, and proves of them what jobs.py proves of those of Python.
//
//     KEYLATCH_SERVERS=host:port node jobs.mjs LIBRARY...

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import BeeQueue from 'bee-queue';
import Bull from 'bull';
import { FlowProducer, Queue, QueueEvents, Worker } from 'bullmq';
import Redis from 'ioredis';
import { runCases } from './cases.mjs';

const [host, digits] = process.env.KEYLATCH_SERVERS.split(' ')[0].split(':');
const port = Number(digits);
const redis = { host, port };
const PATIENCE_MS = 40_000;
const DELAY_MS = 700; // of jobs for later
const MANY = 20;
const numbers = Array.from({ length: MANY }, (_, number) => number);
const plain = new Redis(redis);
process.removeAllListeners('warning'); // of many listeners: each job that is awaited has some

/** Waits for what others do; the clock is real, and the wait is bounded. */
async function until(condition, what) {
  const deadline = performance.now() + PATIENCE_MS;
  let found;
  while (!(found = await condition())) {
    assert.ok(performance.now() < deadline, `waited in vain for ${what}`);
    await sleep(10);
  }
  return found;
}

/** Bounds the wait for a promise. */
async function within(promise, what) {
  const timer = new AbortController();
  const late = sleep(PATIENCE_MS, null, { signal: timer.signal }).then(() => assert.fail(`waited in vain for ${what}`));
  late.catch(() => {});
  return Promise.race([promise, late]).finally(() => timer.abort());
}

/** The job of all libraries: counts its runs by name. */
function tasks() {
  const ran = new Map();
  const count = (name) => ran.set(name, (ran.get(name) ?? 0) + 1).get(name);
  return {
    ran,
    run(name, data) {
      const runs = count(name === 'add' ? `add:${data.a}` : name);
      if (name === 'flaky' && runs < 3) throw new Error(`attempt ${runs} fails on purpose`);
      if (name === 'bad') throw new Error('as it is meant to');
      return { add: () => data.a + data.b, flaky: () => runs, late: () => Date.now() }[name]?.() ?? null;
    },
    eachRanOnce() { assert.deepEqual(numbers.map((number) => ran.get(`add:${number}`)), Array(MANY).fill(1)); },
  };
}

async function bullmq() {
  const { ran, run, eachRanOnce } = tasks();
  const connection = redis;
  const queue = new Queue('jobs', { connection });
  // From the first event on: what is ready may still have to ask for the next one, and would miss those before.
  const observe = (name) => new QueueEvents(name, { connection, lastEventId: '0-0' });
  const events = observe('jobs');
  await events.waitUntilReady();
  const done = (job) => job.waitUntilFinished(events, PATIENCE_MS);
  const early = await queue.addBulk(numbers.map((number) => ({ name: 'add', data: { a: number, b: 1 } })));
  assert.equal((await queue.add('add', { a: 0, b: 1 }, { jobId: 'unique' })).id, 'unique');
  await queue.add('add', { a: 7777, b: 1 }, { jobId: 'unique' });
  assert.equal((await queue.getJobCounts('waiting')).waiting, MANY + 1);
  await queue.remove('unique');
  const options = { connection, concurrency: 4 };
  const workers = [0, 1].map(() => new Worker('jobs', async (job) => run(job.name, job.data), options));
  workers.forEach((worker) => worker.on('error', (error) => assert.fail(error)));
  assert.deepEqual(await Promise.all(early.map(done)), numbers.map((number) => number + 1));
  eachRanOnce();

  const flaky = await queue.add('flaky', {}, { attempts: 5, backoff: { type: 'exponential', delay: 20 } });
  assert.equal(await done(flaky), 3);
  const bad = await queue.add('bad', {});
  await assert.rejects(done(bad), /as it is meant to/);
  assert.equal(await bad.getState(), 'failed');
  const began = Date.now();
  const late = await queue.add('late', {}, { delay: DELAY_MS });
  assert.equal(await late.getState(), 'delayed');
  assert.ok(await done(late) >= began + DELAY_MS - 5, 'a job ran before its time');
  assert.equal(ran.get('late'), 1);

  // A flow: a parent that runs when its children have, with their results.
  const parents = new Worker('parents', async (job) => {
    const values = await job.getChildrenValues();
    return Object.values(values).reduce((sum, value) => sum + value, 0);
  }, { connection });
  const parentEvents = observe('parents');
  await parentEvents.waitUntilReady();
  const flows = new FlowProducer({ connection });
  const child = (number) => ({ name: 'add', queueName: 'jobs', data: { a: 100 + number, b: 1 } });
  const children = numbers.slice(0, 5).map(child);
  const flow = await flows.add({ name: 'total', queueName: 'parents', children });
  assert.equal(await flow.job.waitUntilFinished(parentEvents, PATIENCE_MS), 515);
  assert.equal(Object.keys((await flow.job.getDependencies()).processed).length, 5);

  // A limit: five jobs in each quarter of a second.
  let started = 0;
  const limited = new Queue('limited', { connection });
  await limited.addBulk(numbers.slice(0, 15).map((number) => ({ name: 'x', data: { number } })));
  const before = performance.now();
  const slow = new Worker('limited', async () => { started += 1; }, {
    connection, concurrency: 10, limiter: { max: 5, duration: 250 },
  });
  await until(() => started === 15, 'the limited jobs');
  const took = performance.now() - before;
  assert.ok(took >= 2 * 248, `15 jobs in ${took} ms`);

  // Priorities, and what repeats.
  const order = [];
  const ordered = new Queue('ordered', { connection });
  for (const priority of [5, 1, 3, 2, 4]) await ordered.add('x', { priority }, { priority });
  const sorter = new Worker('ordered', async (job) => { order.push(job.data.priority ?? job.name); }, { connection });
  await until(() => order.length === 5, 'the jobs with priorities');
  assert.deepEqual(order, [1, 2, 3, 4, 5]);
  await ordered.upsertJobScheduler('often', { every: 50 }, { name: 'often', data: {} });
  await until(() => order.filter((each) => each === 'often').length >= 3, 'a repeated job');
  assert.ok(await ordered.removeJobScheduler('often'));

  assert.equal((await queue.clean(0, 1000, 'completed')).length, MANY + 7);
  await Promise.all([...workers, parents, slow, sorter].map((each) => each.close()));
  await queue.obliterate({ force: true });
  assert.deepEqual(await plain.keys('bull:jobs:*'), []);
  await Promise.all([queue, events, parentEvents, flows, limited, ordered].map((each) => each.close()));
  return 'two workers, unique ids, retry, delay, flow, rate limit, priorities, repetition, removal';
}

async function bull() {
  const { ran, run, eachRanOnce } = tasks();
  const queue = new Bull('jobs', { redis, settings: { backoffStrategies: { soon: () => 20 } } });
  await queue.isReady();
  const done = (job) => within(job.finished(), `job ${job.id}`);
  const early = await queue.addBulk(numbers.map((number) => ({ name: 'add', data: { a: number, b: 1 } })));
  queue.process('*', 4, async (job) => run(job.name, job.data)).catch((error) => assert.fail(error));
  assert.deepEqual(await Promise.all(early.map(done)), numbers.map((number) => number + 1));
  eachRanOnce();
  assert.equal(await done(await queue.add('flaky', {}, { attempts: 5, backoff: { type: 'soon' } })), 3);
  await assert.rejects(done(await queue.add('bad', {})), /as it is meant to/);
  const began = Date.now();
  const late = await queue.add('late', {}, { delay: DELAY_MS });
  assert.ok(await done(late) >= began + DELAY_MS - 5, 'a job ran before its time');
  assert.equal(ran.get('late'), 1);

  // Progress and global events reach another process; a paused queue rests.
  const watcher = new Bull('jobs', { redis });
  const heard = [];
  watcher.on('global:completed', (id, result) => heard.push([id, result]));
  await within(once(watcher, 'registered:global:completed'), 'a subscription'); // no part of being ready
  await queue.pause();
  const paused = await queue.add('add', { a: 500, b: 1 });
  assert.equal(ran.get('add:500'), undefined);
  await queue.resume();
  assert.equal(await done(paused), 501);
  await until(() => heard.some(([id, result]) => id === String(paused.id) && result === '501'), 'the event of a job');

  const limited = new Bull('limited', { redis, limiter: { max: 5, duration: 250 } });
  let started = 0;
  await limited.addBulk(numbers.slice(0, 15).map(() => ({ data: {} })));
  const before = performance.now();
  limited.process(10, async () => { started += 1; }).catch((error) => assert.fail(error));
  await until(() => started === 15, 'the limited jobs');
  const took = performance.now() - before;
  assert.ok(took >= 2 * 248, `15 jobs in ${took} ms`);

  const order = [];
  const ordered = new Bull('ordered', { redis });
  for (const priority of [5, 1, 3, 2, 4]) await ordered.add({ priority }, { priority });
  ordered.process(async (job) => { order.push(job.data.priority); }).catch((error) => assert.fail(error));
  await until(() => order.length === 5, 'the jobs with priorities');
  assert.deepEqual(order, [1, 2, 3, 4, 5]);
  const counts = { waiting: 0, active: 0, completed: MANY + 3, failed: 1, delayed: 0, paused: 0 };
  assert.deepEqual({ ...await queue.getJobCounts() }, counts);
  await queue.obliterate({ force: true });
  await Promise.all([queue, watcher, limited, ordered].map((each) => within(each.close(), 'the end of a queue')));
  return 'retry, delay, events, pause, rate limit, priorities, counts';
}

async function beeQueue() {
  const { ran, run, eachRanOnce } = tasks();
  const queue = new BeeQueue('jobs', { redis, activateDelayedJobs: true });
  await queue.ready();
  const finished = (job) => within(new Promise((resolve, reject) => {
    job.once('succeeded', resolve);
    job.once('failed', (error) => job.options.retries || reject(error));
  }), `job ${job.id}`);
  /** Listens for the end before the job is there. */
  async function send(job) {
    const end = finished(job);
    await job.save();
    return end;
  }
  const jobs = numbers.map((number) => queue.createJob({ name: 'add', a: number, b: 1 }));
  const ends = jobs.map(finished);
  assert.equal((await queue.saveAll(jobs)).size, 0);
  queue.process(4, async (job) => run(job.data.name, job.data));
  assert.deepEqual(await Promise.all(ends), numbers.map((number) => number + 1));
  eachRanOnce();
  assert.equal(await send(queue.createJob({ name: 'flaky' }).retries(5).backoff('fixed', 20)), 3);
  await assert.rejects(send(queue.createJob({ name: 'bad' })), /as it is meant to/);
  const began = Date.now();
  const late = queue.createJob({ name: 'late' }).delayUntil(began + DELAY_MS);
  assert.ok(await send(late) >= began + DELAY_MS - 5, 'a job ran before its time');
  assert.equal(ran.get('late'), 1);
  const { waiting, active, succeeded, failed, delayed } = await queue.checkHealth();
  assert.deepEqual([waiting, active, succeeded, failed, delayed], [0, 0, MANY + 2, 1, 0]);
  await queue.close(PATIENCE_MS);
  return 'results over messages, retry, delay, counts';
}

const LIBRARIES = {
  'bee-queue': beeQueue,
  Bull: bull,
  BullMQ: bullmq,
};

await runCases(LIBRARIES, { flush: () => plain.flushall() });
