"""HOOKS: what is attached to torch stands in the table, and what torch lacks is reported."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import types
from pathlib import Path

import pytest

from command_line import environment_without_torch_settings
from torchsleuth.commands.run import Seen
from torchsleuth.commands.verdict import notes_of
from torchsleuth.torch_api import attaching
from torchsleuth.torch_api.hook_table import FRAMES, HOOKS, Action, Hook, PlaceMissing, Use, find, probe
from torchsleuth.watch import attach, begin, guarded, missing_hooks
from torchsleuth.watch.found import summarise
from torchsleuth.watch.launcher import Ended

TOY = "torchsleuth_toy_compiler"


def hook(attribute: str, **more: object) -> Hook:
    return Hook(f"{TOY}:{attribute}", Action.REPLACED, Use.RUN, "sees it", "nothing is seen", **more)  # type: ignore[arg-type]


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType(TOY)
    module.compile = lambda graph: "compiled"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, TOY, module)
    return module


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(guarded, "_log", tmp_path / "trouble.log")
    return tmp_path / "trouble.log"


def test_every_row_is_another_place_and_says_what_is_lost() -> None:
    assert len({row.name for row in HOOKS}) == len(HOOKS)
    assert all(row.does and row.lost and row.attribute for row in HOOKS)


def test_this_torch_has_every_place() -> None:
    assert [probe(row) for row in HOOKS if probe(row)] == []


def test_a_place_under_its_older_name(toy: types.ModuleType) -> None:
    assert find(hook("compile_impl", older="compile")) == (toy, "compile")
    assert find(hook("compile", older="compile_old")) == (toy, "compile")


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (hook("decompile"), "no such attribute"),
        (hook("Compiler.compile"), "no such attribute"),
        (hook("compile", takes=("graph", "inputs")), "it takes no inputs"),
        (Hook("no_such_toy:x", Action.READ, Use.LOG, "", "nothing is seen"), "ModuleNotFoundError"),
    ],
)
def test_a_place_that_is_missing_is_named_with_what_is_lost(toy: types.ModuleType, row: Hook, why: str) -> None:
    assert probe(row).startswith(f"torch has no usable {row.name} ({why}")
    assert probe(row).endswith(": nothing is seen")
    with pytest.raises(PlaceMissing):
        attaching.replace(row, lambda original: original)


def test_what_is_replaced_can_be_restored(toy: types.ModuleType) -> None:
    original = toy.compile
    undo = attaching.replace(hook("compile"), lambda before: lambda graph: f"{before(graph)} and seen")
    assert toy.compile(None) == "compiled and seen"
    undo()
    assert toy.compile is original


def test_a_hook_that_finds_nothing_is_in_the_notes_of_the_run(
    toy: types.ModuleType, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = hook("decompile")
    for _ in range(2):  # as by two processes
        attach.when_imported(gone, lambda: attaching.replace(gone, lambda original: original))
    attach.when_imported(Hook("torch._dynamo.gone:f", Action.READ, Use.RUN, "", "frames are lost"), lambda: None)
    notes = notes_of(Seen(summarise(log.parent, 0), Ended(0, 0.0)))
    assert notes == [
        f"torch has no usable {TOY}.decompile (no such attribute): nothing is seen",
        "torch has no usable torch._dynamo.gone.f (no such module): frames are lost",
    ]
    begin._finder.patches.pop("torch._dynamo.gone")


def test_other_trouble_is_still_told_as_such(log: Path) -> None:
    missing_hooks.report("torch has no x: y is lost")
    guarded.complain("observe:\nTraceback ...\nKeyError: 3")
    text = log.read_text()
    assert missing_hooks.messages(text) == ("torch has no x: y is lost",)
    assert "KeyError: 3" in missing_hooks.other_trouble(text)
    assert "torch has no x" not in missing_hooks.other_trouble(text)


def test_the_module_that_everything_begins_with_is_missed_too(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin._check_that_it_begins()
    assert not log.exists()
    monkeypatch.setattr(missing_hooks, "has_module", lambda name: False)
    begin._check_that_it_begins()
    assert FRAMES.lost in log.read_text()


def test_an_attribute_that_went_is_reported_at_the_end_of_the_process(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch._inductor.scheduler

    attach.report_all()
    assert not log.exists()
    monkeypatch.delattr(torch._inductor.scheduler.Scheduler, "fuse_nodes")
    attach.report_all()
    [message] = missing_hooks.messages(log.read_text())
    assert message.endswith("explain --ir shows no loops")


def test_has_module_imports_nothing() -> None:
    name = "torch.testing._internal.dynamo_pytree_test_utils"
    assert name not in sys.modules
    assert missing_hooks.has_module(name)
    assert name not in sys.modules
    assert not missing_hooks.has_module("torch._dynamo.no_such_module")


# Attaches everything that torchsleuth ever attaches, then looks for its functions in every module of torch.
WALK = """
    import importlib, json, sys, types
    from pathlib import Path
    import torch
    import torchsleuth
    from torchsleuth import torch_api
    from torchsleuth.torch_api import applications, attaching, hook_table
    from torchsleuth.watch import begin, counting, foreign, hooks
    from torchsleuth.watch.session import Options, Outbox

    everything = Options(log="debug", numbers="backward", leave_caches=True, explain_ir=True)
    outbox = Outbox(Path(sys.argv[1]), everything)
    for row in hook_table.HOOKS:
        importlib.import_module(row.module)
    hooks.install(outbox)
    counting.install(outbox)
    applications.on_application(None)
    torch_api.replace_run_repro(foreign.run_graph)
    torch_api.use_caches(sys.argv[1])
    torch_api.is_cacheable_compiler(None)
    begin._force_eager()

    OURS = str(Path(torchsleuth.__file__).parent)

    def plain(value):
        return value.__func__ if isinstance(value, (staticmethod, classmethod)) else value

    def is_ours(value):
        value = plain(value)
        return isinstance(value, types.FunctionType) and value.__code__.co_filename.startswith(OURS)

    found = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != "torch" or not isinstance(module, types.ModuleType):
            continue
        for key, value in list(vars(module).items()):
            if is_ours(value):
                found[f"{name}.{key}"] = id(plain(value))
            if isinstance(value, type) and value.__module__ == name:
                for inner, one in list(vars(value).items()):
                    if is_ours(one):
                        found[f"{name}.{value.__qualname__}.{inner}"] = id(plain(one))
    rows = {}
    for row in hook_table.HOOKS:
        holder, last = hook_table.find(row)
        value = plain(vars(holder).get(last))
        rows[row.name] = {"id": id(value), "ours": is_ours(value), "action": row.action.value}
    print(json.dumps({"found": found, "rows": rows, "attached": [row.name for row in attaching.attached()]}))
"""


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(WALK), str(tmp_path_factory.mktemp("session"))],
        env=environment_without_torch_settings(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_every_place_that_is_patched_is_a_row(walked) -> None:
    known = {row["id"] for row in walked["rows"].values()}
    assert [name for name, function in walked["found"].items() if function not in known] == []


@pytest.mark.slow
def test_every_row_that_says_so_is_patched(walked) -> None:
    replaced = Action.REPLACED.value
    assert [n for n, row in walked["rows"].items() if row["action"] == replaced and not row["ours"]] == []


@pytest.mark.slow
def test_no_row_is_unused(walked) -> None:
    assert sorted(walked["attached"]) == sorted(row.name for row in HOOKS)
