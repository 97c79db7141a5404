// The lock by the list that the helpers of all languages run, packages/lock-conformance.json, by node-redis and by ioredis.
// KEYLATCH_SERVERS=host:port names the server, which has to be in test mode: the list moves its clock and injects faults.
// With failovers those scenarios are left out.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, beforeEach, describe, test } from 'node:test';
import Redis from 'ioredis'; // the first of the promised versions export no name
import { Deadlock, LockLost, NotAcquired, acquire } from '../index.js';
import { Moving, PATIENCE_MS, connect, failOver, failing, hasFailovers, isOnEtcd, until, url } from '../testing.js';

const isPlain = 'KEYLATCH_PLAIN' in process.env; // the server has no LOCK and TEST commands
const { scenarios } = JSON.parse(readFileSync(new URL('../../../lock-conformance.json', import.meta.url)));

/** A run of one scenario: the locks by the names that the steps give them, and who still waits. */
class Run {
  locks = new Map();
  told = [];
  waiting = new Map();
  errors = new Map(); // of those who were refused
  killed = new Set();

  objects = new Map(); // options that several acquisitions have in common

  constructor(admin, client, moving) {
    this.admin = admin;
    this.client = client;
    this.moving = moving;
  }

  async acquire(names, step) {
    const before = await this.inLine();
    this.begin(names, step);
    await this.begun(before, step);
  }

  /** Waits for what a step that has begun is to do. */
  async begun(before, step) {
    if (step.expect === 'begins') return;
    if (step.expect === 'waits') await until(async () => await this.inLine() > before);
    else await this.ends(step.as, { expect: step.expect ?? 'held' });
  }

  begin(names, step) {
    const acquired = acquire(this.client, names, this.options(step));
    this.await(step.as, acquired.then((lock) => this.locks.set(step.as, lock)));
  }

  await(name, done) {
    this.waiting.set(name, done.then(() => ({ held: '' }), (error) => {
      this.errors.set(name, error);
      return outcome(error);
    }));
  }

  async upgrade(name, { wait_ms: wait, expect }) {
    const before = await this.inLine();
    this.await(name, this.locks.get(name).upgrade({ wait }));
    await this.begun(before, { as: name, expect });
  }

  async downgrade(name, { expect }) {
    this.await(name, this.locks.get(name).downgrade());
    await this.ends(name, { expect });
  }

  options({ object = Symbol(), ttl_ms: ttl = 60_000, wait_ms: wait = Infinity, on_lost: then, ...step }) {
    // A lock knows no thread.
    const { as, expect, acquire: _, by, renew_ms: renewEvery, renew_for_ms: renewFor, ...others } = step;
    const onLost = (lock) => {
      this.told.push(lock);
      if (then) this.begin(then.acquire, then);
    };
    if (!this.objects.has(object)) this.objects.set(object, { ttl, wait, renewEvery, renewFor, onLost, ...others });
    return this.objects.get(object);
  }

  async inLine() {
    return isPlain ? 0 : Number(/waiting:(\d+)/.exec(await this.admin.info('locks'))[1]);
  }

  async ends(name, { expect }) {
    const found = await this.waiting.get(name);
    this.waiting.delete(name);
    const [[kind, told]] = Object.entries(typeof expect === 'string' ? { [expect]: '' } : expect);
    assert.ok(found[kind]?.includes(told), `${name}: ${JSON.stringify(found)} is not ${JSON.stringify(expect)}`);
  }

  async release(name, { expect }) {
    assert.equal(await this.locks.get(name).release(), expect, name);
  }

  holds(name) {
    this.locks.get(name).check();
    assert.equal(this.locks.get(name).lost, null);
  }

  async lost(name, { because }) {
    const lock = this.locks.get(name);
    await until(() => this.told.includes(lock));
    assert.ok(because.includes(lock.lost), lock.lost);
    assert.ok(lock.signal.aborted && lock.signal.reason.reason === lock.lost);
    assert.throws(() => lock.check(), LockLost);
  }

  refused(name, { name: key, meta, age_ms: age, ttl_ms: ttl }) {
    const error = this.errors.get(name);
    assert.deepEqual([error.key, error.holder.meta, error.age, error.ttl], [key, meta, age, ttl]);
  }

  async key(name, { pttl }) {
    await until(async () => await this.admin.call('PTTL', name) === pttl);
  }

  fence(which, { above, same_as: same, is }) {
    if (is === null) assert.equal(this.fenceOf(which), null);
    else if (above) assert.ok(this.fenceOf(which) > this.fenceOf(above), `${which} above ${above}`);
    else assert.equal(this.fenceOf(which), this.fenceOf(same));
  }

