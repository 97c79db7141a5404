"""Fixtures for pytest: one server process a session (under xdist, a worker), a private instance a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ._instance import Keylatch
from ._server import RunningServer, shared_server


@pytest.fixture(scope="session")
def keylatch_server() -> RunningServer:
    """The server of the session: that of KEYLATCH_URL, or a process of its own."""
    return shared_server()


@pytest.fixture
def keylatch(keylatch_server: RunningServer) -> Iterator[Keylatch]:
    """A private instance for this test: keys, clock, faults and journal are its own."""
    with keylatch_server.instance() as instance:
        yield instance


@pytest.fixture
def keylatch_url(keylatch: Keylatch) -> str:
    """What a client of this test's instance connects to."""
    return keylatch.url
