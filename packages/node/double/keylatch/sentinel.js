// A master of an instance with replicas, and the sentinels that watch them.
'use strict';

const { named, refuseOthers } = require('./options.js');
const { Access, Topology, isUp, numberOf } = require('./topology.js');

const SIZES = {
  replicas: 'REPLICAS',
  sentinels: 'SENTINELS',
  quorum: 'QUORUM',
  master: 'MASTER',
  downAfter: 'DOWN-AFTER',
  failoverTimeout: 'FAILOVER-TIMEOUT',
};

/** A master with replicas and sentinels; see index.d.ts. */
class Sentinel extends Topology {
  #access;

  constructor(access, made, masterName) {
    super(access);
    this.#access = access;
    this.sentinels = made.filter(({ role }) => role === 'sentinel').map(({ host, port }) => ({ host, port }));
    Object.assign(this, { masterName, sentinelPassword: access.sentinelPassword });
  }

  /** Makes it; `origin` is where, as Access takes it. */
  static async make(origin, { master = 'mymaster', ...options }) {
    const { replicas, sentinels, quorum, downAfter, failoverTimeout, ...others } = options;
    const { user, password, sentinelPassword, tls, ...unknown } = others;
    refuseOthers(unknown);
    const access = new Access('TEST.SENTINEL', origin, { user, password, sentinelPassword, tls });
    return new Sentinel(access, await access.create(SIZES, { master, ...options }), master);
  }

  async master() {
    const nodes = await this.nodes();
    const up = nodes.filter(isUp);
    const sentinels = up.filter(({ role }) => role === 'sentinel');
    const view = async (node) => (await this.node(node)).command('SENTINEL', 'MASTER', this.masterName);
    const views = await Promise.all(sentinels.map(view));
    if (views.length === 0) return [...up, ...nodes].find(({ role }) => role === 'master');
    const latest = views.reduce((a, b) => Number(b['config-epoch']) > Number(a['config-epoch']) ? b : a);
    return nodes.find(({ port }) => port === Number(latest.port));
  }

  async failover({ to, lose, ...others } = {}) {
    refuseOthers(others);
    const target = to === undefined ? [] : ['TO', numberOf(to)];
    await this.#access.call('FAILOVER', ...target, ...named({ lose: 'LOSE' }, { lose }));
  }
}

module.exports = { Sentinel };
