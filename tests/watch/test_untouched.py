"""The program comes first: watched or not, it prints, raises, leaves and returns the same."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from torchsleuth.watch.found import Summary, summarise

pytestmark = pytest.mark.slow

SRC = Path(__file__).resolve().parents[2] / "src"
# What `torchsleuth run` does with a command, less the investigation: same streams, same signals, its exit code.
LAUNCH = """
import os, signal, sys
from pathlib import Path
from torchsleuth.watch import launcher
from torchsleuth.watch.session import Options
ended = launcher.run(sys.argv[2:], Path(sys.argv[1]), Options())
if ended.exit_code < 0:
    signal.signal(-ended.exit_code, signal.SIG_DFL)
    os.kill(os.getpid(), -ended.exit_code)
sys.exit(ended.exit_code)
"""


@dataclass(frozen=True)
class Seen:
    """What the outside world sees of a program."""

    code: int
    out: str
    err: str
    left: tuple[str, ...]  # files in its working and temporary folders


class Stage:
    """Two equal places to run a program in, one of them watched."""

    def __init__(self, tmp_path: Path, source: str, name: str = "program.py") -> None:
        self.session = tmp_path / "session"
        self.session.mkdir()
        self.places = [tmp_path / "plain", tmp_path / "watched"]
        for place in self.places:
            (place / "cwd").mkdir(parents=True)
            (place / "tmp").mkdir()
            (place / "cwd" / name).write_text(textwrap.dedent(source))

    def start(self, watched: bool, words: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[str]:
        place = self.places[watched]
        plain = {k: v for k, v in os.environ.items() if not k.startswith("TORCH")}
        command = [sys.executable, *words]
        if watched:
            command = [sys.executable, "-c", LAUNCH, str(self.session), *command]
        return subprocess.Popen(
            command,
            cwd=place / "cwd",
            env={**plain, "TMPDIR": str(place / "tmp"), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(SRC), **env},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(
        self, words: Sequence[str] = ("program.py",), *, typed: str = "", env: Mapping[str, str] | None = None
    ) -> tuple[Seen, Seen]:
        """(unwatched, watched)"""

        def one(watched: bool) -> Seen:
            process = self.start(watched, words, env or {})
            out, err = process.communicate(typed, timeout=180)
            return self.seen(watched, process.returncode, out, err)

        with ThreadPoolExecutor(2) as pool:
            plain, watched = pool.map(one, (False, True))
        return plain, watched

    def seen(self, watched: bool, code: int, out: str, err: str) -> Seen:
        place = self.places[watched]
        left = sorted(str(p.relative_to(place)) for p in place.rglob("*") if p.is_file())
        return Seen(code, out.replace(str(place), "PLACE"), err.replace(str(place), "PLACE"), tuple(left))

    def summary(self, code: int) -> Summary:
        return summarise(self.session, code)


def test_an_uncaught_compile_error(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        """
        import torch

        def backend(gm, inputs):
            raise ValueError("no kernel for 3")

        @torch.compile(backend=backend)
        def f(x):
            return x.relu() + 1

        print("before")
        f(torch.ones(3))
        """,
    )
    plain, watched = stage.run()
    assert watched == plain
    assert plain.code == 1
    assert "ValueError: no kernel for 3" in plain.err
    [found] = stage.summary(1).found
    assert found.ended_program
    assert found.case is not None


def test_an_uncaught_error_of_a_compiled_backward(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        """
        import torch
        from torch._dynamo.backends.common import aot_autograd
        from functorch.compile import make_boxed_func

        def forward(gm, inputs):
            return make_boxed_func(gm.forward)

        def backward(gm, inputs):
            def run(args):
                raise KeyError("backward 3")
            run._boxed_call = True
            return run

        f = torch.compile(torch.sin, backend=aot_autograd(fw_compiler=forward, bw_compiler=backward))
        f(torch.ones(3, requires_grad=True)).sum().backward()
        """,
    )
    plain, watched = stage.run()
    assert watched == plain
    assert plain.code == 1
    assert "KeyError: 'backward 3'" in plain.err
    [found] = stage.summary(1).found
    assert (found.failure.phase.value, found.ended_program) == ("run-backward", True)


# Everything that a program may do with an error that it catches, and how it ends then.
CATCHES = """
import logging, sys, threading, traceback
import torch

THE_ERROR = ValueError("no kernel for 3")
RUN_ERROR = KeyError("run 3")

def compiling(gm, inputs):
    raise THE_ERROR

def running(gm, inputs):
    def run(*args):
        raise RUN_ERROR.with_traceback(None)
    return run

def attempt(backend, x):
    return torch.compile(lambda x: x.relu() + 1, backend=backend)(x)

def show(error):
    frames = [f.name for f in traceback.extract_tb(error.__traceback__)]
    print(type(error).__qualname__, error.args[:1] if isinstance(error, KeyError) else "", frames)

x = torch.ones(3)
try:
    attempt(compiling, x)
except Exception as error:
    kept = error
    show(error)
    traceback.print_exc()
    logging.exception("logged")
print(kept.inner_exception is THE_ERROR, kept.__cause__, kept.__suppress_context__)
try:
    attempt(running, x)
except KeyError as error:
    show(error)
    print(error is RUN_ERROR, error.__traceback__.tb_frame.f_code.co_name, error.__context__, error.__cause__)
    traceback.print_exc()
