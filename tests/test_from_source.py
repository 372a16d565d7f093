"""A repro from the program's own file, with a judge and a verifier that only read the text."""

from __future__ import annotations

import dataclasses
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from source_by_hand import FAILURE, PROGRAM, ReadingJudge, found, means_of
from torchsleuth.case.failure import Failure, Fingerprint, Kind, Phase
from torchsleuth.case.ir import Source
from torchsleuth.investigate import from_source
from torchsleuth.investigate.investigation import Investigation, Means as ProgramMeans
from torchsleuth.judge.match import Match
from torchsleuth.judge.outcome import Outcome, Verdict
from torchsleuth.judge.verify import Verification
from torchsleuth.locate.ladder import Component
from torchsleuth.locate.named import function_at, line_reading
from torchsleuth.reduce.chance import Chance
from torchsleuth.reduce.source import whole
from torchsleuth.watch.session import Process
from torchsleuth.write.findings import Finding


def reproduced(
    tmp_path: Path,
    judge: ReadingJudge,
    verified: bool = True,
    component: Component = Component.UNKNOWN,
    text: str = PROGRAM,
    failure: Failure = FAILURE,
) -> tuple[Finding, list[int]]:
    runs: list[int] = []

    def verify(script: Path, failure: Failure, count: int, path: Sequence[str], chance: Chance) -> Verification:
        assert not judge.stopped(), "nothing is begun after Ctrl-C"
        runs.append(count)
        return Verification(count, count if verified else 0, Match.PASSED, (), "" if verified else "it passes")

    means = means_of(tmp_path, judge, verify)
    finding = Finding("f1", failure, component, why_not="no graph")
    return from_source.reproduce(finding, found(tmp_path, text=text, failure=failure), means), runs


@pytest.mark.parametrize(
    ("component", "backend"),
    [
        (Component.DYNAMO, "backend='eager'"),
        (Component.AOT, "backend='aot_eager'"),
        (Component.DECOMPOSITION, "backend='aot_eager_decomp_partition'"),
        (Component.INDUCTOR, ""),
    ],
)
def test_what_fails_before_inductor_is_judged_without_it(tmp_path: Path, component: Component, backend: str) -> None:
    program = "import torch\n\ndef bug(x):\n    return x\ntorch.compile(bug)(1)\n"

    class NeedsTheCall(ReadingJudge):
        def fails(self, text: str) -> bool:
            return "torch.compile(bug" in text

    finding, _ = reproduced(tmp_path, NeedsTheCall(), component=component, text=program)
    assert finding.repro is not None
    assert backend in finding.repro.source
    assert ("backend=" in finding.repro.source) is bool(backend)
    assert finding.versions == {"torch": "2.13.0", "python": "3.11"}


WRONG = Failure(Kind.ACCURACY, Phase.RUN_FORWARD, Fingerprint("AssertionError", "not close"))
DROPS = "import torch\n\nmodel = torch.nn.Dropout()\nmodel.eval()\nbug = torch.compile(model)\n"


class Drawing(ReadingJudge):
    """A model that drops looks wrong unless compiled code draws as eager does; `bug` is wrong in any case."""

    def outcome(self, text: str) -> Outcome:
        return Outcome(Verdict.FAILED, WRONG) if self.fails(text) else Outcome(Verdict.PASSED)

    def fails(self, text: str) -> bool:
        by_chance = "Dropout" in text and "eval" not in text and "fallback_random" not in text
        return by_chance or ("bug" in text and "Dropout" in text)


def test_dropout_is_no_bug_by_itself(tmp_path: Path) -> None:
    finding, _ = reproduced(tmp_path, Drawing(), component=Component.INDUCTOR, text=DROPS, failure=WRONG)
    assert finding.repro is not None
    assert "bug" in finding.repro.source
    assert "torch._inductor.config.fallback_random = True" in finding.repro.source
    assert "eval" not in finding.repro.source


def test_what_runs_eagers_kernels_draws_as_eager_does_anyway(tmp_path: Path) -> None:
    class NotAsked(Drawing):
        def fails(self, text: str) -> bool:
            assert "fallback_random" not in text
            return "bug" in text

    finding, _ = reproduced(tmp_path, NotAsked(), component=Component.AOT, text=DROPS, failure=WRONG)
    assert finding.repro is not None


def test_the_file_is_verified_first_and_then_what_is_left_of_it(tmp_path: Path) -> None:
    finding, runs = reproduced(tmp_path, ReadingJudge())
    assert finding.repro is not None
    assert (finding.repro.form, finding.repro.runs, finding.why_not, runs) == ("frame", 3, "", [1, 3])
    assert (finding.repro.ops, finding.culprit.op) == (1, "torch.sin")
    assert finding.culprit.source is not None
    assert (finding.culprit.source.line, finding.culprit.source.code) == (4, "other = 2")
    text = (tmp_path / "out" / "repro.py").read_text()
    assert "bug" in text
    assert "unused" not in text


