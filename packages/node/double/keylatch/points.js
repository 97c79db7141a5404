// What can go wrong in a scenario: the calls of two runs without a fault, and the points that follow from them. Texts of
// the server are strings of bytes (latin1) here, until they are shown.
'use strict';

const bytesOf = (text) => Buffer.from(text, 'latin1');
const UNFAULTED = new Set(['hello', 'auth', 'reset', 'quit']); // which Redis answers while it loads
const LOADERS = new Set(['script|load', 'script|exists', 'function|load']);
const SCRIPTS = new Set(['evalsha', 'evalsha_ro', 'fcall', 'fcall_ro']);
const TRANSACTION_ENDS = new Set(['exec', 'discard']);
const HANDSHAKE = /^(hello|auth|select|client(\|.*)?)$/; // what clients send when they connect
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
const STREAM_ID = /(?<![0-9])([0-9]{13})-[0-9]+/g; // of an entry: milliseconds, and a number
const SHOWN_ARG = 60; // characters
const HINT = '; connections are used at the same time: name each by CLIENT SETNAME, connect before threads or tasks start, '
  + 'or use a pool of one connection';

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
 *  days of another one. The id of a stream entry is one date. */
function dateless(text, nearMs) {
  const isDate = (number) => Math.abs(number * DATE_SCALES.get(number.length) - nearMs) < DATES_WITHIN_MS;
  const withoutIds = text.replace(STREAM_ID, (id, ms) => isDate(ms) ? '*' : id);
  return withoutIds.replace(/[0-9]+/g, (number) => isDate(number) ? '*' : number);
}

const numberless = (text) => text.replace(/[0-9]+/g, '*');

/** 1st, 2nd, 3rd, 4th, 11th, 21st */
function ordinal(n) {
  const isTeen = n % 100 > 10 && n % 100 < 14;
  return `${n}${!isTeen && ['th', 'st', 'nd', 'rd'][n % 10] || 'th'}`;
}

const named = (command) => shown(command.toUpperCase().replace('|', ' '));

/** The calls of a run that count, and of each client name in the order of their arrival. */
class Journal {
  groups = new Map();
  #byId = new Map();

