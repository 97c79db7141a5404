// Runs a scenario once for each thing that can go wrong: each call that it makes, and each way in which a call can fail.
'use strict';

const { randomBytes, randomInt } = require('node:crypto');
const { availableParallelism } = require('node:os');
const { Keylatch } = require('./instance.js');
const { refuseOthers } = require('./options.js');
const { Baseline, DEFAULT_KINDS, Journal, KINDS } = require('./points.js');
const { ExploreError, Report, messageOf } = require('./report.js');
const { Connection } = require('./resp.js');
const { watched, within } = require('./strays.js');

// Those of the process, whatever fake timers a scenario installs.
const { setTimeout, clearTimeout, setImmediate, performance } = globalThis;
// More than cores: a run mostly waits, such as for the 50 ms after which ioredis connects again.
const WORKERS = Math.max(16, availableParallelism());
const PAIRS_SECONDS = 10; // without a budget
const SIMILAR = 5;
const ATTEMPTS = 3; // of a point whose calls differ, and of the two runs without a fault
const CLEAN_RUNS = 5; // at most, because of arguments that have begun to differ
const TIMER_MAX_MS = 2 ** 31 - 1;

class NotEnded extends Error {}

/** The control connection of one run, which a worker lends it. */
class Lease {
  #connection;

  constructor(connection) {
    this.#connection = connection;
  }

  async call(...args) {
    if (!this.#connection) throw new Error('this run of the scenario is over');
    return this.#connection.call(...args);
  }

  close() {
    this.#connection?.close(); // the next call opens it again
  }

  end() {
    this.#connection = undefined;
  }
}

/** One run of the scenario, in an instance of its own. */
class Run {
  error; // undefined if it has passed
  #isOver = false;
  #port;
  #sockets = new Set();
  #stray;

  constructor(port) {
    this.#port = port;
  }

