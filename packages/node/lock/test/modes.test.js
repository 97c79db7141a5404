// Changes of a lock's mode that fail or are given up, by node-redis and by ioredis: KEYLATCH_SERVERS=host:port names
// the server, which has to be in test mode.

import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import Redis from 'ioredis'; // the first of the promised versions export no name
import { LockLost, NotAcquired, acquire } from '../index.js';
import { PATIENCE_MS, connect, until, url } from '../testing.js';

const LONG = { ttl: 10 * PATIENCE_MS }; // no renewal happens
const fields = (flat) => Object.fromEntries(flat.flatMap((word, at) => at % 2 ? [] : [[word, flat[at + 1]]]));

for (const name of Object.keys(connect)) describe(name, { timeout: 2 * PATIENCE_MS }, () => suite(name));

function suite(name) {
  const admin = new Redis(url);
  let client;
  let told;
  const reset = async () => {
    await admin.call('TEST.FAULT', 'CLEAR');
    await admin.call('TEST.TIME', 'RUN');
    await admin.config('SET', 'session-grace-ms', 0);
    await admin.flushall();
  };
  beforeEach(async () => {
    client ??= await connect[name]();
    told = 0;
    await reset();
  });
  after(async () => {
    await reset();
    admin.disconnect();
    client.destroy ? client.destroy() : client.disconnect();
  });
  const info = async () => fields(await admin.call('LOCK.INFO', 'lock') ?? []);
  const waiting = (count) => until(async () => (await info()).waiters?.length === count);
  const onLost = () => { told += 1; };
  const share = (options) => acquire(client, 'lock', { ...LONG, shared: true, onLost, ...options });
  const loseReplies = () => admin.call('TEST.FAULT', 'ADD', 'LOCK.ACQUIRE', 'LOSEREPLY', 'COUNT', 2);

  /** Sees that a lock is shared as the server says, also by others, and can be had alone later. */
  const isShared = async (lock) => {
    lock.check();
    const { mode, fence } = await info();
    assert.deepEqual([mode, fence, told], ['shared', lock.fence, 0]);
    const other = await share({ wait: 0 });
    assert.equal(other.fence, lock.fence);
    assert.ok(await other.release());
    await lock.upgrade({ wait: 0 });
    assert.deepEqual([(await info()).mode, (await info()).fence], ['exclusive', lock.fence]);
    assert.ok(await lock.release());
    assert.equal(await admin.get('lock'), null);
    assert.equal(told, 0);
  };

  for (const session of [false, true]) {
    const kind = session ? 'a session' : 'a lock';

    test(`an upgrade of ${kind} that is aborted leaves it shared`, async () => {
      const [lock, other] = [await share({ session }), await share()];
      const abort = new AbortController();
      const upgrade = lock.upgrade({ signal: abort.signal });
      await waiting(1);
      await assert.rejects(lock.downgrade(), /changes its mode already/);
      abort.abort(new Error('changed my mind'));
      await assert.rejects(upgrade, /changed my mind/);
      await waiting(0);
      assert.ok(await other.release());
      await isShared(lock);
    });

    test(`an upgrade of ${kind} that is aborted as it is granted leaves it in the mode that is told`, async () => {
      for (let round = 0; round < 20; round += 1) {
        const [lock, other] = [await share({ session }), await share()];
        const abort = new AbortController();
        const upgrade = lock.upgrade({ signal: abort.signal });
        await waiting(1);
        const released = other.release();
        abort.abort();
        const mode = await upgrade.then(() => 'exclusive', () => 'shared');
        assert.ok(await released);
        lock.check();
        assert.deepEqual([(await info()).mode, (await info()).fence], [mode, lock.fence]);
        assert.ok(await lock.release());
        assert.equal(told, 0);
      }
    });

    test(`a release of ${kind} ends its upgrade`, async () => {
      const [lock, other] = [await share({ session }), await share()];
      const upgrade = assert.rejects(lock.upgrade(), /is released/);
      await waiting(1);
      assert.ok(await lock.release());
      await upgrade;
      assert.equal((await info()).holders.length, 1);
      assert.ok(await other.release());
      assert.deepEqual([await admin.get('lock'), told], [null, 0]);
    });

    test(`${kind} whose connection breaks while its upgrade waits is had alone, and its loss is told`, async () => {
      if (session) await admin.config('SET', 'session-grace-ms', 10 * PATIENCE_MS);
      const [lock, other] = [await share({ session }), await share()];
      const holder = (await info()).holders.map(fields)[0]['client-id'];
      const upgrade = lock.upgrade();
      await waiting(1);
      await admin.call('CLIENT', 'KILL', 'ID', holder);
      await until(async () => ![holder, null].includes((await info()).holders.map(fields)[0]['client-id']));
      assert.ok(await other.release());
      await upgrade;
      lock.check();
      assert.equal((await info()).fence, lock.fence);
      await admin.del('lock');
      await until(() => told === 1);
      assert.equal(await lock.release(), false);
    });
  }

  test('a renewal that sees the fence of another mode before the reply to the request is no loss', async (t) => {
    const [method, duplicate] = [client.call ? 'call' : 'sendCommand', client.duplicate.bind(client)];
    const lock = await share({ renewEvery: 5 });
    let renewals = 0;
    const renew = client[method].bind(client);
    t.mock.method(client, method, async (...words) => {
      const reply = await renew(...words);
      if (words.flat()[0] === 'LOCK.RENEW') renewals += 1;
      return reply;
    });
    t.mock.method(client, 'duplicate', (...options) => {
      const own = duplicate(...options);
      const send = own[method].bind(own);
      own[method] = async (...words) => {
        const reply = await send(...words);
        const sent = renewals;
        if (words.flat().includes('CONVERT')) await until(() => renewals > sent + 2);
        return reply;
      };
      return own;
    });
    await lock.upgrade();
    lock.check();
    assert.deepEqual([(await info()).fence, told], [lock.fence, 0]);
    assert.ok(await lock.release());
  });

  test('a lock that is had alone while its connection is made again keeps no other connection', async (t) => {
    await admin.config('SET', 'session-grace-ms', 10 * PATIENCE_MS);
    const clients = async () => (await admin.call('CLIENT', 'LIST')).trim().split('\n').length;
    const before = await clients();
    const [lock, other] = [await share({ session: true }), await share()];
    const holder = (await info()).holders.map(fields)[0]['client-id'];
    const upgrade = lock.upgrade();
    await waiting(1);
    const duplicate = client.duplicate.bind(client);
    let opened = 0;
    t.mock.method(client, 'duplicate', (...options) => {
      const own = duplicate(...options);
      const subscribe = own.subscribe.bind(own);
      if (++opened === 1) own.subscribe = (...words) => upgrade.then(() => subscribe(...words));
      return own;
    });
    await admin.call('CLIENT', 'KILL', 'ID', holder);
    await until(async () => ![holder, null].includes((await info()).holders.map(fields)[0]['client-id']));
    assert.ok(await other.release());
    await upgrade;
    await until(() => opened === 2);
    lock.check();
    assert.deepEqual([(await info()).mode, (await info()).fence], ['exclusive', lock.fence]);
    assert.ok(await lock.release());
    await until(async () => await clients() === before);
    assert.equal(told, 0);
  });

  test('a session that moves after another mode was granted is not ended with its connection', async (t) => {
    const [method, duplicate] = [client.call ? 'call' : 'sendCommand', client.duplicate.bind(client)];
    await admin.config('SET', 'session-grace-ms', 10 * PATIENCE_MS);
    const lock = await share({ session: true });
    const holder = async () => (await info()).holders.map(fields)[0]['client-id'];
    const subscribes = async (id) => new RegExp(`^id=${id} .* sub=1 `, 'm').test(await admin.call('CLIENT', 'LIST'));
    const former = await holder();
    t.mock.method(client, 'duplicate', (...options) => {
      const own = duplicate(...options);
      const send = own[method].bind(own);
      own[method] = async (...words) => {
        const reply = await send(...words);
        if (!words.flat().includes('CONVERT')) return reply;
        const granted = await holder();
        await admin.call('CLIENT', 'KILL', 'ID', former);
        const moved = await until(async () => [await holder()].find((id) => id !== granted));
        await until(() => subscribes(moved));
        await admin.config('SET', 'session-grace-ms', 0);
        return reply;
      };
      return own;
    });
    await lock.upgrade();
    await until(async () => await subscribes(await holder()));
    lock.check();
    assert.deepEqual([(await info()).mode, (await info()).fence], ['exclusive', lock.fence]);
    assert.ok(await lock.release());
    assert.equal(told, 0);
  });

  test('an upgrade that is aborted before it is asked for sends nothing', async () => {
    const lock = await share();
    await assert.rejects(lock.upgrade({ signal: AbortSignal.abort(new Error('too late')) }), /too late/);
    await isShared(lock);
  });

  test('an upgrade whose replies are all lost is taken back', async () => {
    const lock = await share();
    const { fence } = lock;
    await loseReplies();
    const isOurs = (error) => error instanceof NotAcquired || error instanceof LockLost;
    await assert.rejects(lock.upgrade({ wait: 0 }), (error) => !isOurs(error));
    assert.ok(lock.fence > fence);
    await isShared(lock);
  });

  test('a downgrade whose replies are all lost is taken back, unless others share the lock by then', async () => {
    const lock = await acquire(client, 'lock', LONG);
    await loseReplies();
    await assert.rejects(lock.downgrade());
    assert.deepEqual([(await info()).mode, (await info()).fence], ['exclusive', lock.fence]);
    const reader = share();
    await waiting(1);
    await loseReplies();
    await assert.rejects(lock.downgrade());
    assert.equal(lock.fence, (await reader).fence);
    assert.ok(await (await reader).release());
    await isShared(lock);
  });

  test('a loss while an upgrade waits is told once, and ends it', async () => {
    const [lock, other] = [await share(), await share()];
    const upgrade = assert.rejects(lock.upgrade(), LockLost);
    await waiting(1);
    await admin.del('lock');
    await upgrade;
    await until(() => told === 2); // of both
    await assert.rejects(lock.upgrade(), LockLost);
    assert.deepEqual([await lock.release(), await other.release()], [false, false]);
    await assert.rejects(lock.upgrade(), /is released/);
  });

  test('an upgrade that is not granted tells who shares the lock', async () => {
    const [lock, other] = [await share({ meta: 'mine' }), await share({ meta: 'nightly' })];
    await assert.rejects(lock.upgrade({ wait: 0 }), (error) => {
      assert.ok(error instanceof NotAcquired);
      return error.holder.meta === 'nightly';
    });
    assert.ok(await other.release());
    await assert.rejects(lock.upgrade({ wiat: 0 }), new TypeError("unknown option 'wiat'"));
    await isShared(lock);
  });
}
