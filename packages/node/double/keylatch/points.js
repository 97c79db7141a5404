// What can go wrong in a scenario: the calls of two runs without a fault, and the points that follow from them. Texts of
// the server are strings of bytes (latin1) here, until they are shown.
'use strict';

const bytesOf = (text) => Buffer.from(text, 'latin1');
const UNFAULTED = new Set(['hello', 'auth', 'reset', 'quit']); // which Redis answers while it loads
const LOADERS = new Set(['script|load', 'function|load']);
const SCRIPTS = new Set(['evalsha', 'evalsha_ro', 'fcall', 'fcall_ro']);
const ERRORS = {
  readonly: "READONLY You can't write against a read only replica.",
  oom: "OOM command not allowed when used memory > 'maxmemory'.",
  loading: 'LOADING Redis is loading the dataset in memory',
  busy: 'BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.',
};
const DEFAULT_KINDS = ['lost-reply', 'not-executed', 'cut-all', 'late', 'expired', 'noscript'];
const KINDS = [...DEFAULT_KINDS, 'evicted', 'failover', ...Object.keys(ERRORS)];
const DATE_SCALES = new Map([[10, 1000], [13, 1], [16, 0.001]]); // milliseconds in a unit of a Unix time of so many digits
const DATES_WITHIN_MS = 400 * 24 * 3_600_000;
const SHOWN_ARG = 60; // characters

/** Shows bytes: what is no printable UTF-8 as \xhh, and `"` and `\` behind a `\`. */
function shown(text) {
  const utf8 = bytesOf(text).toString();
  // What is no UTF-8 decodes to replacement characters, which do not lead back.
  const isUtf8 = Buffer.from(utf8).toString('latin1') === text;
  const escaped = (char) => [...Buffer.from(char, isUtf8 ? 'utf8' : 'latin1')].map(hex).join('');
  const characters = isUtf8 ? [...utf8] : [...text];
  const isPrintable = isUtf8 ? /^(?! )[^\p{C}\p{Zl}\p{Zp}]$/u : /^[!-~]$/;
  return characters.map((char) => {
    if (char === '"' || char === '\\') return `\\${char}`;
    return char === ' ' || isPrintable.test(char) ? char : escaped(char);
  }).join('');
}

const hex = (byte) => `\\x${byte.toString(16).padStart(2, '0')}`;

/** A text with `*` for each date in it: a number that is a Unix time, in seconds, milliseconds or microseconds, within 400
 *  days of another one. */
function dateless(text, nearMs) {
  const isDate = (number) => Math.abs(number * DATE_SCALES.get(number.length) - nearMs) < DATES_WITHIN_MS;
  return text.replace(/[0-9]+/g, (number) => isDate(number) ? '*' : number);
}

/** 1st, 2nd, 3rd, 4th, 11th, 21st */
function ordinal(n) {
  const isTeen = n % 100 > 10 && n % 100 < 14;
  return `${n}${!isTeen && ['th', 'st', 'nd', 'rd'][n % 10] || 'th'}`;
}

const named = (command) => shown(command.toUpperCase().replace('|', ' '));

/** The calls of a run that count, and of each client name in the order of their arrival. */
class Journal {
  groups = new Map();

  /** `entries` is the reply of TEST.CALLS FULL. */
  constructor(entries) {
    const counts = new Map();
    this.calls = entries.map((entry, at) => ({ ...entry, group: entry['client-name'], at, before: entries[at - 1] }))
      .filter(({ group, refused, command }) => group !== 'keylatch-control' && !refused && command !== null);
    for (const call of this.calls) {
      const id = JSON.stringify([call.group, call.command]);
      counts.set(id, (counts.get(id) ?? 0) + 1);
      if (!this.groups.has(call.group)) this.groups.set(call.group, []);
      const calls = this.groups.get(call.group);
      const next = entries[call.at + 1];
      const hasWritten = next !== undefined && next.offset > call.offset;
      Object.assign(call, { nth: counts.get(id), index: calls.length, hasWritten, previous: calls.at(-1) });
      calls.push(call);
    }
  }

  /** The calls of clients of a name. */
  of(group) {
    return this.groups.get(group) ?? [];
  }

  /** The call that a fault of a point has struck. */
  struck({ group, command, nth }) {
    return this.of(group).find((call) => call.command === command && call.nth === nth);
  }
}

/** What two runs without a fault have in common. */
class Baseline {
  constructor(first, second) {
    this.journal = first;
    this.second = second;
  }

  /** How the two runs differ, beyond arguments; undefined if they do not. */
  get difference() {
    const isAlike = (one, other) => one.command === other.command && one.args.length === other.args.length;
    for (const group of new Set([...this.journal.groups.keys(), ...this.second.groups.keys()])) {
      const found = differenceOf(callOf(group), this.second.of(group), this.journal.of(group), isAlike, shownCall);
      if (found) return found;
    }
    return undefined;
  }

  /** Whether an argument of a call is not the same in each run. */
  isMasked(call, at) {
    return call.args[at] !== this.second.of(call.group)[call.index].args[at];
  }