def test_ctrl_c_leaves_the_whole_file_verified_and_in_place(tmp_path: Path) -> None:
    finding, runs = reproduced(tmp_path, ReadingJudge(stop_after=2))
    assert finding.repro is not None
    assert (finding.repro.verified, runs) == (True, [1])
    assert "unused = 1" in (tmp_path / "out" / "repro.py").read_text()


def test_what_is_not_verified_is_not_put_in_place(tmp_path: Path) -> None:
    finding, _ = reproduced(tmp_path, ReadingJudge(), verified=False)
    assert (finding.repro, finding.why_not) == (None, "no graph")
    assert not (tmp_path / "out").exists()


def test_arguments_are_given_to_the_script(tmp_path: Path) -> None:
    text = "from __future__ import annotations\nimport sys\nprint(sys.argv)\n"
    made = whole.text_of(found(tmp_path, "--epochs", "1", text=text).process)
    assert made is not None
    assert made.startswith("from __future__ import annotations\nimport sys\nsys.argv[1:] = ['--epochs', '1']\n")
    compile(made, "repro.py", "exec")


def test_a_program_that_torchrun_started_is_given_a_world_of_its_own(tmp_path: Path) -> None:
    text = '"""A docstring."""\nfrom __future__ import annotations, division  # first\nimport torch\n'
    process = found(tmp_path, text=text).process
    launched = dataclasses.replace(process, hello={**process.hello, "rank": "1"})
    made = str(whole.text_of(launched))
    assert 'RANK="0"' in made
    compile(made, "repro.py", "exec")
    assert "RANK" not in str(whole.text_of(process))


@pytest.mark.parametrize("argv", [["python", "-m", "pytest"], ["python", "-c", "x"], ["python", "gone.py"], []])
def test_what_is_no_single_file_is_left_alone(argv: list[str], tmp_path: Path) -> None:
    assert whole.text_of(Process(tmp_path, {"argv": argv, "cwd": str(tmp_path)})) is None


def test_what_a_script_needs_besides_torch_is_said() -> None:
    assert whole.imported("import os, numpy as np\nfrom torch import nn\nfrom . import x\n") == ("numpy", "torch")


@pytest.mark.parametrize("text", ["import torch\ntorch.ones(2).numpy()\n", "import torch\nf = torch.from_numpy\n"])
def test_what_calls_numpy_through_torch_needs_it(text: str) -> None:
    assert whole.imported(text) == ("numpy", "torch")


def test_a_line_is_found_by_how_it_reads(tmp_path: Path) -> None:
    file = tmp_path / "x.py"
    file.write_text("a = f( 'x' )\nb = 1\nb = 1\n    c = g(a)  # why\n")
    first, last = line_reading('a = f("x")', file), line_reading("c = g(a)", file)
    assert first is not None
    assert last is not None
    assert (first.line, last.line) == (1, 4)
    assert line_reading("b = 1", file) is None
    assert line_reading("", file) is None
    assert line_reading("a", tmp_path / "gone.py") is None


def test_the_function_that_was_compiled_stands_for_a_line_that_is_not_known() -> None:
    assert function_at("/a b/x.py:12 in f") == Source("/a b/x.py", 12, "f")
    assert function_at("") is None


def test_ctrl_c_also_ends_the_script_whose_graphs_are_counted(tmp_path: Path) -> None:
    began = tmp_path / "began"
    script = tmp_path / "forever.py"
    script.write_text(f"open({str(began)!r}, 'w').close()\nwhile True: pass\n")
    with Investigation(ProgramMeans(sys.executable, {}, (), 1, 30.0), tmp_path, lambda _: None) as work:
        counting = threading.Thread(target=work._largest_graph, args=(script, 600.0))
        counting.start()
        while not began.exists():
            time.sleep(0.01)
        work.cancel()
        counting.join(60)
        assert not counting.is_alive()


def test_the_programs_own_modules_stand_in_the_script(tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text("import torch\n\ndef bug(x):\n    return x\n")
    text = "from parts import bug\nother = 2\nprint(bug(1))\n"

    class NeedsTheFunction(ReadingJudge):
        def fails(self, text: str) -> bool:
            return "def bug" in text and "from parts" not in text

    finding, _ = reproduced(tmp_path, NeedsTheFunction(), text=text)
    assert finding.repro is not None
    assert "def bug" in finding.repro.source
    assert finding.repro.imports == ("torch",)


def test_its_own_modules_are_imported_where_the_joined_script_does_not_fail(tmp_path: Path) -> None:
    class NeedsTheImport(ReadingJudge):
        def fails(self, text: str) -> bool:
            return "from parts import bug" in text

    (tmp_path / "parts.py").write_text("import torch\n\ndef bug(x):\n    return x\n")
    finding, _ = reproduced(tmp_path, NeedsTheImport(), text="import torch\nfrom parts import bug\nprint(bug(1))\n")
    assert finding.repro is not None
    assert "parts" in finding.repro.imports
