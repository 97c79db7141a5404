// A minimal RESP3 client: requests are pipelined, replies come in their order.
'use strict';

const net = require('node:net');
const tls = require('node:tls');

// Jest's environments lack the symbol of Node 20.
const ASYNC_DISPOSE = Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose');

const PUSH = '>'.charCodeAt(0);

/** An error reply of the server. */
class ReplyError extends Error {
  name = 'ReplyError';
}

const scalars = {
  '+': String,
  '-': (text) => new ReplyError(text),
  ':': (text) => Number.isSafeInteger(Number(text)) ? Number(text) : BigInt(text),
  '(': BigInt,
  ',': (text) => Number(text.replace('inf', 'Infinity')),
  '#': (text) => text === 't',
  _: () => null,
};
const bulks = {
  $: (text) => text,
  '=': (text) => text.slice(text.indexOf(':') + 1), // without its format, such as `txt`
  '!': (text) => new ReplyError(text),
};

/** Parses one reply, with texts of an encoding; returns it and the place behind it, or undefined if there is not all of it. */
function parse(bytes, from, encoding) {
  const end = bytes.indexOf('\r\n', from);
  if (end < 0) return undefined;
  const kind = String.fromCharCode(bytes[from]);
  const rest = bytes.toString('utf8', from + 1, end);
  if (kind in scalars) return [scalars[kind](rest), end + 2];
  const length = Number(rest);
  if (length < 0) return [null, end + 2];
  if (kind in bulks) {
    const at = end + 2 + length;
    if (bytes.length < at + 2) return undefined;
    const text = bytes.toString(encoding, end + 2, at);
    return [bulks[kind](text), at + 2];
  }
  const items = [];
  let at = end + 2;
  for (let left = kind === '%' ? 2 * length : length; left > 0; left -= 1) {
    const item = parse(bytes, at, encoding);
    if (!item) return undefined;
    items.push(item[0]);
    at = item[1];
  }
  if (kind !== '%') return [items, at];
  return [Object.fromEntries(items.flatMap((item, i) => i % 2 ? [] : [[item, items[i + 1]]])), at];
}

/** A request, in parts. */
function encoded(args) {
  const parts = args.map((arg) => Buffer.isBuffer(arg) ? arg : Buffer.from(String(arg)));
  const bulks = parts.flatMap((part) => [Buffer.from(`$${part.length}\r\n`), part, Buffer.from('\r\n')]);
  return [Buffer.from(`*${parts.length}\r\n`), ...bulks];
}

/** A connection that is opened at the first request, and again after it was closed. */
class Connection {
  #address;
  #connect;
  #login;
  #socket;
  #ready; // until the server has accepted the user
  #received = Buffer.alloc(0);
  #waiting = [];

  constructor(host, port, user, password, isTls = false) {
    // Any certificate is taken: the server is one of the test's own.
    this.#address = { host, port, rejectUnauthorized: false };
    this.#connect = isTls ? tls.connect : net.connect;
    this.#login = user === undefined ? [] : ['AUTH', user, password];
  }

  /** Sends a request; resolves with its reply, where maps are objects. An error reply rejects. */
  async call(...args) {
    this.#ready ??= this.#open();
    await this.#ready;
    return this.#send([args])[0];
  }

  /** Sends requests in one write. Texts in the replies are of an encoding; `latin1` keeps their bytes. */
  async all(requests, encoding) {
    this.#ready ??= this.#open();
    await this.#ready;
    return Promise.all(this.#send(requests, encoding));
  }

  /** Goes on as another user, and sends requests behind that in the same write. */
  async as(user, password, requests) {
    const isOpen = this.#ready !== undefined;
    this.#login = ['AUTH', user, password];
    return this.all([...isOpen ? [this.#login] : [], ...requests]);
  }

  /** Closes the connection; the next request opens another. */
  close() {
    this.#socket?.destroy();
    this.#lost(this.#socket, new Error('the connection was closed'));
  }

  async #open() {
    const socket = this.#socket = this.#connect(this.#address).setNoDelay();
    socket.on('data', (bytes) => this.#receive(bytes));
    socket.on('error', (error) => this.#lost(socket, error));
    const closed = Object.assign(new Error('keylatch has closed the connection'), { code: 'ECONNRESET' });
    socket.on('close', () => this.#lost(socket, closed));
    try {
      await this.#send([['HELLO', 3, ...this.#login, 'SETNAME', 'keylatch-control']])[0];
    } catch (error) {
      this.close(); // or the next request would be that of another user
      if (this.#login[1]?.startsWith('ns-') && error.message.startsWith('WRONGPASS')) {
        error.message += ' (Private instances need a server that runs with --test-mode.)';
      }
      throw error;
    }
  }

  /** Writes requests at once; returns the promises of their replies. */
  #send(requests, encoding = 'utf8') {
    if (!this.#socket) return requests.map(() => Promise.reject(new Error('the connection was closed')));
    const replies = requests.map(() => new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject, encoding });
    }));
    this.#socket.ref(); // the process stays for a reply, but not for an idle connection
    this.#socket.write(Buffer.concat(requests.flatMap(encoded)));
    return replies;
  }

  #receive(bytes) {
    this.#received = Buffer.concat([this.#received, bytes]);
    let at = 0;
    for (let found; at < this.#received.length && (found = this.#parse(at)); [, at] = found) {
      // A push that confirms no subscription, such as a message, is no reply.
      if (this.#received[at] === PUSH && !/subscribe$/.test(found[0][0])) continue;
      const { resolve, reject } = this.#waiting.shift();
      (found[0] instanceof ReplyError ? reject : resolve)(found[0]);
    }
    this.#received = this.#received.subarray(at);
    if (this.#waiting.length === 0) this.#socket?.unref();
  }

  #parse(at) {
    return parse(this.#received, at, this.#waiting[0]?.encoding);
  }

  #lost(socket, error) {
    if (socket === undefined || socket !== this.#socket) return;
    this.#socket = undefined;
    this.#ready = undefined;
    this.#received = Buffer.alloc(0);
    for (const { reject } of this.#waiting.splice(0)) reject(error);
  }
}

module.exports = { ASYNC_DISPOSE, Connection, ReplyError };
