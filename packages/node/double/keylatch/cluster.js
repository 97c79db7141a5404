// A cluster of an instance: its slots, and what happens to them and to its nodes.
'use strict';

const { named, refuseOthers } = require('./options.js');
const { Access, Topology, isUp, numberOf } = require('./topology.js');

const SLOTS = 16384;
const SIZES = { primaries: 'PRIMARIES', replicas: 'REPLICAS', nodeTimeout: 'NODE-TIMEOUT' };

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

/** A cluster; see index.d.ts. */
class Cluster extends Topology {
  #access;

  constructor(access, made) {
    super(access);
    this.#access = access;
    this.startupNodes = made.map(({ host, port }) => ({ host, port }));
  }

  /** Makes it; `origin` is where, as Access takes it. */
  static async make(origin, options) {
    const { primaries, replicas, nodeTimeout, user, password, tls, ...others } = options;
    refuseOthers(others);
    const access = new Access('TEST.CLUSTER', origin, { user, password, tls });
    return new Cluster(access, await access.create(SIZES, options));
  }

  get rootNodes() {
    return this.startupNodes.map((node) => ({ url: this.#access.at(node).url }));
  }

  async primaries() {
    return (await this.nodes()).filter((node) => node.role === 'primary' && isUp(node));
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

  async failover(node, { lose, ...others } = {}) {
    refuseOthers(others);
    await this.#access.call('FAILOVER', numberOf(node), ...named({ lose: 'LOSE' }, { lose }));
  }

  async migrate(slots, node, { keys, ...others } = {}) {
    refuseOthers(others);
    const [first, last] = typeof slots === 'number' ? [slots, slots] : slots;
    await this.#access.call('MIGRATE', `${first}-${last}`, numberOf(node), ...named({ keys: 'KEYS' }, { keys }));
  }

  async add({ replicaOf, ...others } = {}) {
    refuseOthers(others);
    const of = replicaOf === undefined ? [] : ['REPLICA-OF', numberOf(replicaOf)];
    const { node: number } = await this.#access.call('ADD', ...of);
    return (await this.nodes()).find((node) => node.number === number);
  }

  async remove(node) {
    await this.#access.call('REMOVE', numberOf(node));
  }
}

module.exports = { Cluster, slotOf };
