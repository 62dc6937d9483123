"""Hostile files through the real doors: `fuzz_files.py --seed 1 --count 10000 [--kind om] [--keep FOLDER]`.

A worker process makes file after file and says which before it opens one; this process watches its time and memory, so
that a crash, a hang and a flood of memory are findings like others. Every file follows from seed and number:
`--only NUMBER` makes the same one again.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.paths import ROOT

LIMIT_SECONDS = 10.0
LIMIT_BYTES = 1536 << 20  # growth of a worker beyond what it has when it is ready
KINDS = {  # how many of 100 files; a forged program is made on demand only, since nothing stands between it and the engine
    "onnx": 24, "om": 24, "caffe": 12, "tensorflow": 8, "singleop": 8, "aipp": 6, "config": 6, "acl_json": 4, "option": 6, "om_look": 2,
}  # fmt: skip


@dataclass
class Report:
    """What a run found."""

    count: int = 0
    answers: collections.Counter[str] = field(default_factory=collections.Counter)
    findings: list[str] = field(default_factory=list)


def kind_of(number: int, wanted: str) -> str:
    """The kind of a file, so that every hundred of them hold all kinds."""
    if wanted:
        return wanted
    place = number * 37 % 100
    for kind, share in KINDS.items():
        place -= share
        if place < 0:
            return kind
    raise AssertionError("the shares do not add up to 100")


# ---- the worker ------------------------------------------------------------------------------------------------------


def work(options: argparse.Namespace) -> None:
    """Make and drive files; a line on standard output before and after each."""
    from tests.robustness import fuzz_doors
    from tests.robustness.fuzz_seeds import read_list

    said = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    seeds = read_list(options.seeds)
    watch = fuzz_doors.Watch()
    fuzz_doors.start()
    os.chdir(options.room / "cwd")
    said.write("ready\n")
    for number in range(options.first, options.first + options.count, options.step):
        kind = kind_of(number, options.kind)
        rng = Random(f"{options.seed}:{kind}:{number}")
        seed = rng.choice([candidate for candidate in seeds if candidate.kind == kind])
        said.write(f"begin {number} {kind}/{seed.name}\n")
        try:
            answer = one_file(options, seed, rng, watch)
        except Exception as error:
            text = str(error) if isinstance(error, fuzz_doors.Defect) else traceback.format_exc()
            text = "\n".join([text, *watch.seen])
            watch.seen.clear()
            put_aside(options, f"{kind}/{seed.name}", number, text)
            said.write("defect " + json.dumps(text) + "\n")
        else:
            said.write(f"end {kind}: {answer}\n")


def put_aside(options: argparse.Namespace, what: str, number: int, text: str) -> None:
    """Keep the files of a finding where somebody can look at them."""
    if options.keep is not None:
        folder = options.keep / f"{what.replace('/', '-')}-{options.seed}-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(options.room / "in", folder)
        (folder / "finding.txt").write_text(text, encoding="utf-8", errors="backslashreplace")


def one_file(options: argparse.Namespace, seed: object, rng: Random, watch: object) -> str:
    """Make a hostile file and open it."""
    from tests.robustness import fuzz_doors, fuzz_mutate
    from tests.robustness.fuzz_seeds import Seed

    assert isinstance(seed, Seed) and isinstance(watch, fuzz_doors.Watch)
    inside, out = options.room / "in", options.room / "out"
    for folder in (inside, out, options.room / "cwd"):
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name in seed.files:
        shutil.copyfile(options.seeds / seed.kind / seed.name / name, inside / name)
    argv = [word.replace("{in}", str(inside)).replace("{out}", str(out)) for word in seed.argv]
    if seed.target:
        data = (inside / seed.target).read_bytes()
        (inside / seed.target).write_bytes(fuzz_mutate.spoil(seed.kind, seed.target, data, rng))
    else:
        place = rng.randrange(4, len(argv))  # not the place of the output: it could be anywhere
        word = fuzz_mutate.spoil_text(argv[place], rng).decode("utf-8", "surrogateescape")
        argv[place] = word.replace("\0", "␀")  # no command line can hold a NUL
        (inside / "argv.json").write_text(json.dumps(argv), encoding="utf-8")
    if seed.kind in ("om", "program"):
        return fuzz_doors.load(inside / seed.target, rng, watch)
    if seed.kind == "acl_json":
        return fuzz_doors.configure(inside / seed.target, watch)
    return fuzz_doors.convert(argv, out, rng, watch)


# ---- the watcher -----------------------------------------------------------------------------------------------------


class Worker:
    """A worker process and what it said last."""

    def __init__(self, options: argparse.Namespace, first: int, last: int, step: int) -> None:
        self.room = Path(tempfile.mkdtemp(prefix="worker-", dir=options.scratch))
        for word in ("in", "out", "cwd", "home"):
            (self.room / word).mkdir()
        self.options, self.last, self.step = options, last, step
        self.number, self.what, self.base = first - step, "", 0
        self.since = time.monotonic()
        command = [
            sys.executable,
            "-m",
            "tests.robustness.fuzz_files",
            "--worker",
            f"--seed={options.seed}",
            f"--first={first}",
        ]
        command += [f"--count={last - first}", f"--step={step}", f"--kind={options.kind}"]
        command += [f"--seeds={options.seeds}", f"--room={self.room}"]
        command += [f"--keep={options.keep}"] if options.keep is not None else []
        self.errors = self.room / "stderr"
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL, env=_environment(self.room)
            )
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self.waiting = b""

    def lines(self) -> Iterator[str]:
        """What it said since the last time."""
        assert self.process.stdout is not None
        data = self.process.stdout.read()
        if data:
            *whole, self.waiting = (self.waiting + data).split(b"\n")
            yield from (line.decode() for line in whole)

    def memory(self) -> int:
        """Resident bytes."""
        try:
            return int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]) * 4096
        except (OSError, IndexError):
            return 0

    def kill(self) -> str:
        """End it; returns the stacks of its threads."""
        self.process.send_signal(signal.SIGUSR1)
        time.sleep(0.2)
        self.process.kill()
        self.process.wait()
        return self.tail()

    def close(self) -> None:
        """Close what is left of a process that has ended."""
        assert self.process.stdout is not None
        self.process.stdout.close()

    def tail(self) -> str:
        """The last it wrote to standard error."""
        return self.errors.read_text(encoding="utf-8", errors="replace")[-3000:]


def _environment(room: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SOFTNPU_", "ASCEND_", "SLOG_"))}
    path = os.pathsep.join([str(ROOT), kept.get("PYTHONPATH", "")])
    here = {"HOME": str(room / "home"), "SOFTNPU_RUNTIME_DIR": str(room / "home"), "SOFTNPU_ENGINE": "onnxruntime"}
    return kept | here | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def run(seed: int, count: int, kind: str = "", keep: Path | None = None, workers: int = 2, first: int = 0) -> Report:
    """Make and drive files in worker processes."""
    from tests.robustness.fuzz_seeds import lay_out

    report = Report(count)
    with tempfile.TemporaryDirectory(prefix="softnpu-fuzz-") as scratch:
        options = argparse.Namespace(
            seed=seed, kind=kind, scratch=Path(scratch), seeds=Path(scratch) / "seeds", keep=keep
        )
        options.seeds.mkdir()
        here = Path.cwd()
        os.chdir(scratch)
        try:
            lay_out(options.seeds)
        finally:
            os.chdir(here)
        last = first + count
        running = [Worker(options, first + index, last, workers) for index in range(min(workers, count))]
        while running:
            running = [worker for old in running if (worker := _look(old, report)) is not None]
            _wait(running)
    return report


def _wait(workers: list[Worker]) -> None:
    with selectors.DefaultSelector() as selector:
        for worker in workers:
            assert worker.process.stdout is not None
            selector.register(worker.process.stdout, selectors.EVENT_READ)
        if workers:
            selector.select(0.05)


def _look(worker: Worker, report: Report) -> Worker | None:
    """Take what a worker said and see to its limits; returns it, its successor, or None when all is done."""
    for line in worker.lines():
        word, _, rest = line.partition(" ")
        worker.since = time.monotonic()
        if word == "ready":
            worker.base = worker.memory()
        elif word == "begin":
            number, worker.what = rest.split(" ", 1)
            worker.number = int(number)
        elif word == "defect":
            _note(worker, report, "defect", json.loads(rest))
        elif word == "end":
            report.answers[rest] += 1
    status = worker.process.poll()
    if status == 0:
        worker.close()
        return None
    if status is not None:
        _note(worker, report, f"crash ({status})", worker.tail())
    elif worker.base and worker.memory() - worker.base > LIMIT_BYTES:
        _note(worker, report, "memory", worker.kill())
    elif time.monotonic() - worker.since > (LIMIT_SECONDS if worker.what else 60):
        _note(worker, report, "hang", worker.kill())
    else:
        return worker
    worker.close()
    following = worker.number + worker.step
    return Worker(worker.options, following, worker.last, worker.step) if following < worker.last else None


def _note(worker: Worker, report: Report, word: str, text: str) -> None:
    finding = f"{word} in {worker.what}, file {worker.number}: {text}"
    report.findings.append(finding)
    if word != "defect":  # a living worker has done it itself
        options = argparse.Namespace(**vars(worker.options), room=worker.room)
        put_aside(options, worker.what, worker.number, f"{word}\n{text}")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--kind", default="", choices=["", "program", *KINDS])
    parser.add_argument("--keep", type=Path, help="folder for files that were found")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", type=int, help="make this file alone")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    for word, kind in (("first", int), ("step", int), ("seeds", Path), ("room", Path)):
        parser.add_argument(f"--{word}", type=kind, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options)
        return 0
    first, count = (options.only, 1) if options.only is not None else (options.first or 0, options.count)
    report = run(options.seed, count, options.kind, options.keep, options.workers, first)
    for answer, times in sorted(report.answers.items()):
        print(f"{times:7d}  {answer}")
    for finding in report.findings:
        print(f"\n---- {finding}")
    print(f"\n{report.count} files, {len(report.findings)} findings")
    return bool(report.findings)


if __name__ == "__main__":
    sys.exit(main())