try:
    try:
        attempt(running, x)
    except KeyError as error:
        raise OSError("mine") from error
except OSError:
    traceback.print_exc()
thread = threading.Thread(target=attempt, args=(compiling, x), name="worker")
thread.start()
thread.join()
print(attempt("eager", x).tolist(), x.tolist())
sys.exit(3)
"""


def test_errors_that_the_program_catches(tmp_path: Path) -> None:
    stage = Stage(tmp_path, CATCHES)
    plain, watched = stage.run()
    assert watched.out == plain.out
    assert watched.err == plain.err
    assert watched == plain
    assert plain.code == 3
    assert "True None True" in plain.out
    assert "Exception in thread worker" in plain.err
    summary = stage.summary(3)
    assert [f.failure.kind.value for f in summary.found] == ["compile-error", "runtime-error"]
    assert not any(f.ended_program for f in summary.found)
    assert summary.trouble == ""


CUSTOMIZED = """
import os
from torchsleuth.watch import begin

def broken(*args, **kwargs):
    raise RuntimeError("fault of torchsleuth's own")

def spoil(module, *names):
    for name in names:
        setattr(module, name, broken)

if os.environ["SPOIL"] == "sketch":
    begin.on_import("torchsleuth.watch.capture", lambda m: spoil(m, "sketch"))
else:
    begin.on_import("torchsleuth.watch.capture", lambda m: spoil(m, "clone_mutated", "restored", "case_of"))
    begin.on_import("torchsleuth.watch.surroundings", lambda m: spoil(m, "changed_configs"))
    begin.on_import("torchsleuth.watch.session", lambda m: spoil(m.Outbox, "event", "stage"))
"""


@pytest.mark.parametrize("what", ["sketch", "everything else"])
def test_a_fault_of_our_own_harms_nobody(tmp_path: Path, what: str) -> None:
    stage = Stage(tmp_path, CATCHES)
    (tmp_path / "custom").mkdir()
    (tmp_path / "custom" / "sitecustomize.py").write_text(CUSTOMIZED)
    path = os.pathsep.join([str(tmp_path / "custom"), str(SRC)])
    plain, watched = stage.run(env={"SPOIL": what, "PYTHONPATH": path})
    assert watched == plain
    assert plain.code == 3
    summary = stage.summary(3)
    assert "RuntimeError: fault of torchsleuth's own" in summary.trouble
    if what == "sketch":  # a failure that cannot be kept is still told
        kinds = [f.failure.kind.value for f in summary.found]
        assert kinds == ["compile-error"]
        assert summary.found[0].case is None


def test_standard_input_reaches_the_program_and_os_exit_is_its_own(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        """
        import os, sys, torch
        f = torch.compile(lambda x: x * 2, backend="aot_eager")
        for line in sys.stdin:
            print(f(torch.tensor(float(line))).item(), flush=True)
        sys.stderr.write("no newline at the end")
        sys.stderr.flush()
        os._exit(5)
        """,
    )
    plain, watched = stage.run(typed="1\n2.5\n-3")
    assert watched == plain
    assert (plain.code, plain.out, plain.err) == (5, "2.0\n5.0\n-6.0\n", "no newline at the end")
    summary = stage.summary(5)
    assert (summary.processes, summary.graphs > 0, summary.found) == (1, True, ())


def test_a_signal_to_the_tool_is_the_programs(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        """
        import signal, sys, time, torch

        def leave(*_):
            print("told to go", flush=True)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTERM)

        signal.signal(signal.SIGTERM, leave)
        torch.compile(torch.sin, backend="eager")(torch.ones(2))
        print("ready", flush=True)
        time.sleep(120)
        """,
    )

    def ended(watched: bool) -> Seen:
        process = stage.start(watched, ["program.py"], {})
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        return stage.seen(watched, process.returncode, out, err)

    with ThreadPoolExecutor(2) as pool:
        plain, watched = pool.map(ended, (False, True))
    assert watched == plain
    assert (plain.code, plain.out) == (-signal.SIGTERM, "told to go\n")
    assert stage.summary(-signal.SIGTERM).found == ()


def test_a_pytest_run(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        """
        import torch

        def backend(gm, inputs):
            raise ValueError("no kernel for 3")

        def test_fails():
            torch.compile(torch.sin, backend=backend)(torch.ones(3))

        def test_passes(capsys):
            print(torch.compile(torch.sin, backend="aot_eager")(torch.zeros(1)))
            assert capsys.readouterr().out == "tensor([0.])\\n"
        """,
        "test_it.py",
    )
    plain, watched = stage.run(["-m", "pytest", "-p", "no:cacheprovider", "test_it.py"])

    def timeless(seen: Seen) -> Seen:
        # torch's structured trace, which pytest captures, has an entry for each file on the stack: ours are on it.
        out = re.sub(r"(?m)^DEBUG +torch\.__trace.*\n", "", seen.out)
        # pytest pads the line of its seconds, 9.87 or 10.02, to one width.
        return Seen(
            seen.code,
            re.sub(r"in \d+\.\d+s =+", "in a while", re.sub("=+ 1 failed", "1 failed", out)),
            seen.err,
            seen.left,
        )

    assert timeless(watched) == timeless(plain)
    assert plain.code == 1
    assert "1 failed, 1 passed" in plain.out
    [found] = stage.summary(1).found
    assert found.failure.summary.startswith("BackendCompilerFailed")
