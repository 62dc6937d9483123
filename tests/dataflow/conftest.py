"""Fixtures of the DataFlow tests."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

import dataflow as df
from tests.dataflow.engine_support import Traces

HAS_RAY = importlib.util.find_spec("ray") is not None


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "on_ray: short enough to run on Ray too wherever Ray is installed")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Behaviours are the same on every engine; most of the runs on Ray are for `make test-all`."""
    if "engine" not in metafunc.fixturenames:
        return
    engines = ["inline", "embedded"]
    if HAS_RAY:
        chosen = metafunc.definition.get_closest_marker("on_ray") is not None
        engines.append(pytest.param("ray", marks=() if chosen else pytest.mark.slow))
    metafunc.parametrize("engine", engines, indirect=True)


@pytest.fixture(scope="module")
def traces() -> Iterator[Traces]:
    """After a module with engines nothing of them may be left: processes, threads, descriptors, shared memory."""
    df.finalize()
    before = Traces()
    yield before
    df.finalize()
    before.check()


@pytest.fixture(scope="module")
def ray_cluster(traces: Traces) -> Iterator[None]:
    """Started once for a module: sessions use the Ray that they find."""
    traces.with_ray = True
    ray = pytest.importorskip("ray")
    if ray.is_initialized():
        yield
        return
    ray.init(address="local", include_dashboard=False, num_cpus=2, object_store_memory=256 << 20, logging_level="ERROR")
    yield
    df.finalize()
    ray.shutdown()


@pytest.fixture
def engine(request: pytest.FixtureRequest, traces: Traces) -> Iterator[str]:
    """A program that called init for one engine; the engine's name."""
    if request.param == "ray":
        request.getfixturevalue("ray_cluster")
    df.finalize()
    df.init({"softnpu.flow.engine": request.param})
    yield request.param
    df.finalize()


@pytest.fixture
def flow() -> Iterator[dict[str, str]]:
    """A program that called init; everything runs in this process."""
    df.finalize()
    options = {"softnpu.flow.engine": "inline"}
    df.init(options)
    yield options
    df.finalize()


@pytest.fixture
def stub() -> Iterator[None]:
    """A program whose graphs need no work in their nodes."""
    df.finalize()
    df.init({"softnpu.flow.engine": "stub"})
    yield
    df.finalize()
