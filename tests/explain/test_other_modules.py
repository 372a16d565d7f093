"""Modules that are compiled separately and share a function: the first compilation of each is no recompilation."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from traces import TORCHS_OWN, artifact, beginning, ended, explained, graph, started

from command_line import environment_without_torch_settings, explain_command, torch_script
from torchsleuth.explain.compiles import Compile, module_guarded
from torchsleuth.explain.guard_failures import parse_reason
from torchsleuth.explain.owners import Owners
from torchsleuth.explain.recompiles import Again, find_again
from torchsleuth.watch.module_numbers import Modules

GUARDS = "+- GuardManager\n| +- TYPE_MATCH: ___check_type_id(L['fn'], 942), type=<class 'torch.nn.Sequential'>"


def of_net(number: int, instance: int, *reasons: str) -> Compile:
    return Compile(
        "7", f"0/{number}", name="forward", file="train.py", line=9, started=True, ended=True, compiled=True,
        reasons=reasons, module_class="train.Net", module_name="self", instance=instance,
    )  # fmt: skip


def again(*compiles: Compile) -> Again:
    return find_again(compiles, Owners(compiles))


def test_the_first_compilation_of_another_module() -> None:
    found = again(of_net(0, 1), of_net(1, 2, "0/0: self.n == 1"), of_net(2, 3, "0/1: self.n == 2", "0/0: self.n == 1"))
    assert found.recompiles == ()
    (other,) = found.others
    assert (other.count, other.instances, other.causes[0], other.values) == (2, 3, "self.n == 1", ("1", "2"))
    assert "recompile_limit" in other.advice
    assert "allow_unspec_int_on_nn_module" in other.advice


def test_a_module_that_was_changed_is_compiled_again() -> None:
    found = again(of_net(0, 1), of_net(1, 1, "0/0: self.n == 1"))
    assert ([r.count for r in found.recompiles], found.others) == ([1], ())


def test_an_argument_that_differs_is_a_recompilation_whatever_the_module() -> None:
    found = again(of_net(0, 1), of_net(1, 2, "0/0: tensor 'x' size mismatch at index 0. expected 3, actual 5"))
    assert ([r.count for r in found.recompiles], found.others) == ([1], ())


def test_a_second_recompilation_of_the_second_module() -> None:
    found = again(of_net(0, 1), of_net(1, 2, "0/0: self.n == 1"), of_net(2, 2, "0/1: self.n == 2", "0/0: self.n == 1"))
    assert ([r.count for r in found.recompiles], [o.count for o in found.others]) == ([1], [1])


def test_modules_of_torchs_own_in_a_trace_alone(tmp_path: Path) -> None:
    """The trace holds the class and nothing that tells two modules apart: that is said."""
    parts = [
        started(f"0/{n}", "inner", 67, file=TORCHS_OWN) + graph(f"0/{n}", "torch.relu(x)") + line + ended(f"0/{n}")
        for n, line in (
            (0, artifact("0/0", "x", "y") + artifact("0/0", "dynamo_cpp_guards_str", GUARDS)),
            (1, artifact("0/1", "dynamo_cpp_guards_str", GUARDS)),
        )
    ]
    reason = artifact("0/1", "recompile_reasons", "0/0: len(fn._modules) != 2")
    found = explained(tmp_path, beginning(), parts[0], reason, parts[1])
    assert found.recompiles == ()
    assert [(f.place.function, f.place.line) for f in found.frames] == [("Sequential", 40)]  # the user's line
    (other,) = found.others
    assert (other.module_class, other.instances) == ("torch.nn.Sequential", None)
    assert "The trace does not tell which." in other.advice


@pytest.mark.parametrize(
    ("text", "guard", "values", "hint"),
    [
        ("0/0: self.n == 1   # return x  # train.py:5 in forward (HINT: make it dynamic)", "self.n == 1", ("1",),
         "make it dynamic"),
        ("0/0: tensor 'w' size mismatch at index 0. expected 4, actual 8. Guard failed on a parameter, see x.y = 1",
         "tensor 'w' size mismatch at index 0", ("4", "8"), "Guard failed on a parameter, see x.y = 1"),
        ("0/0: ___check_type_id(fn, 94211), type=<class 'A'> (HINT: type A)",
         "___check_type_id(fn, 94211), type=<class 'A'>", (), ""),
        ("0/0: scale == 0.5", "scale == 0.5", ("0.5",), ""),
    ],
)  # fmt: skip
def test_torchs_hint_is_no_value(text: str, guard: str, values: tuple[str, ...], hint: str) -> None:
    found = parse_reason(text)
    assert (found.guard, found.values, found.hint) == (guard, values, hint)


def test_a_hint_does_not_hide_the_users_line() -> None:
    found = parse_reason("0/0: self.n == 1   # return x  # train.py:5 in forward (HINT: make it dynamic)")
    assert found.place is not None
    assert (found.place.file, found.place.line) == ("train.py", 5)


@pytest.mark.parametrize(
    ("guards", "name"),
    [
        (GUARDS, "torch.nn.Sequential"),
        (GUARDS.replace("torch.nn.Sequential", "timm.Block"), ""),
        (GUARDS.replace("torch.nn.Sequential", "timm.Block") + "\n+- len(L['fn']._modules) == 2", "timm.Block"),
        (GUARDS.replace("torch.nn.Sequential", "functools.partial"), ""),
        ("", ""),
    ],
)
def test_the_class_of_a_module_in_a_trace_alone(guards: str, name: str) -> None:
    assert module_guarded(guards) == name


def frame(file: str, **held: Any) -> Any:
    return SimpleNamespace(f_code=SimpleNamespace(co_filename=file), f_locals=held)


def test_modules_are_numbered_by_class() -> None:
    known = Modules()
    first, second, other = torch.nn.ReLU(), torch.nn.ReLU(), torch.nn.Tanh()
    numbers = [known.of(frame("/home/me/train.py", self=module)) for module in (first, second, other, first)]
    assert [found and found[2] for found in numbers] == [1, 2, 1, 1]
    assert known.of(frame("/home/me/train.py", self=3, fn=first)) is None  # an argument of the user's own
    inside = f"{Path(str(torch.__file__)).parent}/_dynamo/external_utils.py"
    assert known.of(frame(inside, fn=second)) == ("fn", "torch.nn.modules.activation.ReLU", 2)
    assert known.of(frame(inside, fn=second.forward)) == ("fn", "torch.nn.modules.activation.ReLU", 2)
    del first, numbers
    gc.collect()
    assert known.of(frame(inside, fn=torch.nn.ReLU())) == ("fn", "torch.nn.modules.activation.ReLU", 3)


@pytest.mark.slow
def test_two_models_of_one_class(tmp_path: Path) -> None:
    source = """
    models = [torch.nn.Sequential(torch.nn.Linear(4, 4)), torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())]
    for model in [torch.compile(model, backend="eager") for model in models]:
        model(torch.ones(2, 4)), model(torch.ones(2, 4))
    """
    script = torch_script(tmp_path, source)
    done = explain_command(tmp_path, script.name, env=environment_without_torch_settings())
    found = json.loads((tmp_path / "out" / "explain.json").read_text(encoding="utf-8"))
    assert found["recompiles"] == []
    assert [(o["class"].rpartition(".")[2], o["instances"], o["count"]) for o in found["other_instances"]] == [
        ("Sequential", 2, 1)
    ]
    assert sorted((f["function"], f["calls"]) for f in found["frames"]) == [("Sequential #1", 2), ("Sequential #2", 2)]
    assert "0 recompilations" in done.stdout
    assert "in inner" not in done.stdout
