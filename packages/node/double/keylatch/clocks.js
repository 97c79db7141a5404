// The clock of the process, where a library for tests has replaced it.
'use strict';

const REPLACED = ['Date', 'setTimeout', 'setInterval', 'setImmediate', 'performance'];
const TIMERS = ['setTimeout', 'setInterval'];
const real = TIMERS.map((name) => globalThis[name]); // as they were when this module was loaded

/** The clocks of @sinonjs/fake-timers that sinon, vitest or jest has installed: what it replaces has its clock. */
function installed() {
  return REPLACED.map((name) => globalThis[name]?.clock).filter((clock) => typeof clock?.tickAsync === 'function');
}

function areTimersFake() {
  return TIMERS.some((name, at) => globalThis[name] !== real[at] || globalThis[name].clock);
}

/**
 * Moves clocks. Dates move at once, so that nothing of the process runs before; timers, if they are fake, come due as they
 * would, with all that promises have to do between two.
 */
async function move(clocks, ms) {
  const methods = areTimersFake() ? ['tickAsync', 'tick'] : ['tick', 'tickAsync'];
  await Promise.all(clocks.map(async (clock) => {
    try {
      await clock[methods.find((name) => clock[name])](ms);
    } catch (error) {
      if (error.code !== 'ERR_INVALID_STATE') throw error; // as timers of node:test have it that are not enabled
    }
  }));
}

/** The fake clocks of the process: those that are installed, and one that was named. */
class Clocks {
  #named;

  /** Names a clock that cannot be found. */
  follow(clock) {
    if (clock !== undefined && typeof (clock?.tickAsync ?? clock?.tick) !== 'function') {
      throw new TypeError('a clock has a method tick or tickAsync');
    }
    this.#named = clock;
  }

  /** All of them, now. */
  found() {
    const all = new Set([this.#named, ...installed()]);
    all.delete(undefined);
    return [...all];
  }
}

module.exports = { Clocks, move };
