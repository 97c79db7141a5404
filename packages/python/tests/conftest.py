"""The plugin comes with the installed package; `pytester` runs further sessions of pytest."""

import functools

import keylatch
import pytest

pytest_plugins = ["pytester"]


@functools.cache
def has(command):
    """Returns whether the server has a command, or with `ns-` private instances: not all of them exist yet."""
    with keylatch.instance() as instance:
        if command == "ns-":
            return instance.user is not None
        try:
            instance.command(command)
        except keylatch.ReplyError as error:
            return "unknown command" not in str(error)
    return True


def needs(*commands):
    """Skips a test while the server lacks one of these."""
    missing = [command for command in commands if not has(command)]
    return pytest.mark.skipif(bool(missing), reason=f"this server has no {', '.join(missing)}")
