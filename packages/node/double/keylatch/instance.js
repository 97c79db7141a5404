// A private instance of a server: its address, its clock, its faults and its journal.
'use strict';

const { randomUUID } = require('node:crypto');
const { Clocks, move } = require('./clocks.js');
const { Cluster } = require('./cluster.js');
const { named, refuseOthers } = require('./options.js');
const { ASYNC_DISPOSE, Connection } = require('./resp.js');
const { Sentinel } = require('./sentinel.js');
const { callStanding } = require('./standing.js');

const LIMITS = { prob: 'PROB', seed: 'SEED', count: 'COUNT', after: 'AFTER' };
const FILTERS = { key: 'KEY', client: 'CLIENT' };

/** An injected fault. */
class Fault {
  #instance;

  constructor(instance, id) {
    this.#instance = instance;
    this.id = id;
  }

  async fired() {
    const faults = await this.#instance.command('TEST.FAULT', 'LIST');
    const fault = faults.find(({ id }) => id === this.id);
    if (!fault) throw new Error(`fault ${this.id} was removed`);
    return fault.fired;
  }

  async remove() {
    return await this.#instance.command('TEST.FAULT', 'DEL', this.id) === 1;
  }

  async [ASYNC_DISPOSE]() {
    await this.remove();
  }
}

/** A private instance; see index.d.ts. */
class Keylatch {
  #clocks; // of the process; undefined in a run of explore(), since all runs have the same
  #connection;
  #ended;
  #topologies = { cluster: 0, sentinel: 0 };

  /** `ended` tells how the server has ended, if it has; for the error of a lost connection. The control connection is one
   *  of its own, unless one is given, which is that of a run of explore(). */
  constructor(host, port, user, password = 'any', ended = async () => undefined, tls = false, connection = undefined) {
    this.#ended = ended;
    Object.assign(this, { host, port, user, password, tls });
    this.#connection = connection ?? new Connection(host, port, user, password, tls);
    this.#clocks = connection ? undefined : new Clocks();
  }

  get url() {
    const login = [this.user, this.password].map(encodeURIComponent).join(':');
    const host = this.host.includes(':') ? `[${this.host}]` : this.host;
    return `redis${this.tls ? 's' : ''}://${this.user === undefined ? '' : `${login}@`}${host}:${this.port}/0`;
  }

  async command(...args) {
    return this.#told(() => this.#connection.call(...args));
  }

  /** Makes a call; if the connection is lost, the error tells how the server has ended. */
  async #told(call) {
    try {
      return await call();
    } catch (error) {
      const ended = error.code && await this.#ended();
      throw ended ? new Error(ended, { cause: error }) : error;
    }
  }

  async advance(ms, { process: isOfProcess = true, ...others } = {}) {
    refuseOthers(others);
    const request = ['TEST.TIME', 'ADVANCE', Math.round(ms)];
    const clocks = isOfProcess && this.#clocks ? this.#clocks.found() : [];
    if (clocks.length === 0) return this.command(...request);
    const { host, port, user, password, tls } = this;
    return this.#told(async () => {
      const now = callStanding([host, port, user, password, tls], request);
      await move(clocks, request[2]);
      return now;
    });
  }

  follow(clock) {
    if (!this.#clocks) throw new Error('a run of explore() moves only the clock of its instance');
    this.#clocks.follow(clock);
  }

  setTime(time) {
    return this.command('TEST.TIME', 'SET', Math.round(Number(time)));
  }

  freeze() {
    return this.command('TEST.TIME', 'FREEZE');
  }

  run() {
    return this.command('TEST.TIME', 'RUN');
  }

  now() {
    return this.command('TEST.TIME', 'GET');
  }

  async fault(command, options = {}) {
    const { error, delayMs, drop, loseReply, partial, lose, ...limits } = options;
    const { key, client, queued, prob, seed, count, after, ...others } = limits;
    refuseOthers(others);
    const kinds = [
      ...error === undefined ? [] : [['ERROR', error]],
      ...delayMs === undefined ? [] : [['DELAY', Math.round(delayMs)]],
      ...drop ? [['DROP']] : [],
      ...loseReply ? [['LOSEREPLY']] : [],
      ...partial === undefined ? [] : [['PARTIAL', partial]],
      ...lose ? [['LOSE']] : [],
    ];
    if (kinds.length !== 1) {
      throw new TypeError('exactly one of error, delayMs, drop, loseReply, partial and lose must be given');
    }
    const filters = [...named(FILTERS, { key, client }), ...queued ? ['QUEUED'] : []];
    const args = [command, ...filters, ...kinds[0], ...named(LIMITS, { prob, seed, count, after })];
    return new Fault(this, await this.command('TEST.FAULT', 'ADD', ...args));
  }

  async clearFaults() {
    await this.command('TEST.FAULT', 'CLEAR');
  }

  async calls({ match, count, ...others } = {}) {
    refuseOthers(others);
    const found = await this.command('TEST.CALLS', ...named({ match: 'MATCH', count: 'COUNT' }, { match, count }));
    return found.map((call) => ({
      timeMs: call['time-ms'],
      clientId: call['client-id'],
      clientName: call['client-name'],
      args: call.args,
      fault: call.fault,
    }));
  }

  async forgetCalls() {
    await this.command('TEST.CALLS', 'RESET');
  }

  async snapshot(name = 'default') {
    await this.command('TEST.SNAPSHOT', name);
  }

  async restore(name = 'default') {
    await this.command('TEST.RESTORE', name);
  }

  async failover({ lose = 0, ...others } = {}) {
    refuseOthers(others);
    await this.command('TEST.FAILOVER', ...lose === null ? [] : ['LOSE', lose]);
    this.close();
    await this.now(); // connects again, or the instance would be gone if the client under test takes long to do so
  }

  async replica(name) {
    const user = `ns-${name ?? randomUUID()}`;
    await this.command('TEST.INSTANCE', 'REPLICA', user);
    return this.#beside(this.host, this.port, user, this.password, this.tls);
  }

  async cluster({ name, ...options } = {}) {
    return Cluster.make(this.#origin('cluster', name), options);
  }

  async sentinel({ name, ...options } = {}) {
    return Sentinel.make(this.#origin('sentinel', name), options);
  }

  /** Where a further topology of a kind is made; without a name it has that of its kind, with a number. */
  #origin(kind, name) {
    this.#topologies[kind] += 1;
    const connect = (...address) => this.#beside(...address);
    return { instance: this, connect, name: name ?? `${kind}-${this.#topologies[kind]}` };
  }

  /** Another control connection to the same server, as another user or at another port. */
  #beside(host, port, user, password, tls) {
    const { ca, caFile } = this;
    const beside = Object.assign(new Keylatch(host, port, user, password, this.#ended, tls), { ca, caFile });
    beside.#clocks = this.#clocks;
    return beside;
  }

  async reset() {
    await this.clearFaults();
    const added = (await this.command('ACL', 'USERS')).filter((name) => name !== 'default' && name !== this.user);
    if (added.length > 0) await this.command('ACL', 'DELUSER', ...added);
    await this.command('FLUSHALL', 'SYNC');
    await this.command('FUNCTION', 'FLUSH');
    await this.command('SCRIPT', 'FLUSH');
    await this.run();
    await this.setTime(Date.now());
    await this.forgetCalls();
  }

  close() {
    this.#connection.close();
  }

  async [ASYNC_DISPOSE]() {
    this.close();
  }
}

module.exports = { Fault, Keylatch };
