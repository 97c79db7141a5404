/**
 * Starts one server for all workers of vitest or jest and sets KEYLATCH_URL, unless that names one already.
 * Returns what stops the server.
 */
declare function globalSetup(): Promise<() => Promise<void>>;
export = globalSetup;
