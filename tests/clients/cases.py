"""Runs the cases named on the command line, each on an empty server, and prints the claim that each has proved."""

import asyncio
import time
import traceback


def run(cases, names, flush):
    """Runs cases, functions that return what they have proved; `flush` empties the server before each."""
    for name in names:
        began = time.monotonic()
        flush()
        try:
            proved = cases[name]()
            if asyncio.iscoroutine(proved):
                proved = asyncio.run(proved)
        except Exception as error:
            traceback.print_exc()
            raise SystemExit(f'FAILED: {name}: {error!r}') from error
        print(f'{name}: {proved}: {time.monotonic() - began:.1f} s', flush=True)
