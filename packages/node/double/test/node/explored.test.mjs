// Code that looks right, and what an exploration says of it; with ioredis, node-redis, BullMQ, and the locks of keylatch.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { explore } from 'keylatch';
import { acquire } from 'keylatch-lock';
import { createClient } from 'redis';

const LIMIT = { timeout: 120_000 };
const SOON_MS = 5000; // much sooner than jobs count as stalled
const namesOf = (report) => report.failures.map(({ name }) => name);

/** Counts a hit of one user, who has a limit for each minute. A request that fails is tried again. */
const limited = (hit) => async (keylatch) => {
  const client = new Redis(keylatch.url, { maxRetriesPerRequest: 0, retryStrategy: () => 1 }).on('error', () => {});
  try {
    for (let attempt = 1, isDone = false; !isDone; attempt += 1) {
      isDone = await hit(client, 'hits:alice').then(() => true, (error) => {
        if (attempt === 5) throw error;
      });
    }
    assert.notEqual(await keylatch.command('PTTL', 'hits:alice'), -1, 'the limit is never over');
  } finally {
    client.disconnect();
  }
};

test('a rate limiter whose key never expires after a fault between INCR and EXPIRE', LIMIT, async () => {
  const report = await explore(limited(async (client, key) => {
    if (await client.incr(key) === 1) await client.expire(key, 60);
  }), { raises: false });
  assert.deepEqual(namesOf(report), [
    'lost-reply: 1st INCR', 'not-executed: 1st EXPIRE', 'cut-all: 1st EXPIRE',
  ], String(report));
  assert.equal(report.failures[0].message, 'AssertionError: the limit is never over');
});

test('a rate limiter that sets the limit with each hit, if there is none', LIMIT, async () => {
  await explore(limited(async (client, key) => {
    await client.multi().incr(key).expire(key, 60, 'NX').exec();
  }));
});

/** A worker holds a lock of 30 s while it works; another takes the lock as soon as it is free. */
const locked = (release) => async (keylatch) => {
  const socket = { reconnectStrategy: 1 };
  const client = await createClient({ url: keylatch.url, name: 'worker', socket }).on('error', () => {}).connect();
  let isOther = false;
  const other = async () => {
    isOther ||= await keylatch.command('SET', 'lock', 'other', 'NX', 'PX', 300_000) === 'OK';
  };
  const again = (act) => act().catch(act); // when its connection was broken
  try {
    const token = randomUUID();
    const taken = await again(() => client.set('lock', token, { condition: 'NX', expiration: { type: 'PX', value: 30_000 } }));
    if (taken !== 'OK' && await again(() => client.get('lock')) !== token) return; // then it does not work
    await again(() => client.incr('work'));
    await other();
    await release(client, 'lock', token).catch(async () => {
      await other();
      await release(client, 'lock', token);
    });
    if (isOther) assert.equal(await keylatch.command('GET', 'lock'), 'other', 'the lock of another was released');
  } finally {
    client.destroy();
  }
};

test('a lock that is released by DEL', LIMIT, async () => {
  const report = await explore(locked((client, key) => client.del(key)), { raises: false });
  const names = ['late: 1st SET of "worker"', 'late: 1st INCR of "worker"', 'lost-reply: 1st DEL of "worker"'];
  assert.deepEqual(namesOf(report), names, String(report));
});

test('a lock that is released by a script, if it is still that of the worker', LIMIT, async () => {
  const script = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1])";
  await explore(locked((client, key, token) => client.eval(script, { keys: [key], arguments: [token] })));
});

/** Waits for the end of a job, but not until it counts as stalled. */
async function completed(worker) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('no job was completed')), SOON_MS);
  });
  await Promise.race([new Promise((resolve) => { worker.once('completed', resolve); }), late]);
  clearTimeout(timer);
}

/** A job is added and done, once. */
const worked = (options) => async (keylatch) => {
  const as = (connectionName) => ({ connection: { url: keylatch.url, connectionName, retryStrategy: () => 1 } });
  const queue = new Queue('jobs', as('queue')).on('error', () => {});
  let worker;
  let times = 0;
  try {
    await queue.add('job', {}, options);
    worker = new Worker('jobs', async () => { times += 1; }, as('worker')).on('error', () => {});
    await completed(worker);
    const waiting = await keylatch.command('LLEN', 'bull:jobs:wait');
    assert.ok(times === 1 && waiting === 0, 'the job was added twice');
  } finally {
    await Promise.all([worker?.close(true), queue.close()]);
  }
};

test('BullMQ: a job that has no id of its own is added twice', LIMIT, async () => {
  const report = await explore(worked(), { only: 'lost-reply: 1st EVAL of "queue"', raises: false });
  assert.deepEqual(report.failures.map(({ message }) => message), ['AssertionError: the job was added twice']);
  await explore(worked({ jobId: 'one' }), { only: 'lost-reply: 1st EVAL of "queue"' });
});

test('BullMQ: a job whose fetch, or end, got no reply in time is not completed before it counts as stalled', LIMIT, async () => {
  const report = await explore(worked({ jobId: 'one' }), { raises: false });
  const names = ['lost-reply: 2nd EVAL of "worker"', 'late: 2nd EVAL of "worker"', 'lost-reply: 3rd EVAL of "worker"'];
  assert.deepEqual([...new Set(report.failures.map(({ message }) => message))], ['Error: no job was completed'], String(report));
  // A worker's second connection is made meanwhile; if that is late while a job is worked at, the job's lock expires, too.
  assert.deepEqual(namesOf(report).filter((name) => !/^late: .*"bull:/.test(name)), names, String(report));
});

const CLIENTS = {
  ioredis: async (url) => {
    const client = new Redis(url, { connectionName: 'client', retryStrategy: () => 1 }).on('error', () => {});
    await new Promise((resolve) => { client.once('ready', resolve); }); // before the lock has a connection of that name
    return client;
  },
  'node-redis': (url) => createClient({ url, name: 'client', socket: { reconnectStrategy: 1 } }).on('error', () => {}).connect(),
};

/** A lock is obtained or not, but never left behind, and never that of two. */
const guarded = (connect, options) => async (keylatch) => {
  const client = await connect(keylatch.url);
  try {
    const lock = await acquire(client, 'lock', options).catch((error) => {
      if (!/closed|ECONN/.test(error.message)) throw error;
    });
    const other = await keylatch.command('LOCK.ACQUIRE', 'lock', 'other', 'PX', 300_000);
    if (!lock) return assert.ok(other, 'a lock that nobody has is held');
    if (other) assert.ok(other > lock.fence, 'a fence is less than the one before');
    const isReleased = await lock.release();
    if (!other) return assert.equal(await keylatch.command('LOCK.INFO', 'lock'), null, 'the lock was left behind');
    assert.equal((await keylatch.command('LOCK.INFO', 'lock')).token, 'other', 'the lock of another was released');
    assert.ok(!isReleased);
  } finally {
    client.destroy ? client.destroy() : client.disconnect();
  }
};

for (const [name, connect] of Object.entries(CLIENTS)) {
  for (const options of [{}, { session: true }, { shared: true }, { owner: 'me' }]) {
    test(`the lock of keylatch by ${name}, ${JSON.stringify(options)}`, LIMIT, async () => {
      await explore(guarded(connect, options));
    });
  }
}
