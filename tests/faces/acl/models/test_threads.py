"""acl.mdl under threads, contexts and devices: runs side by side, loading and unloading meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

import acl
from tests.faces.acl.models.support import Memory, Net, dataset, describe, device, floats, load, om
from tests.support import WAIT, in_thread, ok

ID = 145003


@pytest.fixture(autouse=True)
def _engine(runtime: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTNPU_ENGINE", "onnxruntime")


def together(works: list[Callable[[], None]]) -> None:
    """Run functions at the same time, each in a thread with the caller's context; the first exception goes on here."""
    context = ok(acl.rt.get_context())
    gate = threading.Barrier(len(works))
    failures: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            ok(acl.rt.set_context(context))
            gate.wait(WAIT)
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(one,), daemon=True) for one in works]
    for one in threads:
        one.start()
    for one in threads:
        one.join(WAIT)
        assert not one.is_alive()
    if failures:
        raise failures[0]


def client(number: int, turns: int = 25) -> Callable[[], None]:
    """Runs "wide" again and again with buffers of its own and checks every result."""

    def work() -> None:
        random = np.random.default_rng(threading.get_ident() % 1000)
        given, made = Memory(200), Memory(200)
        inputs, outputs = dataset(given), dataset(made)
        for _ in range(turns):
            x = random.standard_normal(50).astype(np.float32)
            given.put(x)
            ok(acl.mdl.execute(number, inputs, outputs))
            np.testing.assert_array_equal(made.get(np.float32, 50), -x)

    return work


def test_several_threads_on_one_model() -> None:
    number = load("wide")
    together([client(number) for _ in range(6)])


def test_several_models_side_by_side() -> None:
    together([client(load("wide")) for _ in range(4)])


def test_gears_in_several_threads() -> None:
    """The size belongs to the dataset, so threads with datasets of their own do not disturb each other."""
    number = load("batch")

    def work(batch: int) -> None:
        x = floats(batch, 3, 4, 4)
        given, made = dataset(device(x), Memory(4)), Memory(512)
        outputs = dataset(made)
        alone = None
        for _ in range(15):
            ok(acl.mdl.set_dynamic_batch_size(number, given, 1, batch))
            made.put(np.full((4, 2, 4, 4), 7, np.float32))
            ok(acl.mdl.execute(number, given, outputs))
            found = made.get(np.float32, 4, 2, 4, 4)
            assert (found[batch:] == 7).all() and not (found[:batch] == 7).any()
            alone = found if alone is None else alone
            np.testing.assert_array_equal(found, alone)

    together([lambda b=b: work(b) for b in (1, 2, 4, 1)])  # type: ignore[misc]


def test_loading_and_unloading_while_others_run() -> None:
    number = load("wide")

    def come_and_go() -> None:
        for _ in range(8):
            other = load("relu")
            desc = describe(other)
            assert acl.mdl.get_num_inputs(desc) == 1
            ok(acl.mdl.unload(other))

    together([client(number), client(number), come_and_go, come_and_go])


def test_ids_are_given_once() -> None:
    found: list[int] = []
    together([lambda: found.extend(load("relu") for _ in range(6))] * 4)
    assert sorted(found) == list(range(1, 25))


def test_unload_while_another_thread_runs() -> None:
    """A run either ends well or is told that the model is gone; afterwards the id is unknown."""
    for _ in range(5):
        number = load("wide")
        started, seen = threading.Event(), set()

        def work(number: int = number, started: threading.Event = started, seen: set[int] = seen) -> None:
            inputs, outputs = dataset(Memory(200)), dataset(Memory(200))
            while True:
                code = acl.mdl.execute(number, inputs, outputs)
                seen.add(code)
                started.set()
                if code:
                    return

        def unload(number: int = number, started: threading.Event = started) -> None:
            assert started.wait(WAIT)
            ok(acl.mdl.unload(number))

        together([work, unload])
        assert seen == {0, ID}


def test_two_unloads_at_once() -> None:
    for _ in range(10):
        number = load("relu")
        codes: list[int] = []
        together([lambda n=number, c=codes: c.append(acl.mdl.unload(n))] * 3)  # type: ignore[misc]
        assert sorted(codes) == [0, ID, ID]


def test_a_thread_of_its_own_for_everything() -> None:
    """Device, model and run in another thread; the first one keeps its own."""
    mine = Net("relu")

    def other() -> None:
        ok(acl.rt.set_device(0))
        x = floats(4)
        (found,) = Net("relu").run(x)
        np.testing.assert_array_equal(found, np.maximum(x, 0))
        ok(acl.rt.reset_device(0))

    in_thread(other)
    x = floats(4)
    np.testing.assert_array_equal(mine.run(x)[0], np.maximum(x, 0))


def test_a_model_in_another_context_of_its_device() -> None:
    net = Net("relu")
    old = ok(acl.rt.get_context())
    context = ok(acl.rt.create_context(0))
    x = floats(4)
    np.testing.assert_array_equal(net.run(x)[0], np.maximum(x, 0))
    ok(acl.rt.set_context(old))
    ok(acl.rt.destroy_context(context))
    np.testing.assert_array_equal(net.run(x)[0], np.maximum(x, 0))


def test_a_model_outlives_the_context_it_was_loaded_in() -> None:
    old = ok(acl.rt.get_context())
    context = ok(acl.rt.create_context(0))
    number = load("relu")
    ok(acl.rt.set_context(old))
    ok(acl.rt.destroy_context(context))
    x = floats(4)
    made = Memory(16)
    code = acl.mdl.execute(number, dataset(device(x)), dataset(made))
    assert code == 0 and np.array_equal(made.get(np.float32, 4), np.maximum(x, 0))
    assert acl.mdl.unload(number) == 0


def test_models_on_two_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    ok(acl.finalize())
    monkeypatch.setenv("SOFTNPU_DEVICES", "2")
    ok(acl.init())
    path = str(om("relu"))
    contexts, nets = [], []
    for index in (0, 1):
        ok(acl.rt.set_device(index))
        contexts.append(ok(acl.rt.get_context()))
        nets.append(Net("relu"))
    assert nets[0].id != nets[1].id
    for context, net in zip(contexts, nets, strict=True):
        ok(acl.rt.set_context(context))
        x = floats(4)
        np.testing.assert_array_equal(net.run(x)[0], np.maximum(x, 0))
    ok(acl.rt.reset_device(1))
    ok(acl.rt.set_context(contexts[0]))
    x = floats(4)
    np.testing.assert_array_equal(nets[0].run(x)[0], np.maximum(x, 0))
    assert ok(acl.mdl.load_from_file(path)) > nets[1].id
