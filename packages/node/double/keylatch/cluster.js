// A cluster of an instance: its nodes, each with a port of its own, and what happens to them.
'use strict';

const { named, refuseOthers } = require('./options.js');
const { ASYNC_DISPOSE } = require('./resp.js');

const SLOTS = 16384;
const SIZES = { primaries: 'PRIMARIES', replicas: 'REPLICAS', nodeTimeout: 'NODE-TIMEOUT', user: 'USER', password: 'PASSWORD' };

/** The slot of a key, which is that of its hash tag if it has one. */
function slotOf(key) {
  const name = Buffer.from(key);
  const open = name.indexOf('{');
  const end = open < 0 ? -1 : name.indexOf('}', open);
  return crc16(end > open + 1 ? name.subarray(open + 1, end) : name) % SLOTS;
}

function crc16(bytes) {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit += 1) crc = (crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1) & 0xffff;
  }
  return crc;
}

/** A node as TEST.CLUSTER NODES describes it; see index.d.ts. */
function described({ node: number, id, host, port, role, slots, primary, state, offset, lag: [behind, lagMs], view }) {
  const ofPrimary = { primary: primary < 0 ? null : primary, behind, lagMs };
  return { number, id, host, port, role, slots, ...ofPrimary, state, offset, believedDead: view };
}

const numberOf = (node) => typeof node === 'number' ? node : node.number;
const isUp = ({ state }) => state === 'up';

/** A cluster; see index.d.ts. */
class Cluster {
  #instance;
  #connect;
  #name;
  #handles = new Map();

  /** `connect` makes a control connection to an address of the same server. */
  constructor(instance, connect, name, access, startupNodes) {
    this.#instance = instance;
    this.#connect = connect;
    this.#name = name;
    Object.assign(this, access, { startupNodes });
  }

  static async make(instance, connect, name, { tls = false, ...options }) {
    const { primaries, replicas, nodeTimeout, user, password, ...others } = options;
    refuseOthers(others);
    const args = [...named(SIZES, options), ...tls ? ['TLS'] : []];
    const made = await instance.command('TEST.CLUSTER', 'CREATE', name, ...args);
    const startupNodes = made.map(({ host, port }) => ({ host, port }));
    return new Cluster(instance, connect, name, { user, password, tls }, startupNodes);
  }

  get rootNodes() {
    return this.startupNodes.map((node) => ({ url: this.#at(node).url }));
  }

  async nodes() {
    return (await this.#call('NODES')).map(described);
  }

  async primaries() {
    return (await this.nodes()).filter((node) => node.role === 'primary' && isUp(node));
  }

  async replicas() {
    return (await this.nodes()).filter((node) => node.role === 'replica' && isUp(node));
  }

  async replicasOf(node) {
    return (await this.replicas()).filter(({ primary }) => primary === numberOf(node));
  }

  async primaryOf(key) {
    const slot = slotOf(key);
    const has = ({ slots }) => slots.some(([first, last]) => first <= slot && slot <= last);
    const owners = (await this.nodes()).filter(has);
    if (owners.length === 0) throw new Error(`no node has slot ${slot}`);
    return owners.find(isUp) ?? owners[0];
  }

  async node(node) {
    const number = numberOf(node);
    if (!this.#handles.has(number)) {
      const found = (await this.nodes()).find((each) => each.number === number);
      if (!found) throw new Error(`there is no node ${number}`);
      this.#handles.set(number, this.#at(found));
    }
    return this.#handles.get(number);
  }

  async failover(node, { lose, ...others } = {}) {
    refuseOthers(others);
    await this.#call('FAILOVER', numberOf(node), ...named({ lose: 'LOSE' }, { lose }));
  }

  async stop(node) {
    await this.#call('STOP', numberOf(node));
  }

  async start(node) {
    await this.#call('START', numberOf(node));
  }

  async pause(node) {
    await this.#call('PAUSE', numberOf(node));
  }

  async resume(node) {
    await this.#call('RESUME', numberOf(node));
  }

  async partition(...nodes) {
    await this.#call('PARTITION', ...nodes.map(numberOf));
  }

  async heal() {
    await this.#call('HEAL');
  }

  async lag(node, ms) {
    await this.#call('LAG', numberOf(node), Math.round(ms));
  }

  async migrate(slots, node, { keys, ...others } = {}) {
    refuseOthers(others);
    const [first, last] = typeof slots === 'number' ? [slots, slots] : slots;
    await this.#call('MIGRATE', `${first}-${last}`, numberOf(node), ...named({ keys: 'KEYS' }, { keys }));
  }

  async add({ replicaOf, ...others } = {}) {
    refuseOthers(others);
    const { node: number } = await this.#call('ADD', ...replicaOf === undefined ? [] : ['REPLICA-OF', numberOf(replicaOf)]);
    return (await this.nodes()).find((node) => node.number === number);
  }

  async remove(node) {
    await this.#call('REMOVE', numberOf(node));
  }

  async close() {
    for (const handle of this.#handles.values()) handle.close();
    await this.#instance.command('TEST.TOPOLOGY', 'DROP', this.#name).catch(() => {}); // it is gone already
  }

  async [ASYNC_DISPOSE]() {
    await this.close();
  }

  #call(subcommand, ...args) {
    return this.#instance.command('TEST.CLUSTER', subcommand, this.#name, ...args);
  }

  #at({ host, port }) {
    const user = this.user ?? (this.password === undefined ? undefined : 'default');
    return this.#connect(host, port, user, this.password, this.tls);
  }
}

module.exports = { Cluster, slotOf };
