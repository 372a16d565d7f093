"""The audit edits a repro's text, without knowing the reducer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

import audit

from torchsleuth.case.failure import Phase, of_exception
from torchsleuth.judge import Outcome, Trial, Verdict

SCRIPT = '''"""What fails."""
import torch
import torch._inductor.config

torch._inductor.config.freezing = True

def f(x, y):
    a = torch.add(x, y, alpha=2)
    b = torch.relu(a)
    return (b,)

x = torch.randn(4, 1)
y = torch.randn(4, 6, dtype=torch.float64)
with torch.no_grad():
    torch.compile(f)(x, y)
'''


def done(source: str = SCRIPT) -> dict[str, str]:
    return dict(audit.edits(source))


def test_each_statement_is_left_out_and_its_operand_read_instead():
    found = done()
    assert "b = torch.relu(x)" in found["`a = torch.add(x, y, alpha=2)` replaced by x"]
    assert "b = torch.relu(y)" in found["`a = torch.add(x, y, alpha=2)` replaced by y"]
    assert "return (a,)" in found["`b = torch.relu(a)` replaced by a"]


def test_what_a_function_returns_is_replaced_by_its_operands_too():
    source = SCRIPT.replace("    b = torch.relu(a)\n    return (b,)\n", "    return torch.relu(a)\n")
    assert "return a\n" in done(source)["`return torch.relu(a)` replaced by a"]


def test_what_stands_there_on_purpose_is_left_alone():
    source = """import torch

def f(p, x):
    cond = torch.cond(p, torch.sin, torch.cos, (x,))
    return cond[0]

p = torch.ones((), dtype=torch.bool)
torch.compile(f)(p, torch.randn(2))
"""
    assert not [what for what in done(source) if "cond[0]" in what or "dtype" in what]


def test_each_size_is_halved():
    sizes = [text for what, text in done().items() if "halved" in what]
    assert len(sizes) == 3
    assert any("torch.randn(2, 6, dtype=torch.float64)" in text for text in sizes)
    assert any("torch.randn(4, 3, dtype=torch.float64)" in text for text in sizes)


def test_each_keyword_config_and_context_is_dropped():
    found = done()
    assert "torch.add(x, y)" in next(text for what, text in found.items() if what.endswith("without alpha=2"))
    assert "torch.randn(4, 6)" in next(text for what, text in found.items() if "dtype" in what)
    assert "freezing" not in found["without `torch._inductor.config.freezing = True`"]
    assert "no_grad" not in found["without `with torch.no_grad():`"]


def test_what_stands_there_on_purpose_is_not_tried():
    script = """
def f(x):
    torch.manual_seed(0)
    both = torch.cummin(x, 0)
    first = both[0]
    part = x[0]
    part.add_(1)
    return (first, part)
torch.testing.assert_close(torch.compile(f, backend="aot_eager")(x), f(x), equal_nan=True, rtol=1)
"""
    found = done(script)
    assert list(found) == [
        "`both = torch.cummin(x, 0)` replaced by x",
        "`part = x[0]` replaced by x",
        "without `part.add_(1)`",
        "line 9: without rtol=1",
    ]


def test_every_edit_is_a_program():
    for text in done().values():
        compile(text, "repro.py", "exec")
        assert text != SCRIPT


# It fails "under compilation" where the variable is not set: what must stay is `needed` and a size of 4 or more.
FAILS = """
import os
needed = 1
def f(x):
    extra = abs(x)
    left = -extra
    return left
class torch:
    randn = staticmethod(lambda n: n)
x = torch.randn({size})
f(x)
if os.environ.get("TORCH_COMPILE_DISABLE") != "1" and needed and x >= 4:
    raise ValueError("the bug")
"""


class ToyJudge:
    """Runs a script in this process, with compilation "off" and then "on"."""

    def judge(self, trial: Trial) -> Outcome:
        with pytest.MonkeyPatch.context() as patch:
            for off, verdict in (("1", Verdict.INVALID), ("0", Verdict.FAILED)):
                patch.setenv("TORCH_COMPILE_DISABLE", off)
                try:
                    exec(compile(trial.source, "repro.py", "exec"), {})
                except Exception as error:
                    return Outcome(verdict, of_exception(error, Phase.RUN_FORWARD, dynamo=False))
        return Outcome(Verdict.PASSED)


def test_what_could_go_is_listed_and_what_must_stay_is_not(tmp_path):
    script = tmp_path / "repro.py"
    script.write_text(FAILS.format(size=8))
    found = audit.audit(script, ToyJudge())
    assert "`extra = abs(x)` replaced by x" in found
    assert any("size 8 halved" in line for line in found)
    script.write_text(FAILS.format(size=4))
    assert not any("halved" in line for line in audit.audit(script, ToyJudge()))


def test_a_script_that_passes_is_said_to_pass(tmp_path):
    script = tmp_path / "repro.py"
    script.write_text("x = 1\n")
    assert audit.audit(script, ToyJudge()) == ["the script does not fail"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("Traceback\nValueError: size 12", ("ValueError", "size 0")),
        ("CppCompileError: x\nfile.cpp:3:4: error: no tmp12\nmore", ("CppCompileError", "no tmp0")),
    ],
)
def test_numbers_do_not_make_another_failure(text, error):
    assert audit._last_error(text) == error
