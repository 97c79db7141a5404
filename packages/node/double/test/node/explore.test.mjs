// The exploration of scenarios: what each kind of fault finds, the names of points, and what is said of all else.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { Redis } from 'ioredis';
import { ExploreError, explore } from 'keylatch';

const DEFAULT = ['lost-reply', 'not-executed', 'cut-all', 'late', 'expired', 'noscript'];
const ALL = [...DEFAULT, 'evicted', 'failover', 'readonly', 'oom', 'loading', 'busy'];

/** A client that sends nothing of itself, tells of each broken connection, and connects again at once. */
const PLAIN = { enableReadyCheck: false, disableClientInfo: true, maxRetriesPerRequest: 0, retryStrategy: () => 0 };

/** A scenario with clients, which are closed whatever happens. */
const withClients = (count, scenario, options = {}) => async (keylatch) => {
  const make = () => new Redis(keylatch.url, { ...PLAIN, ...options }).on('error', () => {});
  const clients = Array.from({ length: count }, make);
  try {
    return await scenario(keylatch, ...clients);
  } finally {
    for (const client of clients) client.disconnect();
  }
};

/** Does something until it succeeds, or its error is one that ends the attempts. */
async function retry(act, isEnd = () => false) {
  for (;;) {
    try {
      return await act();
    } catch (error) {
      if (await isEnd(error)) return undefined;
    }
  }
}

const isBroken = (error) => /max retries per request|Connection is closed/.test(error.message);

/** Writes, and takes some errors for a success. */
const careless = (isTaken) => withClients(2, async (keylatch, client, other) => {
  let hasOtherBroken = false;
  for (const each of [client, other]) await retry(() => each.ping());
  other.on('close', () => { hasOtherBroken = true; });
  await retry(() => client.set('key', 1), async (error) => {
    await other.ping().catch(() => {});
    return isTaken(error, hasOtherBroken);
  });
  assert.equal(await keylatch.command('GET', 'key'), '1');
});

const BUGS = {
  'lost-reply': withClients(1, async (keylatch, client) => {
    await retry(() => client.incr('key'));
    assert.equal(await keylatch.command('GET', 'key'), '1');
  }),
  'not-executed': careless((error, hasOtherBroken) => isBroken(error) && !hasOtherBroken),
  'cut-all': careless((error, hasOtherBroken) => isBroken(error) && hasOtherBroken),
  late: withClients(1, async (keylatch, client) => {
    await retry(() => client.set('key', 1, 'PX', 30_000));
    assert.equal(await keylatch.command('GET', 'key'), '1');
  }),
  expired: withClients(1, async (keylatch, client) => {
    await keylatch.command('SET', 'key', 1, 'PX', 300_000);
    assert.equal(await retry(() => client.get('key')), '1');
  }),
  noscript: withClients(1, async (_, client) => {
    const digest = await retry(() => client.script('LOAD', 'return 1'));
    await retry(() => client.ping());
    const reply = await retry(() => client.evalsha(digest, 0), (error) => /^NOSCRIPT/.test(error.message));
    assert.equal(reply, 1);
  }),
  evicted: withClients(1, async (keylatch, client) => {
    await keylatch.command('SET', 'key', 1);
    assert.equal(await retry(() => client.get('key')), '1');
  }),
  failover: withClients(1, async (keylatch, client) => {
    await retry(() => client.set('key', 1));
    await retry(() => client.ping());
    assert.equal(await keylatch.command('GET', 'key'), '1');
  }),
  readonly: careless((error) => /^READONLY/.test(error.message)),
  oom: careless((error) => /^OOM/.test(error.message)),
  loading: careless((error) => /^LOADING/.test(error.message)),
  busy: careless((error) => /^BUSY/.test(error.message)),
};

/** The names of all points of a scenario: it fails whenever there is a fault. */
async function namesOf(scenario, options) {
  let runs = 0;
  const failing = async (keylatch) => {
    runs += 1;
    const isFaulted = runs > 2;
    await scenario(keylatch);
    assert.ok(!isFaulted);
  };
  return (await explore(failing, { ...options, raises: false })).failures.map(({ name }) => name);
}

const passes = withClients(1, (_, client) => retry(() => client.get('key')));

