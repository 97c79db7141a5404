// A private instance of a server: its address, its clock, its faults and its journal.
'use strict';

const { randomUUID } = require('node:crypto');
const { ASYNC_DISPOSE, Connection } = require('./resp.js');

const LIMITS = { prob: 'PROB', seed: 'SEED', count: 'COUNT', after: 'AFTER' };
const FILTERS = { key: 'KEY', client: 'CLIENT' };

/** The options that are given, as arguments of a command. */
function named(names, options) {
  return Object.keys(names).flatMap((name) => options[name] === undefined ? [] : [names[name], options[name]]);
}

/** Refuses options of other names, which would be without effect: `cuont: 1` is no limit. */
function refuseOthers(others) {
  const [name] = Object.keys(others);
  if (name !== undefined) throw new TypeError(`unknown option '${name}'`);
}

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
  #connection;
  #ended;

  /** `ended` tells how the server has ended, if it has; for the error of a lost connection. */
  constructor(host, port, user, password = 'any', ended = async () => undefined) {
    this.#ended = ended;
    Object.assign(this, { host, port, user, password });
    this.#connection = new Connection(host, port, user, password);
  }

  get url() {
    const login = [this.user, this.password].map(encodeURIComponent).join(':');
    const host = this.host.includes(':') ? `[${this.host}]` : this.host;
    return `redis://${this.user === undefined ? '' : `${login}@`}${host}:${this.port}/0`;
  }

  async command(...args) {
    try {
      return await this.#connection.call(...args);
    } catch (error) {
      const ended = error.code && await this.#ended();
      throw ended ? new Error(ended, { cause: error }) : error;
    }
  }

  advance(ms) {
    return this.command('TEST.TIME', 'ADVANCE', Math.round(ms));
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
    const { error, delayMs, drop, loseReply, partial, key, client, prob, seed, count, after, ...others } = options;
    refuseOthers(others);
    const kinds = [
      ...error === undefined ? [] : [['ERROR', error]],
      ...delayMs === undefined ? [] : [['DELAY', Math.round(delayMs)]],
      ...drop ? [['DROP']] : [],
      ...loseReply ? [['LOSEREPLY']] : [],
      ...partial === undefined ? [] : [['PARTIAL', partial]],
    ];
    if (kinds.length !== 1) {
      throw new TypeError('exactly one of error, delayMs, drop, loseReply and partial must be given');
    }
    const filters = named(FILTERS, { key, client });
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
    return new Keylatch(this.host, this.port, user, this.password, this.#ended);
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

module.exports = { Fault, Keylatch, refuseOthers };