  /** `entries` is the reply of TEST.CALLS FULL. */
  constructor(entries) {
    const counts = new Map();
    this.calls = entries.map((entry, at) => ({ ...entry, group: entry['client-name'], at, before: entries[at - 1] }))
      .filter(({ group, refused, command }) => group !== 'keylatch-control' && !refused && command !== null);
    for (const call of this.calls) {
      const id = JSON.stringify([call.group, call.command]);
      counts.set(id, (counts.get(id) ?? 0) + 1);
      this.#byId.set(idOf({ ...call, nth: counts.get(id) }), call);
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

  /** The same but for the handshakes, which come from connections that get a name then, in no order. */
  withoutHandshakes(group) {
    return this.of(group).filter((call) => !isHandshake(call));
  }

  /** The call of the group, command and number of a point, or of a call of another run. */
  same(point) {
    return this.#byId.get(idOf(point));
  }

  /** How many connections there are whose calls are chosen. */
  connections(isChosen) {
    return new Set(this.calls.filter(isChosen).map((call) => call['client-id'])).size;
  }
}

const idOf = ({ group, command, nth }) => JSON.stringify([group, command, nth]);
const isHandshake = ({ group, command }) => group === '' && HANDSHAKE.test(command);
const isSameShape = (one, other) => one.command === other.command && one.args.length === other.args.length;

/** What runs without a fault have in common. */
class Baseline {
  #others; // the second run, and further ones whose arguments were others

  constructor(first, second) {
    this.journal = first;
    this.#others = [second];
  }

  /** How the two runs differ, beyond arguments; undefined if they do not. */
  get difference() {
    return this.#differenceOfShape(this.#others[0]);
  }

  /** Masks each argument that has another number in a further run without a fault, if its calls are the same. */
  add(run) {
    if (!this.#differenceOfShape(run, this.#isAlikeButForNumbers)) this.#others.push(run);
  }

  #differenceOfShape(run, isAlike = isSameShape) {
    const groups = new Set([...this.journal.groups.keys(), ...run.groups.keys()]);
    const hasName = [...groups].some((group) => group !== '');
    for (const group of groups) {
      const [calls, expected] = [run, this.journal].map((each) => hasName ? each.withoutHandshakes(group) : each.of(group));
      const found = differenceOf(callOf(group), calls, expected, isAlike, shownCall);
      if (found) return this.#hinted(found);
    }
    return undefined;
  }

  #hinted(difference) {
    const isShared = [this.journal, ...this.#others].some((each) => each.connections(({ group }) => group === '') > 1);
    return isShared ? difference + HINT : difference;
  }

  /** Whether an argument of a call is not the same in each run. */
  isMasked(call, at) {
    return this.#others.some((other) => other.same(call)?.args[at] !== call.args[at]);
  }

  /** How a run differs from these up to the call that was struck, first where that is; undefined if it does not. */
  differenceTo(run, point) {
    const found = this.#differenceBefore(run, point, this.#isAlike);
    return found && this.#hinted(found);
  }

  /** Whether a run differs in nothing but numbers within arguments up to the call that was struck. */
  differsInNumbers(run, point) {
    return this.#differenceBefore(run, point, this.#isAlikeButForNumbers) === undefined;
  }

  #differenceBefore(run, point, isAlike) {
    const struck = run.same(point);
    const until = struck ? struck.index + 1 : undefined;
    const differenceIn = (which, calls, expected) => differenceOf(which, calls, expected, isAlike, this.#shownWithMask);
    const expected = this.journal.of(point.group).slice(0, point.index + 1);
    const own = differenceIn((nth) => `its ${nth} call`, run.of(point.group).slice(0, until), expected);
    if (own) return own;
    if (!struck) return 'the call did not come';
    for (const group of run.groups.keys()) {
      if (group === point.group) continue;
      const before = run.withoutHandshakes(group).filter((call) => call.at < struck.at);
      const found = differenceIn(callOf(group), before, this.journal.withoutHandshakes(group).slice(0, before.length));
      if (found) return found;
    }
    return undefined;
  }

  #isAlike = (call, expected) => isSameShape(call, expected)
    && call.args.every((arg, at) => arg === expected.args[at] || this.isMasked(expected, at)
      || dateless(arg, expected['time-ms']) === dateless(expected.args[at], expected['time-ms']));

  #isAlikeButForNumbers = (call, expected) => isSameShape(call, expected)
    && call.args.every((arg, at) => this.isMasked(expected, at) || numberless(arg) === numberless(expected.args[at]));

  #shownWithMask = (call) =>
    shownCall({ ...call, args: call.args.map((arg, at) => this.isMasked(call, at) ? '*' : arg) });

  /** The points of some kinds, in their order, and how many have no name that is the same in each run: those whose keys
   *  differ, and handshakes of connections that may be made at the same time. `flags` has the flags of each command. */
  points(kinds, flags) {
    const points = [];
    let leftOut = 0;
    const isNameless = this.journal.connections(({ group }) => group !== '') > 1 ? isHandshake : () => false;
    for (const call of this.journal.calls) {
      for (const kind of KINDS.filter((each) => kinds.includes(each))) {
        const { effects, masked } = this.#effects(kind, call, flags);
        leftOut += masked;
        if (isNameless(call)) leftOut += effects.length;
        else points.push(...effects.map(({ effect, key }) => new Point(kind, call, effect, key)));
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
    const others = this.#others[0].same(call)?.[field];
    const keys = [...new Set(call[field])];
    const same = keys.filter((key) => others?.includes(key) && dateless(key, call['time-ms']) === key);
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
function isAt(kind, call, flags) {
  const { command, before, offset, hasWritten } = call;
  const has = (flag) => flags.get(command)?.has(flag) ?? false;
  switch (kind) {
    case 'noscript': return SCRIPTS.has(command) && !isLoaded(call);
    case 'failover': return before !== undefined && before['client-name'] !== 'keylatch-control' && offset > before.offset;
    case 'readonly': return has('write') || hasWritten;
    case 'oom': return has('denyoom');
    case 'loading': case 'busy': return !UNFAULTED.has(command);
    default: return true;
  }
}

/** Whether the script of a call was loaded just before, or before the call's transaction. */
function isLoaded({ previous }) {
  if (LOADERS.has(previous?.command)) return true;
  let before = previous;
  while (before && before.command !== 'multi' && !TRANSACTION_ENDS.has(before.command)) before = before.previous;
  return before?.command === 'multi' && LOADERS.has(before.previous?.command);
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
    Object.assign(this, { kind, group, command, nth, index, at, effect, key });
    this.name = `${kind}: ${ordinal(nth)} ${named(command)}${ofName(group)}${key === undefined ? '' : `, key "${shown(key)}"`}`;
  }

  /** Whether a call names the key that the fault strikes, if there is one. */
  isNamedBy(call) {
    return this.key === undefined || call === undefined || call.args.includes(this.key);
  }

  /** The request that sets its fault. */
  fault(lateByMs) {
    const effect = this.kind === 'late' ? [...this.effect, lateByMs] : this.effect;
    const which = [bytesOf(this.command), 'CLIENT', bytesOf(this.group), 'QUEUED', 'AFTER', this.nth - 1, 'COUNT', 1];
    return ['TEST.FAULT', 'ADD', ...which, ...effect];
  }
}

module.exports = { Baseline, DEFAULT_KINDS, Journal, KINDS };
