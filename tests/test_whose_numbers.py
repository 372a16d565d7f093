"""Whose fault it is that a program fails and no compiler did, by what its reruns say; the reruns are made up."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from command_line import RunCli, torch_script
from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase, wrong_numbers as failure_of
from torchsleuth.commands import one_by_one
from torchsleuth.investigate import wrong_numbers
from torchsleuth.watch.found import Found, Summary, died
from torchsleuth.watch.launcher import Ended
from torchsleuth.watch.session import Process
from torchsleuth.write.findings import Finding

_DECOMPOSED = "aot_eager_decomp_partition"
_BELOW = {"eager": True, "aot_eager": True, _DECOMPOSED: True}


@dataclass
class Reruns:
    """What each rerun says."""

    numbers: Summary
    kinds: Summary
    fails: bool | None  # with compilation off
    passes: Mapping[str, bool | None]  # by backend, or "alone", "uncached", "casts"; None: it did not end
    strides: Summary

    def with_numbers(self, wanted: str) -> Summary:
        return {"kinds": self.kinds, "strides": self.strides}.get(wanted, self.numbers)

    def fails_in_eager(self) -> bool | None:
        return self.fails

    def passes_with_graphs_on(self, backend: str) -> bool | None:
        return self.passes[backend]

    def passes_rounding_alike(self) -> bool | None:
        return self.passes["casts"]

    def passes_alone(self, *, cached: bool = True) -> bool | None:
        return self.passes["alone" if cached else "uncached"]


def looked(
    tmp_path: Path,
    *,
    wrong: bool = False,
    compared: int = 1,
    kinds: bool = False,
    excused: bool = False,
    fails: bool | None = False,
    strides: str = "",
    **passes: bool | None,
) -> wrong_numbers.Looked:
    process = Process(tmp_path, {})
    first = Summary(1, 1, (), reference=process, exit_code=1)
    found = Found(failure_of("values", Phase.RUN_FORWARD, "", "out is wrong"), None, process)
    numbers = replace(
        first, found=(found,) if wrong else (), exit_code=compared, excused=("out[0]: rounding",) if excused else (),
        strides=bool(strides),
    )  # fmt: skip
    kept = replace(first, found=(found,) if strides == "kept" else ())
    again: Any = Reruns(numbers, replace(first, found=(found,) if kinds else ()), fails, passes, kept)
    return wrong_numbers.look(first, again, lambda _: None)


@pytest.mark.parametrize(
    ("said", "blamed", "note"),
    [
        ({"wrong": True}, "", "compared with eager"),
        ({"fails": True}, None, "fails with compilation off, too"),
        ({"compared": 0, "alone": True}, None, "fallback_random"),
        ({"compared": 0, "alone": None}, None, "fallback_random"),
        ({"compared": 0, "alone": False, "eager": False}, "dynamo", "comparing hides it"),
        ({"compared": 0, "alone": False, **_BELOW, "uncached": False}, "inductor", "Inductor is to blame"),
        ({"compared": 0, "alone": False, **_BELOW, "uncached": True}, "inductor", "caches of compiled graphs"),
        ({"compared": 0, "alone": False, "excused": True, **_BELOW, "uncached": True}, "inductor", "caches of"),
        ({"compared": 0, "kinds": True}, "", "compared with eager"),
        ({"eager": False}, "dynamo", "Dynamo is to blame"),
        ({"eager": True, "aot_eager": False}, "aot", "AOTAutograd is to blame"),
        ({"eager": True, "aot_eager": True, _DECOMPOSED: False}, "decomposition", "a decomposition is to blame"),
        ({"eager": True, "aot_eager": True, _DECOMPOSED: True}, "inductor", "Inductor is to blame"),
        ({**_BELOW, "excused": True, "sleuth_nudged": False}, None, "a few units in the last place"),
        ({**_BELOW, "excused": True, "sleuth_nudged": None}, None, "is not wrong"),
        ({**_BELOW, "excused": True, "sleuth_nudged": True, "casts": True}, None, "emulate_precision_casts"),
        ({**_BELOW, "excused": True, "aot_eager": False}, "aot", "AOTAutograd is to blame"),
        # It is no matter of rounding, although there is some.
        ({**_BELOW, "excused": True, "sleuth_nudged": True, "casts": False}, "inductor", "Inductor is to blame"),
        ({**_BELOW, "strides": "kept"}, "", "(the strides) of a result"),
        ({**_BELOW, "strides": "not kept"}, "inductor", "Inductor is to blame"),
        ({"eager": False, "strides": "kept"}, "dynamo", "Dynamo is to blame"),
        ({"fails": True, "strides": "kept"}, None, "fails with compilation off, too"),
        # A rerun that Ctrl-C or its time limit ended blames nobody.
        ({"fails": None}, None, "with compilation off, the program was not seen to end"),
        ({"fails": None, "compared": 0}, None, "with compilation off, the program was not seen to end"),
        ({"eager": None}, None, "not seen to end"),
        ({"eager": True, "aot_eager": None}, None, "not seen to end"),
    ],
)
def test_whose_fault_it_is(tmp_path: Path, said: dict[str, Any], blamed: str | None, note: str) -> None:
    """A component of "" is left to the ladder: there is a wrong graph to climb it with."""
    found = looked(tmp_path, **said)
    assert [f.component for f in found.summary.found] == ([] if blamed is None else [blamed])
    assert any(note in one for one in found.notes)
    if said.get("fails", False) is not False:
        assert not any("passes" in one for one in found.notes)


@pytest.mark.parametrize(
    ("code", "itself"), [(-6, True), (-11, True), (-9, False), (-15, False), (-2, False), (1, False)]
)
def test_a_program_that_dies_by_what_it_did_itself(code: int, itself: bool) -> None:
    assert died(code) is itself


@pytest.mark.parametrize(("exit_code", "tried"), [(1, True), (-11, False), (0, False)])
def test_a_program_that_died_only_when_it_was_compared_is_looked_at_as_it_fails(
    tmp_path: Path, exit_code: int, tried: bool
) -> None:
    crash = Failure(Kind.CRASH, Phase.RUN_FORWARD, Fingerprint("SIGSEGV"))
    found = Found(crash, None, Process(tmp_path, {}))
    assert one_by_one.died_only_when_compared(found, Ended(exit_code, 1.0)) is tried


@pytest.mark.parametrize(
    ("fails", "blamed", "note"),
    [
        (False, "dynamo", "the program passes with compilation off; it dies before"),
        (True, None, "it dies with compilation off, too"),
        (None, "", "with compilation off, the program was not seen to end"),
    ],
)
def test_a_program_that_dies_before_there_is_a_graph(
    tmp_path: Path, fails: bool | None, blamed: str | None, note: str
) -> None:
    """A component of "" is nobody: it is a death all the same, and its own file may prove more."""
    summary = Summary(1, 0, (), reference=Process(tmp_path, {}), exit_code=-11)
    again: Any = Reruns(summary, summary, fails, {}, summary)
    looked = wrong_numbers.died_before_graphs(summary, 11, again, lambda _: None)
    assert note in looked.notes[0]
    if blamed is None:
        assert not looked.summary.found
    else:
        (found,) = looked.summary.found
        assert (found.component, found.failure.fingerprint.error) == (blamed, "SIGSEGV")


@pytest.mark.slow
def test_a_stack_that_tracing_overflows_is_told_as_such(run_cli: RunCli, tmp_path: Path) -> None:
    script = torch_script(
        tmp_path,
        """
        import sys, threading
        sys.setrecursionlimit(100_000)

        def deep(x, n):
            return x if n == 0 else deep(x, n - 1) + 1

        threading.stack_size(256 * 1024)
        for function in (deep, torch.compile(deep)):
            thread = threading.Thread(target=function, args=(torch.ones(2), 150))
            thread.start()
            thread.join()
        """,
    )
    ended = run_cli("run", "--no-minimize", "--out", tmp_path / "out", sys.executable, script)
    (found,) = json.loads((tmp_path / "out" / "result.json").read_text())["failures"]
    assert (found["kind"], found["component"]) == ("crash", "dynamo"), ended.stderr
    assert found["repro"]["verified"]


@pytest.mark.parametrize("helps", [True, False, None])
def test_what_an_error_advises_is_a_workaround_only_where_it_was_seen_to_help(helps: bool | None) -> None:
    asked: list[Mapping[str, bool | int]] = []

    class Advised:
        def passes_with(self, settings: Mapping[str, bool | int]) -> bool | None:
            asked.append(settings)
            return helps

    text = "RuntimeError: or set torch._functorch.config.donated_buffer=False to disable"
    failure = Failure(Kind.RUNTIME_ERROR, Phase.RUN_BACKWARD, Fingerprint("RuntimeError"), text)
    again: Any = Advised()
    finding = one_by_one.as_advised(Finding("f1", failure), again, lambda _: None)
    assert asked == [{"torch._functorch.config.donated_buffer": False}]
    wanted = "import torch._functorch.config\ntorch._functorch.config.donated_buffer = False"
    assert finding.workaround == (wanted if helps else None)
