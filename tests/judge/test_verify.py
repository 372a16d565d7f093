"""Verification: fresh interpreters that cannot import torchsleuth.  A toy `torch` keeps most of these fast."""

from __future__ import annotations

import importlib
import os
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest
from judge_helpers import alive, processes_with

from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase, of_hang, of_signal
from torchsleuth.judge import Verdict, Verification, limits, probed, verify
from torchsleuth.judge.environment import home
from torchsleuth.judge.guarded import Guarded
from torchsleuth.judge.launch import Launch
from torchsleuth.judge.match import Match

WANT = Failure(Kind.RUNTIME_ERROR, Phase.RUN_FORWARD, Fingerprint("ValueError", "size N"))
TOY_TORCH = """
import os
DISABLED = os.environ.get("TORCH_COMPILE_DISABLE") == "1"
class compiler:
    @staticmethod
    def set_stance(stance): assert DISABLED and stance == "force_eager"
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "here" / "repro.py"


@pytest.fixture
def toy(tmp_path: Path) -> dict[str, str]:
    """An environment whose `torch` is a few lines of Python."""
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "torch.py").write_text(TOY_TORCH)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "toy"), str(home())])}


def check(
    script: Path, source: str, env: dict[str, str], want: Failure = WANT, *, runs: int = 2, **options: object
) -> Verification:
    script.parent.mkdir(exist_ok=True)
    script.write_text(textwrap.dedent(source))
    options = {"deadline": 30.0, **options}
    return verify(script, want, python=sys.executable, environment=env, runs=runs, **options)  # type: ignore[arg-type]


FAILS = "import torch\nif not torch.DISABLED: raise ValueError('size 3')\n"


def test_a_repro_that_fails_each_time_and_not_in_eager_is_verified(script: Path, toy: dict[str, str]) -> None:
    found = check(script, FAILS, toy, runs=3)
    assert (found.runs, found.failed_runs, found.eager_passes, found.reason) == (3, 3, True, "")
    assert found.verified
    assert [outcome.verdict for outcome in found.outcomes] == [Verdict.FAILED] * 3


@pytest.mark.parametrize(("runs", "jobs", "divided"), [(3, 2, 2), (1, 4, 2)])  # one run more is in eager
def test_runs_at_once_share_the_memory_that_is_free(
    script: Path, toy: dict[str, str], monkeypatch: pytest.MonkeyPatch, runs: int, jobs: int, divided: int
) -> None:
    launched: list[Launch] = []

    def guarded(launch: Launch) -> Guarded:
        launched.append(launch)
        return Guarded(launch)

    # The package has a function of the module's name.
    monkeypatch.setattr(importlib.import_module("torchsleuth.judge.verify"), "Guarded", guarded)
    monkeypatch.setattr(limits, "available_memory", lambda: 10 << 30)
    assert check(script, FAILS, toy, runs=runs, jobs=jobs).verified
    assert [launch.limits and launch.limits.memory for launch in launched] == [(8 << 30) // divided] * (runs + 1)


def test_a_repro_that_fails_in_eager_too_is_not(script: Path, toy: dict[str, str]) -> None:
    found = check(script, "import torch\nraise ValueError('size 3')\n", toy)
    assert (found.failed_runs, found.eager_passes) == (2, False)
    assert not found.verified
    assert found.reason == "it also fails with compilation off: ValueError: size N"


def test_eager_need_not_be_looked_at(script: Path, toy: dict[str, str]) -> None:
    found = check(script, "import torch\nraise ValueError('size 3')\n", toy, check_eager=False)
    assert found.eager_passes is None
    assert found.verified


def test_eager_that_runs_out_of_time_is_not_said_to_fail(script: Path, toy: dict[str, str]) -> None:
    slow = "import time, torch\nif torch.DISABLED: time.sleep(60)\nraise ValueError('size 3')\n"
    found = check(script, slow, toy, runs=1, deadline=2.0)
    assert found.eager is Match.UNKNOWN
    assert found.eager_passes is None
    assert not found.verified
    assert found.reason.startswith("whether it passes with compilation off is not known: ")


def test_another_error_is_not_the_wanted_one(script: Path, toy: dict[str, str]) -> None:
    found = check(script, FAILS.replace("ValueError", "KeyError"), toy)
    assert found.failed_runs == 0
    assert not found.verified
    assert found.reason.startswith("it failed in another way: KeyError")


def test_a_repro_that_passes_is_not_verified(script: Path, toy: dict[str, str]) -> None:
    found = check(script, "import torch\n", toy)
    assert not found.verified
    assert found.reason == "it ran to its end without failing"


def test_a_repro_that_fails_only_at_times_is_not_verified(script: Path, toy: dict[str, str], tmp_path: Path) -> None:
    once = tmp_path / "once"
    found = check(
        script,
        f"""
        import os, torch
        if not torch.DISABLED:
            try: os.mkdir({str(once)!r})
            except FileExistsError: raise SystemExit(0)
            raise ValueError("size 3")
        """,
        toy,
    )
    assert (found.runs, found.failed_runs) == (2, 1)
    assert not found.verified


def test_no_runs_prove_nothing() -> None:
    assert not Verification(0, 0, Match.PASSED, ()).verified
    assert Verification(1, 1, None, ()).verified
    assert not Verification(2, 1, Match.PASSED, ()).verified


def test_torchsleuth_cannot_be_imported_there(script: Path, toy: dict[str, str]) -> None:
    want = replace(WANT, fingerprint=Fingerprint("LookupError", "none"))
    found = check(
        script,
        """
        import torch
        for name in ("torchsleuth", "torchsleuth.judge", "torchsleuth_autoload"):
            try: __import__(name)
            except ModuleNotFoundError as error: assert "blocked" in str(error) and error.name == name.split(".")[0]
            else: raise AssertionError(name)
        if not torch.DISABLED: raise LookupError("none")
        """,
        toy,
        want,
    )
    assert found.verified, found


def test_what_is_known_of_the_processor_is_in_its_caches(
    script: Path, toy: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = tmp_path / "known" / "ab"
    known.mkdir(parents=True)
    for name in ("abc.cpp", "abc.so"):
        (known / name).write_text(name)
        os.utime(known / name, (0, 0))
    known.parent.chmod(0o700)
    monkeypatch.setattr(probed, "_folder", lambda: known.parent)
    found = check(
        script,
        """
        import os, torch
        cache = os.environ["TORCHINDUCTOR_CACHE_DIR"]
        assert torch.DISABLED or sorted(os.listdir(os.path.join(cache, "ab"))) == ["abc.cpp", "abc.so"]
        if not torch.DISABLED: raise ValueError("size 3")
        """,
        toy,
    )
    assert found.verified, found


def test_it_runs_a_copy_with_its_data_in_a_folder_of_its_own(
    script: Path, toy: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probed, "_folder", lambda: tmp_path / "nothing")
    script.parent.mkdir()
    (script.parent / "repro_data.pt").write_text("data")
    (script.parent / "other.txt").write_text("other")
    seen = tmp_path / "seen"
    seen.mkdir()
    found = check(
        script,
        f"""
        import os, sys, torch
        assert os.path.dirname(__file__) == os.getcwd() != {str(script.parent)!r}
        assert sorted(os.listdir()) == ["repro.py", "repro_data.pt"], os.listdir()
        assert __name__ == "__main__" and sys.argv == [__file__]
        cache = os.environ["TORCHINDUCTOR_CACHE_DIR"]
        assert not os.path.exists(cache)
        open(os.path.join({str(seen)!r}, cache.replace("/", "_")), "w").close()
        if not torch.DISABLED: raise ValueError("size 3")
        """,
        toy,
    )
    assert found.verified, found
    assert len(list(seen.iterdir())) == 3  # two runs and eager, each with its own
    assert not [name for name in seen.iterdir() if Path(name.name.replace("_", "/")).exists()]


def test_its_environment_is_a_judges(script: Path, toy: dict[str, str]) -> None:
    env = {**toy, "TORCH_LOGS": "+dynamo", "TORCHSLEUTH_WATCH": "/tmp/x", "TORCHINDUCTOR_FREEZING": "1"}
    found = check(
        script,
        """
        import os, torch
        assert not {"TORCH_LOGS", "TORCHSLEUTH_WATCH"} & set(os.environ)
        assert os.environ["TORCHINDUCTOR_FREEZING"] == "1"
        assert os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] == "0"
        if not torch.DISABLED: raise ValueError("size 3")
        """,
        env,
    )
    assert found.verified, found


def test_a_crash_is_verified_by_its_signal(script: Path, toy: dict[str, str]) -> None:
    crash = "import os, torch\nif not torch.DISABLED: os.abort()\n"
    assert check(script, crash, toy, of_signal(6, Phase.RUN_FORWARD)).verified
    other = check(script, crash, toy, of_signal(11, Phase.RUN_FORWARD))
    assert (other.failed_runs, other.reason) == (0, "it failed in another way: SIGABRT")


def test_a_hang_that_stops_itself_is_verified(script: Path, toy: dict[str, str]) -> None:
    hang = """
    import faulthandler, signal, time, torch
    faulthandler.register(signal.SIGALRM, all_threads=False, chain=True)
    signal.alarm(1)
    if not torch.DISABLED: time.sleep(600)
    """
    assert check(script, hang, toy, of_hang(Phase.RUN_FORWARD)).verified


def test_a_hang_is_verified_by_the_deadline(script: Path, toy: dict[str, str]) -> None:
    began = time.monotonic()
    hang = "import subprocess, time, torch\nif not torch.DISABLED: subprocess.run(['sleep', '76541'])\n"
    found = check(script, hang, toy, of_hang(Phase.RUN_FORWARD), deadline=1.5)
    assert found.verified, found
    assert time.monotonic() - began < 15
    assert processes_with("sleep 76541") == []


def test_a_plain_failing_exit_is_no_hang(script: Path, toy: dict[str, str]) -> None:
    found = check(script, "import sys, torch\nsys.exit(torch.DISABLED or 3)\n", toy, of_hang(Phase.RUN_FORWARD))
    assert found.failed_runs == 0
    assert {outcome.reason for outcome in found.outcomes} == {"exit 3"}


def test_a_script_that_exits_well_passes(script: Path, toy: dict[str, str]) -> None:
    found = check(script, "import sys, torch\nsys.exit(0)\n", toy)
    assert {outcome.verdict for outcome in found.outcomes} == {Verdict.PASSED}
    assert found.eager_passes is True


def test_an_interpreter_that_does_not_start_verifies_nothing(script: Path, toy: dict[str, str]) -> None:
    script.parent.mkdir()
    script.write_text(FAILS)
    found = verify(script, WANT, python="/no/such/python", environment=toy, runs=1, deadline=10.0)
    assert not found.verified
    assert found.outcomes[0].verdict is Verdict.UNKNOWN
    assert "/no/such/python" in found.outcomes[0].output


def test_runs_go_at_most_jobs_at_once(script: Path, toy: dict[str, str], tmp_path: Path) -> None:
    """Each run counts who is inside with it."""
    inside = tmp_path / "inside"
    inside.mkdir()
    found = check(
        script,
        f"""
        import os, time, torch
        mine = os.path.join({str(inside)!r}, str(os.getpid()))
        open(mine, "w").close()
        time.sleep(0.5)
        most = len(os.listdir({str(inside)!r}))
        os.unlink(mine)
        if not torch.DISABLED: raise ValueError("size 3" if most <= 2 else "crowded")
        """,
        toy,
        runs=5,
        jobs=2,
    )
    assert found.verified, found.reason


@pytest.mark.slow
def test_a_real_compile_error_is_verified(script: Path) -> None:
    source = """
    import torch
    import torch._inductor.config
    torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"
    torch.compile(torch.relu, fullgraph=True)(torch.randn(3))
    """
    message = "C++ compile error: ‘compile’ was not declared in this scope"  # noqa: RUF001
    want = Failure(
        Kind.COMPILE_ERROR, Phase.COMPILE_FORWARD, Fingerprint("torch._inductor.exc.CppCompileError", message)
    )
    found = check(script, source, dict(os.environ), want, deadline=120.0)
    assert found.verified, found.reason


NOW_AND_THEN = """
import os, torch
if not torch.DISABLED:
    place = os.path.join(os.environ["COUNTS"], str(os.getpid()))
    open(place, "w").close()
    if len(os.listdir(os.environ["COUNTS"])) % 3 == 1:
        raise ValueError("size 3")
