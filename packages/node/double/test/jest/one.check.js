// With jest: one server for all workers, a private instance for each test.
'use strict';

const { Redis } = require('ioredis');
const { instance } = require('keylatch');

let keylatch, client;
beforeEach(async () => {
  keylatch = await instance();
  client = new Redis(keylatch.url);
});
afterEach(() => {
  client.disconnect();
  keylatch.close();
});

test('the server is that of the global setup', () => {
  expect(process.env.KEYLATCH_URL).toContain(`:${keylatch.port}/`);
});

test.each([...Array(20).keys()])('a counter of its own, %i', async (number) => {
  for (let expected = 1; expected < 10; expected += 1) expect(await client.incr('counter')).toBe(expected);
  await keylatch.advance(number * 1000);
  expect(await keylatch.calls({ match: 'INCR' })).toHaveLength(9);
});

test('a rate limit is over when its window is', async () => {
  await client.set('hits', 1, 'PX', 60_000);
  await keylatch.advance(60_000);
  expect(await client.incr('hits')).toBe(1);
});
