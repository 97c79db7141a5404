"""Compares two JUnit reports of one suite: a row of a Markdown table, and the tests whose outcomes differ.

    compare.py NAME VERSION KIND REPORT-OF-REDIS-SERVER REPORT-OF-KEYLATCH
"""

import collections
import re
import sys
import xml.etree.ElementTree


def outcomes(path):
    """Returns the outcome of each test of a report: the last one, for those that are tried again or fail late."""
    found = {}
    for case in xml.etree.ElementTree.parse(path).iter('testcase'):
        name = re.sub(r'^#\d+ ', '', case.get('name', ''))  # those of ava are numbered as they end
        name = f'{case.get("classname", "")}::{name}'
        kinds = {child.tag for child in case}
        outcome = 'failed' if kinds & {'failure', 'error'} else 'skipped' if 'skipped' in kinds else 'passed'
        found[name] = outcome
    return found


def counts(found):
    tally = collections.Counter(found.values())
    return f'{tally["passed"]}, {tally["failed"]}, {tally["skipped"]}'


def main():
    name, version, kind, *paths = sys.argv[1:]
    redis, keylatch = (outcomes(path) for path in paths)
    print(f'| {name} | {version} | {kind} | {counts(redis)} | {counts(keylatch)} |', flush=True)
    for test in sorted(redis.keys() | keylatch.keys()):
        pair = redis.get(test, 'missing'), keylatch.get(test, 'missing')
        if pair[0] != pair[1]:
            print(f'    {test}: {pair[0]} with redis-server, {pair[1]} with keylatch')
    worse = any(keylatch.get(test) != 'passed' for test, outcome in redis.items() if outcome == 'passed')
    sys.exit(1 if worse or not redis else 0)


if __name__ == '__main__':
    main()