  /** Calls the scenario, and waits for its end, which is never later than the time-out. */
  async of(scenario, keylatch, seconds) {
    let timer;
    const late = new Promise((_, reject) => {
      const end = () => reject(new NotEnded(`did not end within ${seconds} s`));
      timer = setTimeout(end, Math.min(seconds * 1000, TIMER_MAX_MS));
    });
    const stray = new Promise((_, reject) => { this.#stray = reject; });
    try {
      await Promise.race([within(this, async () => scenario(keylatch)), late, stray]);
    } catch (error) {
      this.fail(error);
    } finally {
      clearTimeout(timer);
      this.#isOver = true;
      this.#sockets.forEach((socket) => this.#leave(socket));
    }
  }

  /** Takes a socket that the scenario has made. */
  own(socket) {
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    if (this.#isOver) this.#leave(socket);
  }

  /** Lets the process end although a scenario that has failed, or hangs, has not closed its client. */
  #leave(socket) {
    if (socket.connecting || socket.pending) socket.once('connect', () => this.#leave(socket));
    else if (socket.remotePort === this.#port) socket.unref();
  }

  /** Takes an error that has reached nobody; it may come when the run has ended. */
  stray(error, kind) {
    const told = Object.assign(new Error(`${kind}: ${messageOf(error)}`, { cause: error }), { name: 'Stray' });
    this.fail(told);
    this.#stray(told);
  }

  fail(error) {
    this.error ??= { error };
  }
}

/** A connection that makes an instance for each run, which ends when the connection goes on to the next. */
class Worker {
  #connection;
  #server;

  constructor(server) {
    this.#server = server;
    this.#connection = new Connection(server.host, server.port);
  }

  /** Makes an instance with some requests, runs the scenario in it, and returns its journal and its faults as well. */
  async run(name, requests, { scenario, timeout }) {
    const { host, port } = this.#server;
    await this.#connection.as(name, 'any', [['CLIENT', 'SETNAME', 'keylatch-control'], ...requests]);
    const [lease, run] = [new Lease(this.#connection), new Run(port)];
    const keylatch = new Keylatch(host, port, name, 'any', () => this.#server.ended(), false, lease);
    await run.of(scenario, keylatch, timeout);
    lease.end();
    const [calls, faults] = await this.#leave();
    return { run, journal: new Journal(calls), faults };
  }

  async #leave() {
    const requests = [['TEST.CALLS', 'FULL'], ['TEST.FAULT', 'LIST'], ['CONFIG', 'SET', 'namespace-linger', 0]];
    // The PING is behind all calls in the journal, so its offset tells what the last of them has written.
    const ask = () => this.#connection.all([['PING'], ...requests], 'latin1');
    const [, calls, faults] = await ask().catch(() => []);
    if (Array.isArray(calls)) return [calls, faults];
    this.close(); // the scenario has left it in a transaction, or it was closed
    return (await ask()).slice(1);
  }

  close() {
    this.#connection.close();
  }
}

function checked({ kinds = DEFAULT_KINDS, budget, workers = WORKERS, only, pairs = false, ...options } = {}) {
  const { seed, lateBy = 60_000, timeout = 10, raises = true, ...others } = options;
  refuseOthers(others);
  for (const kind of kinds) {
    if (!KINDS.includes(kind)) throw new TypeError(`there is no kind '${kind}': ${KINDS.join(', ')}`);
  }
  const names = only === undefined ? undefined : [only].flat();
  return { kinds, budget, workers, only: names, pairs, seed, lateByMs: Math.round(lateBy), timeout, raises };
}

/** All runs of one scenario. */
class Exploration {
  #began = performance.now();
  #id = randomBytes(6).toString('hex');
  #instances = 0;
  #isOver = false;
  #options;
  #own; // an instance of the exploration itself
  #scenario;
  #server;
  #start; // the time at which each run begins, by the clock of its instance
  #baseline;
  #cleanRuns = 0;
  #lastCleanRun = Promise.resolve();
  #results = [];
  #total = 0;

  constructor(server, scenario, options) {
    this.#server = server;
    this.#scenario = scenario;
    this.#options = options;
    this.#own = new Keylatch(server.host, server.port, `ns-explore-${this.#id}-0`, 'any', () => server.ended());
  }

  async report() {
    const report = new Report();
    const { workers: count, budget, pairs, seed = randomInt(2 ** 31) } = this.#options;
    const workers = Array.from({ length: count }, () => new Worker(this.#server));
    try {
      const { tries, leftOut } = await this.#plan(workers[0]);
      this.#total = tries.length;
      await this.#tryAll(workers, tries, budget);
      Object.assign(report, { leftOut, notTried: tries.length - this.#tried().length });
      if (pairs) {
        report.seed = seed;
        const singles = tries.filter((points) => points.length === 1).flat();
        await this.#tryAll(workers, pairsOf(singles, seed), budget ?? this.#seconds() + PAIRS_SECONDS);
      }
      await new Promise((resolve) => { setImmediate(resolve); }); // for what is told of the last runs behind their end
    } finally {
      this.#isOver = true;
      this.#showProgress('');
      for (const each of [this.#own, ...workers]) each.close();
    }
    return this.#fill(report);
  }

  #fill(report) {
    for (const { name, run, difference, isLeftOut } of this.#tried()) {
      if (isLeftOut) {
        report.leftOut += 1;
        continue;
      }
      report.points += 1;
      if (difference) report.notRepeatable.push({ name, difference });
      else if (run.error) {
        const { error } = run.error;
        const isPlain = error instanceof NotEnded || error?.name === 'Stray';
        report.failures.push({ name, message: isPlain ? error.message : messageOf(error), error });
      }
    }
    report.seconds = this.#seconds();
    return report;
  }

  /** Runs the scenario twice without a fault, and finds the points. */
  async #plan(worker) {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
      const first = await this.#unfaulted(worker);
      this.#baseline = new Baseline(first, await this.#unfaulted(worker));
      if (!this.#baseline.difference) break;
    }
    const { difference } = this.#baseline;
    if (difference) {
      const report = new Report();
      report.notRepeatable.push({ name: 'without a fault', difference });
      report.seconds = this.#seconds();
      throw new ExploreError(`not repeatable: of two runs without a fault, in the second ${difference}`, report);
    }
    const { kinds, only } = this.#options;
    const flags = await this.#flags(this.#baseline.journal);
    if (!only) {
      const { points, leftOut } = this.#baseline.points(kinds, flags);
      return { tries: points.map((point) => [point]), leftOut };
    }
    const { points } = this.#baseline.points(KINDS, flags);
    return { tries: only.map((name) => chosen(name, points)), leftOut: 0 };
  }

  async #unfaulted(worker) {
    const { run, journal } = await this.#run(worker, []);
    if (run.error) throw run.error.error;
    return journal;
  }

  /** The flags of the commands of a run. */
  async #flags(journal) {
    const names = [...new Set(journal.calls.map(({ command }) => command))];
    const rows = names.length ? await this.#own.command('COMMAND', 'INFO', ...names) : [];
    return new Map(names.map((name, at) => [name, new Set(rows[at]?.[2])]));
  }

  /** Tries points, or pairs of them, as long as there are some and until a time. */
  async #tryAll(workers, tries, until = Infinity) {
    const waiting = tries[Symbol.iterator]();
    const isOver = () => this.#isOver || this.#seconds() >= until;
    const work = async (worker) => {
      while (!isOver()) {
        const { value: points, done } = waiting.next();
        if (done) return;
        const place = this.#results.length;
        this.#results.length += 1; // in the order of the points
        this.#results[place] = await this.#try(worker, points);
        this.#showProgress(`explore: ${this.#tried().length} of ${this.#total} points, ${this.#failed()} failed`);
      }
    };
    await Promise.all(workers.map(work));
  }

  /** Runs points, again if the calls before them differ; the first run that is alike decides. */
  async #try(worker, points) {
    const name = points.map((point) => point.name).join(' + ');
    try {
      for (let attempt = 1; ; attempt += 1) {
        const { run, journal, faults } = await this.#run(worker, points);
        const difference = await this.#judged(worker, () => this.#difference(points, journal, faults));
        if (difference && attempt < ATTEMPTS && !this.#isOver) continue;
        // A key may have another name than without a fault, and nothing has happened to it then.
        const isLeftOut = !difference && points.some((point) => !point.isNamedBy(journal.same(point)));
        return { name, run, difference: difference?.told, isLeftOut };
      }
    } catch (error) {
      error.message += `\n(at the point ${JSON.stringify(name)})`;
      throw error;
    }
  }

  /** How a run differs. If that is in numbers only, it is judged again when those are masked that differ without a fault as
   *  well; one clean run at a time, since one may do for several workers. */
  async #judged(worker, judge) {
    const difference = judge();
    if (!difference?.isOfNumbers) return difference;
    const judgement = this.#lastCleanRun.then(async () => {
      const isNeeded = judge()?.isOfNumbers && this.#cleanRuns < CLEAN_RUNS && !this.#isOver;
      if (isNeeded) await this.#cleanRun(worker);
      return judge();
    });
    this.#lastCleanRun = judgement.catch(() => {});
    return judgement;
  }

  async #cleanRun(worker) {
    this.#cleanRuns += 1;
    const { run, journal } = await this.#run(worker, []);
    if (!run.error) this.#baseline.add(journal);
  }

  /** How the calls before the first fault differ from those without one: what is told of it, and whether it is numbers. */
  #difference(points, journal, faults) {
    const at = (point) => journal.same(point)?.at ?? Infinity;
    const fired = points.filter((_, index) => faults[index]?.fired > 0).sort((one, other) => at(one) - at(other));
    const [first] = fired.length ? fired : points;
    const told = this.#baseline.differenceTo(journal, first);
    if (told) return { told, isOfNumbers: fired.length > 0 && this.#baseline.differsInNumbers(journal, first) };
    return fired.length ? undefined : { told: 'the fault has not fired', isOfNumbers: false };
  }

  async #run(worker, points) {
    this.#start ??= await this.#own.now();
    this.#instances += 1;
    const { lateByMs, timeout } = this.#options;
    const requests = [['TEST.TIME', 'SET', this.#start], ...points.map((point) => point.fault(lateByMs))];
    return worker.run(`ns-explore-${this.#id}-${this.#instances}`, requests, { scenario: this.#scenario, timeout });
  }

  #seconds() {
    return (performance.now() - this.#began) / 1000;
  }

  #tried() {
    return this.#results.filter(Boolean);
  }

  #failed() {
    return this.#tried().filter(({ run, difference, isLeftOut }) => run.error && !difference && !isLeftOut).length;
  }

  #showProgress(line) {
    if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${line}`);
  }
}

/** The points of a name, which is that of one point or of a pair. */
function chosen(name, points) {
  const byName = new Map(points.map((point) => [point.name, point]));
  if (byName.has(name)) return [byName.get(name)];
  const parts = name.split(' + ');
  for (let at = 1; at < parts.length; at += 1) {
    const both = [parts.slice(0, at), parts.slice(at)].map((words) => byName.get(words.join(' + ')));
    if (both.every(Boolean)) return both;
  }
  const similar = [...byName.keys()].map((each) => [each, likeness(name, each)])
    .sort(([, one], [, other]) => other - one).slice(0, SIMILAR).map(([each]) => `\n  ${JSON.stringify(each)}`);
  throw new Error(`there is no point ${JSON.stringify(name)}; similar are:${similar.join('')}`);
}

/** How many pairs of characters two names have in common, of all that they have. */
function likeness(one, other) {
  const pairs = (text) => new Set([...text].map((_, at) => text.slice(at, at + 2)));
  const [left, right] = [pairs(one), pairs(other)];
  return 2 * [...left].filter((pair) => right.has(pair)).length / (left.size + right.size);
}

/** All pairs of points of different calls, in an order that follows from the seed. */
function* pairsOf(points, seed) {
  const random = randomOf(seed);
  const seen = new Set();
  const all = points.length * (points.length - 1) / 2;
  while (seen.size < all) {
    const [one, other] = [0, 0].map(() => Math.floor(random() * points.length)).sort((a, b) => a - b);
    const id = one * points.length + other;
    if (one === other || seen.has(id)) continue;
    seen.add(id);
    if (points[one].at !== points[other].at) yield [points[one], points[other]];
  }
}

/** Random numbers from 0 to 1 (mulberry32). */
function randomOf(seed) {
  let state = Number(seed) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Explores at a server, with options that were checked. */
async function explored(findServer, scenario, options) {
  const exploration = new Exploration(await findServer(), scenario, options);
  return watched(() => exploration.report());
}

/** See explore() in index.d.ts. */
async function exploreAt(findServer, scenario, options) {
  const { raises, ...others } = checked(options);
  const report = await explored(findServer, scenario, others);
  if (raises && !report.ok) throw new ExploreError(String(report), report);
  return report;
}

/** See explore.test() in index.d.ts. */
async function exploreInTests(findServer, t, scenario, options) {
  const report = await explored(findServer, scenario, checked(options));
  for (const line of String(report).split('\n')) t.diagnostic(line);
  for (const { name, error } of report.failures) await t.test(name, () => { throw error; });
  for (const { name, difference } of report.notRepeatable) {
    await t.test(name, () => { throw new ExploreError(`not repeatable: ${difference}`, report); });
  }
}

module.exports = { exploreAt, exploreInTests };