  fenceOf(which) {
    const [name, key] = [which].flat();
    return key ? this.locks.get(name).fences.get(key) : this.locks.get(name).fence;
  }

  async without(commands) {
    for (const command of isPlain ? [] : commands) {
      const error = `ERR unknown command '${command}', with args beginning with: 'report' `;
      await this.admin.call('TEST.FAULT', 'ADD', command, 'ERROR', error);
    }
  }

  async command([command, ...words], step) {
    const reply = await this.admin.call(command, ...words);
    if ('expect' in step) assert.deepEqual(reply, step.expect);
  }

  async info(name, { has }) {
    await until(async () => {
      const shown = await this.shown(name);
      if (!shown || !has) return !shown && !has;
      const value = (word) => Array.isArray(shown[word]) ? shown[word].length : shown[word];
      return Object.keys(has).every((word) => value(word) === has[word]);
    });
  }

  async shown(name) {
    const flat = await this.admin.call('LOCK.INFO', name);
    return flat && fields(flat);
  }

  async cut(name, { waiter }) {
    const shown = await this.shown(name);
    const holder = shown['client-id'] ?? fields(shown.holders[0])['client-id'];
    const client = waiter === undefined ? holder : fields(shown.waiters[waiter])['client-id'];
    this.killed.add(client);
    assert.equal(await this.admin.call('CLIENT', 'KILL', 'ID', client), 1);
  }

  async failover(name, { stuck = false }) {
    await this.loseClients(name);
    if (!hasFailovers) return this.moving.move(stuck);
    await failOver(stuck ? 'stop' : 'kill');
    this.admin.disconnect(true); // and connects again
  }

  async stall(name, { replies = false }) {
    await this.loseClients(name);
    this.moving.stall(replies);
  }

  /** Notes that those who hold a lock or wait for it need other connections. */
  async loseClients(name) {
    const { holders, waiters } = await this.shown(name);
    [...holders, ...waiters].forEach((each) => this.killed.add(fields(each)['client-id']));
  }

  async resumes(name) {
    await until(async () => {
      const { holders = [], waiters = [] } = await this.shown(name) ?? {};
      const clients = [...holders, ...waiters].map((each) => fields(each)['client-id']);
      return clients.length > 0 && clients.every((client) => client !== null && !this.killed.has(client));
    });
  }
}

const fields = (flat) => Object.fromEntries(flat.flatMap((word, at) => at % 2 ? [] : [[word, flat[at + 1]]]));

function outcome(error) {
  if (error instanceof NotAcquired) return { 'not acquired': String(error.message) };
  return error instanceof Deadlock ? { deadlock: error.cycle } : { error: String(error.message) };
}

function isRun({ plain = false, fails = false, not_on_etcd: isNotOnEtcd = false, steps }) {
  if (isOnEtcd) return !/TEST\.|"without"/.test(JSON.stringify(steps)) && !isNotOnEtcd;
  return hasFailovers ? fails : (plain || !isPlain) && !fails;
}

for (const [client, open] of Object.entries(connect)) {
  if (hasFailovers && client === 'node-redis, RESP2') continue; // it takes a minute, and shows what RESP3 does
  describe(client, () => {
    const admin = new Redis(url, { lazyConnect: true }).on('error', () => {});
    let opened;
    const steer = async () => {
      if (hasFailovers) return;
      await admin.call('TEST.FAULT', 'CLEAR');
      await admin.call('TEST.TIME', 'RUN');
    };
    beforeEach(async () => {
      opened ??= await open();
      await admin.flushall();
      if (isPlain) return;
      await admin.config('SET', 'session-grace-ms', 0);
      await steer();
    });
    after(async () => {
      if (!isPlain) await steer();
      admin.disconnect();
      opened.destroy ? opened.destroy() : opened.disconnect();
    });
    for (const { name, steps, moves, stalls, threads } of scenarios.filter(isRun)) {
      if (threads) continue; // a lock knows none
      // node-redis has no client of Sentinel that has the interface of its others.
      if (moves && client !== 'ioredis') continue;
      test(name, { timeout: PATIENCE_MS }, async () => {
        const moving = moves || stalls ? new Moving() : undefined;
        await moving?.listen();
        const over = () => {
          if (hasFailovers) return client === 'ioredis' ? failing() : open();
          return moves ? moving.ioredis() : open(`redis://127.0.0.1:${moving.port}`);
        };
        const run = new Run(admin, moving || hasFailovers ? await over() : opened, moving);
        for (const step of steps) {
          const [verb] = Object.keys(step);
          await run[verb](step[verb], step);
        }
        assert.equal(run.waiting.size, 0);
        if (run.client !== opened) run.client.destroy ? run.client.destroy() : run.client.disconnect();
        moving?.close();
      });
    }
  });
}
