"""Fixtures for pytest: a server process a session, which workers of xdist share; an instance, or a topology, a test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from . import _items, _server
from ._cluster import Cluster
from ._instance import Keylatch
from ._sentinel import Sentinel
from ._server import RunningServer, serve_workers, shared_server

PORT = pytest.StashKey[int]()
MARKERS = (
    "keylatch_cluster(primaries=3, replicas=1, node_timeout=15000, ...): how the cluster of the fixture is made",
    'keylatch_sentinel(replicas=2, sentinels=3, quorum=2, master="mymaster", down_after=30000, ...): how the master, '
    "replicas and sentinels of the fixture are made",
    "keylatch_explore(kinds=..., budget=..., pairs=False, ...): the test is run once for each thing that can go wrong at "
    "one of its calls, with the options of keylatch.explore",
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
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_items.Renaming(config), "keylatch-points")
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declares the option that runs a point again."""
    about = "of tests that are explored, try this point alone, by the name that a report has; may be repeated"
    parser.getgroup("keylatch").addoption(_items.OPTION, action="append", metavar="POINT", help=about)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Has marked tests explored when they are run."""
    for item in items:
        if _items.is_explored(item):
            assert isinstance(item, pytest.Function)
            _items.prepare(item)


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs coroutines that are explored, if no other plugin does."""
    return _items.play_coroutine(pyfuncitem)


@pytest.fixture(scope="session")
def keylatch_server() -> RunningServer:
    """The server of the session: that of KEYLATCH_URL, or a process of its own."""
    return shared_server()


@pytest.fixture
def keylatch(request: pytest.FixtureRequest, keylatch_server: RunningServer) -> Iterator[Keylatch]:
    """A private instance for this test: keys, clock, faults and journal are its own."""
    run = request.node.stash.get(_items.RUN, None)
    if run is not None:
        yield run
        return
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