  /** How a run differs from these up to the call that was struck, first where that is; undefined if it does not. */
  differenceTo(run, point) {
    const struck = run.struck(point);
    const until = struck ? struck.index + 1 : undefined;
    const own = this.#differenceIn((nth) => `its ${nth} call`, point.group, run.of(point.group).slice(0, until), point.index + 1);
    if (own) return own;
    if (!struck) return 'the call did not come';
    for (const group of run.groups.keys()) {
      if (group === point.group) continue;
      const before = run.of(group).filter((call) => call.at < struck.at);
      const found = this.#differenceIn(callOf(group), group, before, before.length);
      if (found) return found;
    }
    return undefined;
  }

  #differenceIn(which, group, calls, length) {
    const isAlike = (call, expected) => call.command === expected.command && call.args.length === expected.args.length
      && call.args.every((arg, at) => arg === expected.args[at] || this.isMasked(expected, at)
        || dateless(arg, expected['time-ms']) === dateless(expected.args[at], expected['time-ms']));
    return differenceOf(which, calls, this.journal.of(group).slice(0, length), isAlike, (call) => this.#shownWithMask(call));
  }

  #shownWithMask(call) {
    return shownCall({ ...call, args: call.args.map((arg, at) => this.isMasked(call, at) ? '*' : arg) });
  }

  /** The points of some kinds, in their order, and how many have keys that are not the same in each run. `flags` has the
   *  flags of each command. */
  points(kinds, flags) {
    const points = [];
    let leftOut = 0;
    for (const call of this.journal.calls) {
      for (const kind of KINDS.filter((each) => kinds.includes(each))) {
        const { effects, masked } = this.#effects(kind, call, flags);
        leftOut += masked;
        points.push(...effects.map(({ effect, key }) => new Point(kind, call, effect, key)));
      }
    }
    return { points, leftOut };
  }

  #effects(kind, call, flags) {
    if (kind === 'expired') return this.#ofKeys('EXPIRE', call, 'expiring');
    if (kind === 'evicted') return this.#ofKeys('EVICT', call, 'keys');
    return { effects: isAt(kind, call, flags) ? [{ effect: EFFECTS[kind] ?? ['ERROR', ERRORS[kind]] }] : [], masked: 0 };
  }

  #ofKeys(effect, call, field) {
    const others = this.second.of(call.group)[call.index][field];
    const keys = [...new Set(call[field])];
    const same = keys.filter((key) => others.includes(key) && dateless(key, call['time-ms']) === key);
    return { effects: same.map((key) => ({ effect: [effect, bytesOf(key)], key })), masked: keys.length - same.length };
  }
}

const EFFECTS = {
  'lost-reply': ['LOSEREPLY'],
  'not-executed': ['DROP'],
  'cut-all': ['DROPALL'],
  late: ['ADVANCE'],
  noscript: ['NOSCRIPT'],
  failover: ['FAILOVER'],
};

/** Whether there is a point of a kind at a call. */
function isAt(kind, { command, previous, before, offset, hasWritten }, flags) {
  const has = (flag) => flags.get(command)?.has(flag) ?? false;
  switch (kind) {
    case 'noscript': return SCRIPTS.has(command) && !LOADERS.has(previous?.command);
    case 'failover': return before !== undefined && before['client-name'] !== 'keylatch-control' && offset > before.offset;
    case 'readonly': return has('write') || hasWritten;
    case 'oom': return has('denyoom');
    case 'loading': case 'busy': return !UNFAULTED.has(command);
    default: return true;
  }
}

const ofName = (group) => group === '' ? '' : ` of "${shown(group)}"`;
const callOf = (group) => (nth) => `the ${nth} call${ofName(group)}`;

/** The first call that is another than expected, or is missing. */
function differenceOf(which, calls, expected, isAlike, show) {
  const at = [...Array(Math.max(calls.length, expected.length)).keys()]
    .find((index) => !calls[index] || !expected[index] || !isAlike(calls[index], expected[index]));
  if (at === undefined) return undefined;
  const told = which(ordinal(at + 1));
  if (!calls[at]) return `${told} did not come: ${show(expected[at])}`;
  if (!expected[at]) return `${told} was one more: ${shownCall(calls[at])}`;
  return `${told} was ${shownCall(calls[at])}, not ${show(expected[at])}`;
}

/** A call as it is shown: the command, and its arguments. */
function shownCall({ command, args }) {
  const short = (arg) => {
    const text = shown(arg);
    return text.length > SHOWN_ARG ? `${text.slice(0, SHOWN_ARG)}...` : text;
  };
  return [named(command), ...args.slice(command.includes('|') ? 2 : 1).map(short)].join(' ');
}

/** One thing that goes wrong at one call. */
class Point {
  constructor(kind, { group, command, nth, index, at }, effect, key) {
    Object.assign(this, { kind, group, command, nth, index, at, effect });
    this.name = `${kind}: ${ordinal(nth)} ${named(command)}${ofName(group)}${key === undefined ? '' : `, key "${shown(key)}"`}`;
  }

  /** The request that sets its fault. */
  fault(lateByMs) {
    const effect = this.kind === 'late' ? [...this.effect, lateByMs] : this.effect;
    const which = [bytesOf(this.command), 'CLIENT', bytesOf(this.group), 'QUEUED', 'AFTER', this.nth - 1, 'COUNT', 1];
    return ['TEST.FAULT', 'ADD', ...which, ...effect];
  }
}

module.exports = { Baseline, DEFAULT_KINDS, Journal, KINDS };