describe('explore', { timeout: 120_000 }, () => {
  for (const [kind, scenario] of Object.entries(BUGS)) {
    test(`finds what only the kind ${kind} shows`, async () => {
      // A key that has expired and one that was evicted are the same to who reads it.
      const kinds = ALL.filter((each) => kind !== 'expired' || each !== 'evicted');
      const report = await explore(scenario, { kinds, raises: false });
      assert.deepEqual([report.failures.length, report.notRepeatable], [1, []], String(report));
      assert.ok(report.failures[0].name.startsWith(`${kind}: `), String(report));
      assert.ok(report.points > 6);
    });
  }

  test('names points by connection, command, count and key', async () => {
    const scenario = withClients(1, async (keylatch, client) => {
      await retry(() => client.call('CLIENT', 'SETNAME', 'a"worker"\\'));
      await keylatch.command('SET', 'kéy"\n', 1, 'PX', 300_000);
      for (let times = 0; times < 3; times += 1) await retry(() => client.get('kéy"\n'));
      await retry(() => client.mget('kéy"\n', 'none', Buffer.from([255])));
    });
    assert.deepEqual(await namesOf(scenario), [
      ...['lost-reply', 'not-executed', 'cut-all', 'late'].map((kind) => `${kind}: 1st CLIENT SETNAME`),
      ...['1st GET', '2nd GET', '3rd GET', '1st MGET'].flatMap((call) => [
        ...['lost-reply', 'not-executed', 'cut-all', 'late'].map((kind) => `${kind}: ${call} of "a\\"worker\\"\\\\"`),
        `expired: ${call} of "a\\"worker\\"\\\\", key "kéy\\"\\x0a"`,
      ]),
    ]);
    const many = withClients(1, async (_, client) => {
      for (let times = 0; times < 23; times += 1) await client.ping();
    });
    const ordinals = (await namesOf(many, { kinds: ['late'] })).map((name) => /(\w+) PING/.exec(name)[1]);
    assert.deepEqual([0, 1, 2, 3, 10, 11, 12, 20, 21, 22].map((at) => ordinals[at]),
      ['1st', '2nd', '3rd', '4th', '11th', '12th', '13th', '21st', '22nd', '23rd']);
  });

  test('throws a failed assertion whose text has a line for each failing point, which runs it alone', async () => {
    const scenario = BUGS['lost-reply'];
    const error = await explore(scenario).catch((thrown) => thrown);
    assert.ok(error instanceof ExploreError && error instanceof assert.AssertionError);
    const [summary, message, line, ...others] = error.message.split('\n');
    assert.match(summary, /^explore: \d+ points in \d+\.\d s: 1 failed$/);
    assert.match(message, /^AssertionError: Expected values to be strictly equal:/);
    assert.equal(line, '  only="lost-reply: 1st INCR"');
    assert.deepEqual(others, []);
    const only = JSON.parse(line.replace('  only=', ''));
    const { points, failures } = await explore(scenario, { only, raises: false });
    assert.deepEqual([points, failures.map(({ name }) => name)], [1, [only]]);
    const well = await explore(scenario, { only: ['not-executed: 1st INCR', 'busy: 1st INCR'] });
    assert.deepEqual([well.points, well.ok], [2, true]);
    await assert.rejects(explore(scenario, { only: 'lost-reply: 1st INCRBY' }),
      /there is no point "lost-reply: 1st INCRBY"; similar are:\n {2}"lost-reply: 1st INCR"\n/);
  });

  test('throws what a scenario throws without a fault', async () => {
    const error = new Error('wrong anyway');
    await assert.rejects(explore(async () => { throw error; }), (thrown) => thrown === error);
    await assert.rejects(explore(() => new Promise(() => {}), { timeout: 0.01 }), /did not end within 0.01 s/);
  });

  test('says that a scenario is not repeatable', async () => {
    let runs = 0;
    const scenario = withClients(1, (_, client) => retry(() => (runs += 1) % 2 ? client.get('a') : client.mget('a', 'b')));
    await assert.rejects(explore(scenario), { name: 'ExploreError', message: /the 1st call was MGET a b, not GET a$/ });
    assert.equal(runs, 6); // three pairs
  });

  test('compares no dates of the client, which may differ in a later run only', async () => {
    let runs = 0;
    const now = Math.floor(Date.now() / 1000);
    const scenario = withClients(1, async (_, client) => {
      runs += 1;
      const date = now + Number(runs > 2);
      await client.incr(`hits:${date}`);
      await client.zadd('seen', date * 1000, 'a');
      await client.get(`hits:${date}`);
      await client.zcard('seen');
    });
    const report = await explore(scenario, { kinds: ['late', 'evicted'], raises: false });
    assert.deepEqual([report.notRepeatable, report.points, report.leftOut], [[], 5, 1]);
  });

  test('says at which points the calls were others than without a fault', async () => {
    let runs = 0;
    const scenario = withClients(1, async (_, client) => {
      runs += 1;
      await client.get(runs > 2 ? 'other' : 'hits');
      await client.get('last');
    });
    const report = await explore(scenario, { kinds: ['late'], raises: false, workers: 1 });
    assert.equal(runs, 2 + 3 + 3); // baseline, each point three times
    const difference = 'its 1st call was GET other, not GET hits';
    assert.deepEqual(report.notRepeatable, ['1st', '2nd'].map((nth) => ({ name: `late: ${nth} GET`, difference })));
    assert.ok(!report.ok);
    assert.match(String(report), /^explore: 2 points in .* s: 0 failed, 2 are not repeatable\nnot repeatable: "late: 1st GET"\n {2}its 1st/);
    runs = 0;
    const missing = withClients(1, async (_, client) => {
      runs += 1;
      if (runs < 3) await client.get('hits');
    });
    const { notRepeatable } = await explore(missing, { kinds: ['late'], raises: false });
    assert.deepEqual(notRepeatable.map((each) => each.difference), ['its 1st call did not come: GET hits']);
    assert.equal(runs, 2 + 3);
  });

  test('does not mind arguments that differ from run to run, and leaves out such keys', async () => {
    const scenario = withClients(1, async (_, client) => {
      const token = randomUUID();
      await retry(() => client.set('lock', token, 'PX', 300_000));
      await retry(() => client.set(token, 1, 'PX', 300_000));
      await retry(() => client.mget('lock', token));
    });
    const report = await explore(scenario, { kinds: ['late', 'expired', 'evicted'] });
    assert.deepEqual([report.points, report.leftOut, report.ok], [5, 2, true]);
    assert.match(String(report), /\n2 points have keys or connections that differ from run to run: left out$/);
  });

  test('tries no more when the budget is over', async () => {
    const { points, notTried, ...report } = await explore(passes, { budget: 0 });
    assert.deepEqual([points, notTried], [0, 4]);
    assert.match(String(Object.assign(await explore(passes, { budget: 0 }), report)), /: 0 failed, 4 were not tried \(budget\)$/);
  });

  test('tries pairs, which are sampled by a seed', async () => {
    const scenario = withClients(1, async (keylatch, client) => {
      let breaks = 0;
      client.on('close', () => { breaks += 1; });
      for (const key of ['a', 'b', 'c']) await retry(() => client.get(key));
      assert.ok(breaks < 2, 'broken twice');
    });
    const options = { kinds: ['not-executed', 'late'], pairs: true, raises: false, workers: 1 };
    const namesWith = async (seed) => {
      const report = await explore(scenario, { ...options, seed });
      assert.deepEqual([report.points, report.seed, report.notRepeatable], [6 + 12, seed, []]);
      assert.match(String(report), new RegExp(`\npairs: seed ${seed}$`));
      return report.failures.map(({ name }) => name);
    };
    const names = await namesWith(7);
    const pair = 'not-executed: 1st GET + not-executed: 3rd GET';
    assert.ok(names.length === 3 && names.includes(pair));
    assert.deepEqual(await namesWith(7), names);
    const alone = await explore(scenario, { only: pair, raises: false });
    assert.deepEqual([alone.points, alone.failures.map(({ name }) => name)], [1, [pair]]);
  });

  test('reports a scenario that hangs', async () => {
    const scenario = withClients(1, async (_, client) => {
      await new Promise((resolve) => {
        client.get('key').then(resolve, () => {});
      });
    });
    const report = await explore(scenario, { timeout: 0.2, raises: false });
    const [message] = new Set(report.failures.map((each) => each.message));
    assert.equal(message, 'did not end within 0.2 s');
    assert.deepEqual(report.failures.map(({ name }) => name), DEFAULT.slice(0, 3).map((kind) => `${kind}: 1st GET`));
  });

  test('reports errors that reach nobody', async () => {
    const forgets = withClients(1, async (keylatch, client) => {
      client.incr('key'); // without await
      await retry(() => client.ping());
    });
    const { failures } = await explore(forgets, { kinds: ['not-executed'], raises: false });
    assert.match(failures[0].message, /^unhandled rejection: MaxRetriesPerRequestError: /);
    const listener = () => {};
    process.on('unhandledRejection', listener);
    await explore(passes);
    assert.ok(process.listeners('unhandledRejection').includes(listener));
    process.off('unhandledRejection', listener);
  });

  test('can steer its instance, which is another for each run', async () => {
    const times = new Set();
    const scenario = withClients(1, async (keylatch, client) => {
      times.add(Math.floor(await keylatch.freeze() / 1000));
      await keylatch.failover();
      await keylatch.command('SET', 'key', 1, 'PX', 100_000);
      assert.equal(await keylatch.advance(99_999) > 0 && await retry(() => client.incr('key')), 2);
      await keylatch.command('MULTI');
    });
    const report = await explore(scenario, { kinds: ['not-executed', 'busy'], workers: 3 });
    assert.ok(report.ok && report.points >= 2);
    assert.ok(times.size <= 2); // each began at the same time
  });

  test('refuses options that it does not know', async () => {
    await assert.rejects(explore(passes, { kind: ['late'] }), new TypeError("unknown option 'kind'"));
    await assert.rejects(explore(passes, { kinds: ['later'] }), /there is no kind 'later': lost-reply, not-executed/);
  });

  test('gives each failing point a sub-test', async (t) => {
    const found = [];
    const recorder = {
      diagnostic: () => {},
      test: async (name, run) => {
        assert.throws(run, assert.AssertionError);
        found.push(name);
      },
    };
    await explore.test(recorder, BUGS['lost-reply'], { kinds: DEFAULT });
    assert.deepEqual(found, ['lost-reply: 1st INCR']);
    await explore.test(t, passes);
  });
});

