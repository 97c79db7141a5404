// For `globalSetup` of vitest and jest: one server for all workers, which `instance()` then uses; that of KEYLATCH_URL,
// if one is named there already.
'use strict';

const { start } = require('./index.js');

module.exports = async function globalSetup() {
  if (process.env.KEYLATCH_URL) return async () => {};
  const server = await start();
  process.env.KEYLATCH_URL = server.url;
  return async () => { // for vitest; with jest the server ends with the process
    delete process.env.KEYLATCH_URL;
    await server.stop();
  };
};
module.exports.default = module.exports;
