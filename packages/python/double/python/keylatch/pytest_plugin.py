"""Fixtures for pytest: a server process a session, which workers of xdist share; an instance, or a topology, a test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from . import _server
from ._cluster import Cluster
from ._instance import Keylatch
from ._sentinel import Sentinel
from ._server import RunningServer, serve_workers, shared_server

PORT = pytest.StashKey[int]()
MARKERS = (
    "keylatch_cluster(primaries=3, replicas=1, node_timeout=15000, ...): how the cluster of the fixture is made",
    'keylatch_sentinel(replicas=2, sentinels=3, quorum=2, master="mymaster", down_after=30000, ...): how the master, '
    "replicas and sentinels of the fixture are made",
)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Passes the port that serves the URL of the session's server to an xdist worker on this machine."""
    if node.gateway.spec.popen:
        stash = node.config.stash
        if PORT not in stash:
            stash[PORT] = serve_workers()
        node.workerinput["keylatch_port"] = stash[PORT]


def pytest_configure(config: pytest.Config) -> None:
    """Stores that port in the worker, and declares the markers."""
    _server.controller_port = getattr(config, "workerinput", {}).get("keylatch_port")
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


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
    """The URL of this test's instance."""
    return keylatch.url


@pytest.fixture
def keylatch_cluster(keylatch: Keylatch, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster of this test's instance: by default three primaries with a replica each; the marker says otherwise."""
    with keylatch.cluster(**marked(request, "keylatch_cluster")) as cluster:
        yield cluster


@pytest.fixture
def keylatch_sentinel(keylatch: Keylatch, request: pytest.FixtureRequest) -> Iterator[Sentinel]:
    """A master of this test's instance: by default with two replicas and three sentinels; the marker says otherwise."""
    with keylatch.sentinel(**marked(request, "keylatch_sentinel")) as sentinel:
        yield sentinel


def marked(request: pytest.FixtureRequest, name: str) -> dict[str, Any]:
    """Returns the options that the marker of a test has."""
    marker = request.node.get_closest_marker(name)
    return marker.kwargs if marker else {}