"""


def test_what_fails_now_and_then_is_undecided_and_verified_only_as_such(
    script: Path, toy: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "counts").mkdir()
    toy["COUNTS"] = str(tmp_path / "counts")
    certain = check(script, NOW_AND_THEN, toy, runs=3, jobs=1)
    assert (certain.failed_runs, certain.runs) == (1, 3)
    assert not certain.verified
    assert certain.undecided
    flaky = check(script, NOW_AND_THEN, toy, runs=6, jobs=1, flaky=True)
    assert (flaky.failed_runs, flaky.runs) == (2, 6)
    assert flaky.verified


def test_a_flaky_repro_that_ever_fails_in_eager_is_not_verified(
    script: Path, toy: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "counts").mkdir()
    toy["COUNTS"] = str(tmp_path / "counts")
    source = NOW_AND_THEN.replace("not torch.DISABLED", "True")
    found = check(script, source, toy, runs=3, jobs=1, flaky=True)
    assert not found.verified
    assert "with compilation off" in found.reason


def test_a_flaky_repro_that_never_failed_is_not_verified(script: Path, toy: dict[str, str]) -> None:
    found = check(script, "import torch", toy, runs=2, flaky=True)
    assert not found.verified
    assert found.reason == "it ran to its end without failing"


def test_when_told_to_stop_it_ends_what_runs_and_begins_nothing(
    script: Path, toy: dict[str, str], tmp_path: Path
) -> None:
    began = tmp_path / "began"
    source = f"import time, os\nopen({str(began)!r}, 'a').write(f'{{os.getpid()}} ')\ntime.sleep(600)"
    found = check(script, source, toy, runs=5, jobs=1, stopped=lambda: began.exists() and began.read_text() != "")
    assert not found.verified
    assert {outcome.reason for outcome in found.outcomes} == {"the run was cut short"}
    [pid] = began.read_text().split()
    assert not alive(int(pid))
