"""The examples for pytest in the READMEs, in TESTING.md, CLOCKS.md and MIGRATION.md, as they stand there."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[4]
PAGES = ["README.md", "docs/TESTING.md", "docs/CLOCKS.md", "docs/MIGRATION.md", "packages/python/double/README.md"]


@pytest.mark.parametrize("name", PAGES)
def test_the_examples_pass(name, pytester):
    found = re.findall(r"^```python\n(.*?)^```$", (ROOT / name).read_text(), re.MULTILINE | re.DOTALL)
    examples = [text for text in found if re.search(r"^def test_", text, re.MULTILINE)]
    assert examples
    for number, example in enumerate(examples):
        pytester.makepyfile(**{f"test_example_{number}": example})
    tests = sum(example.count("def test_") for example in examples)
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=tests)
