// For `globalSetup` of vitest and jest: one server for all workers, which `instance()` then uses.
'use strict';

const { start } = require('./index.js');

module.exports = async function globalSetup() {
  const server = await start();
  process.env.KEYLATCH_URL = server.url;
  return () => server.stop(); // for vitest; with jest the server ends with the process
};
module.exports.default = module.exports;
