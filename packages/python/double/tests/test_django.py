"""The example of the README for Django's own test runner, in a process and in parallel ones."""

import pathlib
import re
import subprocess
import sys

import pytest

README = pathlib.Path(__file__).parents[1] / "README.md"
SETTINGS = """
SECRET_KEY = "test"
DATABASES = {}
CACHES = {"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": "redis://nowhere:1"}}
"""


@pytest.mark.parametrize("processes", [1, 2])
def test_the_example_runs_under_djangos_runner(tmp_path, processes):
    example = re.search(r"```python\n(# tests.py\n.*?)```", README.read_text(), re.DOTALL)[1]
    (tmp_path / "settings.py").write_text(SETTINGS)
    (tmp_path / "tests.py").write_text(example)
    (tmp_path / "tests_too.py").write_text(example.replace("class CacheTests", "class MoreCacheTests"))
    command = [sys.executable, "-m", "django", "test", "--settings=settings", "--pattern=tests*.py"]
    run = subprocess.run(
        [*command, f"--parallel={processes}", "--pythonpath=."], cwd=tmp_path, capture_output=True, text=True
    )
    assert run.returncode == 0 and "Ran 4 tests" in run.stderr, run.stderr
