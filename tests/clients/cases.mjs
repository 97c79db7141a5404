// Runs the cases that the command line names, each on an empty server, and says what each has proved.

// Runs cases, functions that return what they have proved; `flush` empties the server before each, `close` ends what a
// case has left open.
export async function runCases(cases, { flush, close = async () => {} }) {
  for (const name of process.argv.slice(2)) {
    const began = performance.now();
    await flush();
    try {
      const proved = await cases[name]();
      console.log(`${name}: ${proved}: ${((performance.now() - began) / 1000).toFixed(1)} s`);
      await close();
    } catch (error) {
      console.error(`FAILED: ${name}:`, error);
      process.exit(1);
    }
  }
  process.exit(0); // whatever connections a library has left open
}