/** A scenario that is told the number of its run, and counts its runs. */
function counted(count, scenario) {
  const found = { runs: 0 };
  found.scenario = withClients(count, (_, ...clients) => {
    found.runs += 1;
    return scenario(found.runs, ...clients);
  });
  return found;
}

/** Two calls, which come in another order in some runs; others fail. */
const shuffled = (isOther, isFailing = () => false) => counted(1, async (run, client) => {
  const calls = [() => client.get('a'), () => client.mget('a', 'b')];
  for (const call of isOther(run) ? calls.reverse() : calls) await call();
  assert.ok(!isFailing(run), 'wrong');
});

describe('explore, when runs differ', { timeout: 120_000 }, () => {
  test('masks arguments that begin to differ, after one more run without a fault', async () => {
    const window = counted(1, async (run, client) => {
      await client.incr(`rate:${run > 2 ? 2 : 1}`);
      for (let times = 0; times < 9; times += 1) await client.ping();
    });
    const one = await explore(window.scenario, { kinds: ['late'], workers: 1 });
    assert.deepEqual([one.points, one.ok, window.runs], [10, true, 2 + 10 + 1]);
    window.runs = 0;
    const many = await explore(window.scenario, { kinds: ['late'] });
    assert.deepEqual([many.points, many.ok, window.runs], [10, true, 2 + 10 + 1]);
  });

  test('masks nothing after a run without a fault that fails, or makes other calls', async () => {
    const only = 'late: 1st PING';
    const failing = counted(1, async (run, client) => {
      await client.get(`rate:${run > 2 ? 2 : 1}`);
      await client.ping();
      assert.ok(run !== 4);
    });
    assert.ok((await explore(failing.scenario, { only })).ok);
    assert.equal(failing.runs, 2 + 2 + 2);
    const longer = counted(1, async (run, client) => {
      await client.get(`rate:${run > 2 ? 2 : 1}`);
      await client.ping();
      if (run % 2 === 0 && run > 2) await client.get('more');
    });
    const { notRepeatable } = await explore(longer.scenario, { only, raises: false });
    assert.deepEqual(notRepeatable, [{ name: only, difference: 'its 1st call was GET rate:2, not GET rate:1' }]);
    assert.equal(longer.runs, 2 + 3 + 3);
  });

  test('runs a point again whose calls came in another order, and the first run that is alike decides', async () => {
    const only = 'late: 1st MGET';
    const exploredAt = async ({ scenario }) => explore(scenario, { only, raises: false });
    const passing = shuffled((run) => run === 3 || run === 4, (run) => run === 4);
    assert.ok((await exploredAt(passing)).ok);
    assert.equal(passing.runs, 2 + 3);
    const failing = shuffled((run) => run === 3, (run) => run === 4);
    const { failures } = await exploredAt(failing);
    assert.deepEqual([failures.map(({ name }) => name), failing.runs], [[only], 2 + 2]);
    const never = shuffled((run) => run > 2);
    const { notRepeatable } = await exploredAt(never);
    assert.deepEqual(notRepeatable, [{ name: only, difference: 'its 1st call was MGET a b, not GET a' }]);
    assert.equal(never.runs, 2 + 3);
  });

  test('never runs a failure again whose calls are alike', async () => {
    const once = shuffled(() => false, (run) => run === 3);
    const { failures } = await explore(once.scenario, { kinds: ['late'], raises: false, workers: 1 });
    assert.deepEqual([failures.map(({ name }) => name), once.runs], [['late: 1st GET'], 2 + 2]);
  });

  test('leaves out a point whose key has another name by then', async () => {
    const { scenario } = counted(1, async (run, client) => {
      const key = `rate:${Math.floor((run - 1) / 2)}`; // another one after two runs
      await client.set(key, 1, 'EX', 60);
      await client.get(key);
    });
    const report = await explore(scenario, { kinds: ['expired'], raises: false, workers: 1 });
    assert.deepEqual([report.points, report.leftOut, report.notRepeatable], [0, 1, []]);
  });

  test('makes a baseline of two runs again that differ', async () => {
    const second = shuffled((run) => run === 2 || run === 3);
    assert.ok((await explore(second.scenario, { only: 'late: 1st MGET' })).ok);
    assert.equal(second.runs, 6 + 1);
  });

  test('takes the id of a stream entry for one date', async () => {
    const now = Date.now();
    const acked = counted(1, (run, client) => client.xack('stream', 'group', run > 2 ? `${now + 9}-0` : `${now}-1`));
    assert.ok((await explore(acked.scenario, { kinds: ['late'] })).ok);
    assert.equal(acked.runs, 3);
    const own = counted(1, (run, client) => client.xack('stream', 'group', run > 2 ? '9-0' : '8-1'));
    assert.ok((await explore(own.scenario, { kinds: ['late'] })).ok);
    assert.equal(own.runs, 4); // one of them without a fault, to mask it
  });

  test('forgets no script between its load and the end of the transaction behind it', async () => {
    const scenario = withClients(1, async (_, client) => {
      const digest = await client.script('LOAD', 'return 1');
      const called = () => client.evalsha(digest, 0);
      const begun = () => client.multi({ pipeline: false });
      const within = [begun, () => client.set('key', 1), called, called, () => client.exec(), begun, called];
      for (const call of within) await call();
    });
    assert.deepEqual(await namesOf(scenario, { kinds: ['noscript'] }), ['noscript: 3rd EVALSHA']);
  });

  test('has no points at handshakes of several connections that get names, and does not compare them', async () => {
    const connecting = counted(2, async (run, one, other) => {
      const handshakes = [[one, 'SELECT', 0], [one, 'CLIENT', 'SETNAME', 'one'], [other, 'CLIENT', 'SETNAME', 'other']];
      const [first, second, third] = handshakes;
      for (const [client, ...args] of run % 2 ? handshakes : [third, first, second]) await client.call(...args);
      await one.get('key');
      await other.get('key');
    });
    const report = await explore(connecting.scenario, { kinds: ['late', 'noscript'] });
    assert.deepEqual([report.points, report.leftOut, connecting.runs], [2, 3, 2 + 2]);
    await assert.rejects(explore(connecting.scenario, { only: 'late: 1st SELECT' }), /there is no point/);
  });

  test('says what to do when the calls of several connections without a name have no order', async () => {
    const hint = '; connections are used at the same time: name each by CLIENT SETNAME, connect before threads or tasks start, '
      + 'or use a pool of one connection';
    const difference = `1st call was MGET a b, not GET a${hint}`;
    const shared = (isOther) => counted(2, async (run, one, other) => {
      const calls = [() => one.get('a'), () => other.mget('a', 'b')];
      for (const call of isOther(run) ? calls.reverse() : calls) await call();
    }).scenario;
    await assert.rejects(explore(shared((run) => run % 2 === 0)), {
      message: `not repeatable: of two runs without a fault, in the second the ${difference}`,
    });
    const { notRepeatable } = await explore(shared((run) => run > 2), { only: 'late: 1st MGET', raises: false });
    assert.deepEqual(notRepeatable.map((each) => each.difference), [`its ${difference}`]);
  });
});
