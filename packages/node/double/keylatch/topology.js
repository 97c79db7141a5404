// A topology of an instance: its nodes, each with a port of its own, and what happens to them.
'use strict';

const { named } = require('./options.js');
const { ASYNC_DISPOSE } = require('./resp.js');

const LOGINS = { user: 'USER', password: 'PASSWORD', sentinelPassword: 'SENTINEL-PASSWORD' };

/** A node as TEST.CLUSTER NODES and TEST.SENTINEL NODES describe it; see index.d.ts. */
function described({ node: number, id, host, port, role, slots, primary, state, offset, lag: [behind, lagMs], view }) {
  const ofPrimary = { primary: primary < 0 ? null : primary, behind, lagMs };
  return { number, id, host, port, role, slots, ...ofPrimary, state, offset, believedDead: view };
}

const numberOf = (node) => typeof node === 'number' ? node : node.number;
const isUp = ({ state }) => state === 'up';

/** The way to a topology: the command that concerns it, and logins of its nodes. */
class Access {
  #command;
  #instance;
  #connect;
  #name;

  /** `connect` makes a control connection to an address of the server that `instance` is one of. */
  constructor(command, { instance, connect, name }, { user, password, sentinelPassword, tls = false }) {
    this.#command = command;
    this.#instance = instance;
    this.#connect = connect;
    this.#name = name;
    Object.assign(this, { user, password, sentinelPassword, tls });
  }

  /** Makes the nodes; resolves with their addresses and roles. */
  create(sizes, options) {
    return this.call('CREATE', ...named(sizes, options), ...named(LOGINS, this), ...this.tls ? ['TLS'] : []);
  }

  call(subcommand, ...args) {
    return this.#instance.command(this.#command, subcommand, this.#name, ...args);
  }

  at({ host, port, role }) {
    const [user, password] = role === 'sentinel' ? [undefined, this.sentinelPassword] : [this.user, this.password];
    return this.#connect(host, port, user ?? (password === undefined ? undefined : 'default'), password, this.tls);
  }

  async drop() {
    await this.#instance.command('TEST.TOPOLOGY', 'DROP', this.#name).catch(() => {}); // it is gone already
  }
}

/** What a cluster, and a master with its sentinels, have in common; see index.d.ts. */
class Topology {
  #access;
  #handles = new Map();

  constructor(access) {
    this.#access = access;
    const { user, password, tls } = access;
    Object.assign(this, { user, password, tls });
  }

  async nodes() {
    return (await this.#access.call('NODES')).map(described);
  }

  async replicas() {
    return (await this.nodes()).filter((node) => node.role === 'replica' && isUp(node));
  }

  async node(node) {
    const number = numberOf(node);
    if (!this.#handles.has(number)) {
      const found = (await this.nodes()).find((each) => each.number === number);
      if (!found) throw new Error(`there is no node ${number}`);
      this.#handles.set(number, this.#access.at(found));
    }
    return this.#handles.get(number);
  }

  async stop(node) {
    await this.#access.call('STOP', numberOf(node));
  }

  async start(node) {
    await this.#access.call('START', numberOf(node));
  }

  async pause(node) {
    await this.#access.call('PAUSE', numberOf(node));
  }

  async resume(node) {
    await this.#access.call('RESUME', numberOf(node));
  }

  async partition(...nodes) {
    await this.#access.call('PARTITION', ...nodes.map(numberOf));
  }

  async heal() {
    await this.#access.call('HEAL');
  }

  async lag(node, ms) {
    await this.#access.call('LAG', numberOf(node), Math.round(ms));
  }

  async close() {
    for (const handle of this.#handles.values()) handle.close();
    await this.#access.drop();
  }

  async [ASYNC_DISPOSE]() {
    await this.close();
  }
}

module.exports = { Access, Topology, isUp, numberOf };
