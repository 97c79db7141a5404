// What an exploration has found, and the error that tells it.
'use strict';

const { AssertionError } = require('node:assert');

const COLOURS = /\x1b\[[\d;]*m/g; // of jest
const MESSAGE_MAX = 500;

const count = (n, one, many = `${one}s`) => `${n} ${n === 1 ? one : many}`;

/** What is said of an error: its kind and its message, in one line. */
function messageOf(error) {
  const isError = typeof error?.message === 'string';
  const text = isError ? `${error.name ?? 'Error'}: ${error.message}` : String(error);
  return text.replace(COLOURS, '').replace(/\s+/g, ' ').trim().slice(0, MESSAGE_MAX);
}

/** See index.d.ts. */
class Report {
  failures = [];
  notRepeatable = [];
  points = 0;
  leftOut = 0;
  notTried = 0;
  seconds = 0;
  seed = undefined;

  get ok() {
    return this.failures.length === 0 && this.notRepeatable.length === 0;
  }

  toString() {
    return [this.#summary(), ...this.#failures(), ...this.#others(), ...this.#asides()].join('\n');
  }

  #summary() {
    const told = [
      `${this.failures.length} failed`,
      ...this.notRepeatable.length ? [count(this.notRepeatable.length, 'is not repeatable', 'are not repeatable')] : [],
      ...this.notTried ? [`${count(this.notTried, 'was', 'were')} not tried (budget)`] : [],
    ];
    return `explore: ${count(this.points, 'point')} in ${this.seconds.toFixed(1)} s: ${told.join(', ')}`;
  }

  #failures() {
    const messages = [...new Set(this.failures.map(({ message }) => message))];
    return messages.flatMap((told) => {
      const same = this.failures.filter(({ message }) => message === told);
      return [told, ...same.map(({ name }) => `  only=${JSON.stringify(name)}`)];
    });
  }

  #others() {
    return this.notRepeatable.flatMap(({ name, difference }) => [`not repeatable: ${JSON.stringify(name)}`, `  ${difference}`]);
  }

  #asides() {
    return [
      ...this.leftOut ? [`${count(this.leftOut, 'point has', 'points have')} keys or connections that differ from run to run: left out`] : [],
      ...this.seed === undefined ? [] : [`pairs: seed ${this.seed}`],
    ];
  }
}

/** The failed assertion that an exploration is when it has found something; `report` has all of it. */
class ExploreError extends AssertionError {
  constructor(message, report) {
    super({ message });
    this.name = 'ExploreError';
    this.stack = this.stack.replace(/^AssertionError \[.*?\]/, this.name);
    // A reporter that shows the fields of an error would show all of it twice.
    Object.defineProperty(this, 'report', { value: report });
  }
}

module.exports = { ExploreError, Report, messageOf };
