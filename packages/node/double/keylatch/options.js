// Options of methods, as arguments of commands.
'use strict';

/** The options that are given, as arguments of a command. */
function named(names, options) {
  return Object.keys(names).flatMap((name) => options[name] === undefined ? [] : [names[name], options[name]]);
}

/** Refuses options of other names, which would be without effect: `cuont: 1` is no limit. */
function refuseOthers(others) {
  const [name] = Object.keys(others);
  if (name !== undefined) throw new TypeError(`unknown option '${name}'`);
}

module.exports = { named, refuseOthers };
