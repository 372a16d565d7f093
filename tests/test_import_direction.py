"""tools/check_imports.py: each rule is broken once, and obeyed once, in a small tree; then the real tree is checked."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CHECKER = ROOT / "tools" / "check_imports.py"


def violations(tmp_path: Path, files: dict[str, str]) -> list[str]:
    """What the checker prints for a src/ that holds `files`, each line relative to it."""
    src = tmp_path / "src"
    (src / "torchsleuth").mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = src / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, str(CHECKER), "."], cwd=src, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert done.returncode == (1 if lines else 0)
    return lines


@pytest.mark.parametrize(
    ("importer", "statement"),
    [
        ("errors.py", "import json"),
        ("torch_api/__init__.py", "from torchsleuth.errors import SleuthError"),
        ("case/folder.py", "from torchsleuth import errors, torch_api"),
        ("case/folder.py", "from torchsleuth.case.ir import Graph"),
        ("case/folder.py", "from torchsleuth import __version__"),
        ("case/__init__.py", "from .ir import Graph"),
        ("watch/hooks.py", "from torchsleuth.case import Case"),
        ("judge/worker.py", "from ..case import Case"),
        ("locate/ladder.py", "from torchsleuth import judge"),
        ("write/repro.py", "from torchsleuth.reduce.journal import Journal"),
        ("explain/breaks.py", "from torchsleuth.watch import launch"),
        ("explain/breaks.py", "from torchsleuth.judge import judge"),
        ("backends/faulty.py", "from torchsleuth.case import Case"),
        ("investigate/starts.py", "from torchsleuth import write, explain"),
        ("commands/pipeline.py", "from torchsleuth.investigate import starts"),
        ("__init__.py", "from torchsleuth.library.checking import check"),
        ("cli/run.py", "from torchsleuth import commands, check"),
        ("__main__.py", "from torchsleuth.cli import main"),
        ("judge/worker.py", "from torchsleuth_other import thing"),
    ],
)
def test_rooms_may_look_backwards(tmp_path: Path, importer: str, statement: str) -> None:
    assert violations(tmp_path, {f"torchsleuth/{importer}": statement}) == []


@pytest.mark.parametrize(
    ("importer", "statement", "message"),
    [
        ("errors.py", "import torchsleuth.torch_api", "errors must not import torch_api"),
        ("torch_api/__init__.py", "from torchsleuth.case import Case", "torch_api must not import case"),
        ("case/folder.py", "from torchsleuth.watch import launch", "case must not import watch"),
        ("watch/hooks.py", "from ..judge import worker", "watch must not import judge"),
        ("judge/worker.py", "from .. import locate", "judge must not import locate"),
        ("locate/ladder.py", "import torchsleuth.reduce.search as s", "locate must not import reduce"),
        ("reduce/search.py", "from torchsleuth import errors, write", "reduce must not import write"),
        ("write/repro.py", "from torchsleuth.explain import breaks", "write must not import explain"),
        ("explain/breaks.py", "from torchsleuth.write import page", "explain must not import write"),
        ("explain/breaks.py", "from torchsleuth.backends import faulty", "explain must not import backends"),
        ("backends/faulty.py", "from torchsleuth.locate import ladder", "backends must not import locate"),
        ("judge/worker.py", "from torchsleuth.commands.pipeline import run", "judge must not import commands"),
        ("investigate/starts.py", "from torchsleuth.commands import kept", "investigate must not import commands"),
        ("commands/pipeline.py", "from torchsleuth.cli import main", "commands must not import cli"),
        ("__init__.py", "from .cli import main", "__init__ must not import cli"),
        (
            "judge/worker.py",
            "from torchsleuth import check",
            "judge must not import the public API (import the room itself)",
        ),
        (
            "judge/worker.py",
            "import torchsleuth",
            "judge must not import the public API (import the room itself)",
        ),
    ],
)
def test_rooms_may_not_look_ahead(tmp_path: Path, importer: str, statement: str, message: str) -> None:
    assert violations(tmp_path, {f"torchsleuth/{importer}": statement}) == [f"torchsleuth/{importer}:1: {message}"]


def test_an_import_inside_a_function_or_for_types_counts_too(tmp_path: Path) -> None:
    source = (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n"
        "    from torchsleuth.judge import Outcome\n"
        "def late():\n"
        "    from torchsleuth.write import repro\n"
    )
    assert violations(tmp_path, {"torchsleuth/case/folder.py": source}) == [
        "torchsleuth/case/folder.py:3: case must not import judge",
        "torchsleuth/case/folder.py:5: case must not import write",
    ]


def test_the_autoload_module_may_start_watching_and_nothing_more(tmp_path: Path) -> None:
    source = "def start():\n    from torchsleuth.watch import hooks\n    from torchsleuth.judge import worker\n"
    assert violations(tmp_path, {"torchsleuth_autoload.py": source}) == [
        "torchsleuth_autoload.py:3: torchsleuth_autoload must not import judge"
    ]


def test_a_room_that_is_not_known_is_reported(tmp_path: Path) -> None:
    assert violations(tmp_path, {"torchsleuth/utils/misc.py": "import json"}) == [
        "torchsleuth/utils/misc.py:1: 'utils' is no room that is known: give it a place in MAY_IMPORT"
    ]


def test_a_file_that_cannot_be_parsed_is_reported(tmp_path: Path) -> None:
    [line] = violations(tmp_path, {"torchsleuth/case/ir.py": "x = 1\ndef\n"})
    assert line.startswith("torchsleuth/case/ir.py:2: cannot be parsed:")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import torch._dynamo", "torch._dynamo"),
        ("import torch._inductor.config as config", "torch._inductor.config"),
        ("from torch import _C", "torch._C"),
        ("from torch._inductor import config", "torch._inductor.config"),
        ("from torch.utils import _pytree as pytree", "torch.utils._pytree"),
        ("x = torch._C._get_tracing_state()", "torch._C._get_tracing_state"),
        ("x = torch.fx.graph._Namespace", "torch.fx.graph._Namespace"),
        ("x = torch._dynamo.config.verbose = True", "torch._dynamo.config.verbose"),
    ],
)
def test_private_torch_names_belong_in_torch_api(tmp_path: Path, source: str, name: str) -> None:
    report = f"1: {name} is private to torch: reach it through torch_api"
    assert violations(tmp_path, {"torchsleuth/judge/worker.py": source}) == [f"torchsleuth/judge/worker.py:{report}"]
    (tmp_path / "src/torchsleuth/judge/worker.py").unlink()
    assert violations(tmp_path, {"torchsleuth/torch_api/__init__.py": source}) == []


def test_an_exception_frees_its_file_from_the_private_names_rule_only(tmp_path: Path) -> None:
    files = {"torchsleuth/judge/worker.py": "import torch._dynamo\nimport torchsleuth.write\n"}
    assert len(violations(tmp_path, files)) == 2
    check = runpy.run_path(str(CHECKER))["check"]
    [left] = check(tmp_path / "src", {"torchsleuth/judge/worker.py": "for this test"})
    assert left.message == "judge must not import write"


def test_private_torch_names_are_seen_through_other_names(tmp_path: Path) -> None:
    source = (
        "import torch as t\n"
        "import torch.utils.data as data\n"
        "from torch import fx\n"
        "t._dynamo.reset()\n"
        "data._utils\n"
        "fx._symbolic_trace\n"
    )
    report = "is private to torch: reach it through torch_api"
    assert violations(tmp_path, {"torchsleuth/judge/worker.py": source}) == [
        f"torchsleuth/judge/worker.py:4: torch._dynamo.reset {report}",
        f"torchsleuth/judge/worker.py:5: torch.utils.data._utils {report}",
        f"torchsleuth/judge/worker.py:6: torch.fx._symbolic_trace {report}",
    ]


def test_a_private_module_is_reported_where_it_is_imported_not_at_each_use(tmp_path: Path) -> None:
    source = "from torch._inductor import config\nconfig.debug = True\nconfig.trace.enabled = True\n"
    assert len(violations(tmp_path, {"torchsleuth/judge/worker.py": source})) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import torch\nx = torch.compile(torch.nn.ReLU())",
        "import torch\nversion = torch.__version__",
        "name = 'torch._dynamo.config'",
        '"""torch._inductor does this."""',
        "from torchsleuth import torch_api\ntorch_api._private",
        "self._torch = other._torch",
    ],
)
def test_public_names_and_text_are_free(tmp_path: Path, source: str) -> None:
    assert violations(tmp_path, {"torchsleuth/judge/worker.py": source}) == []


@pytest.mark.parametrize("heavy", ["torch", "rich", "safetensors"])
@pytest.mark.parametrize("name", ["torchsleuth/cli/run.py", "torchsleuth/__init__.py", "torchsleuth_autoload.py"])
def test_what_starts_fast_imports_nothing_heavy(tmp_path: Path, name: str, heavy: str) -> None:
    source = (
        "from typing import TYPE_CHECKING\n"
        f"import {heavy}.nn\n"
        "try:\n"
        f"    from {heavy} import thing\n"
        "finally:\n"
        "    pass\n"
        "if TYPE_CHECKING:\n"
        f"    import {heavy}\n"
        "def late():\n"
        f"    import {heavy}\n"
    )
    advice = "is heavy: import it inside the function that needs it"
    assert violations(tmp_path, {name: source}) == [f"{name}:2: {heavy}.nn {advice}", f"{name}:4: {heavy} {advice}"]


def test_other_rooms_import_what_they_like(tmp_path: Path) -> None:
    assert violations(tmp_path, {"torchsleuth/write/terminal.py": "import torch, rich, safetensors"}) == []


def test_the_wrong_folder_is_a_usage_error(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(CHECKER), str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "is not a folder" in done.stderr


def test_the_real_tree_obeys() -> None:
    done = subprocess.run([sys.executable, str(CHECKER)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert done.returncode == 0


def test_the_real_command_line_starts_without_anything_heavy() -> None:
    """The rule sees direct imports; here nothing heavy may come in through another room either."""
    program = (
        "import importlib, pkgutil, sys, torchsleuth_autoload, torchsleuth.cli\n"
        "for module in pkgutil.iter_modules(torchsleuth.cli.__path__, 'torchsleuth.cli.'):\n"
        "    importlib.import_module(module.name)\n"
        "print(sorted({'torch', 'rich', 'safetensors'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


def rooms_of_the_tree() -> set[str]:
    package = ROOT / "src" / "torchsleuth"
    folders = {p.parent.name for p in package.glob("*/__init__.py")}
    return folders | {p.name for p in package.glob("*.py")}


def may_import() -> dict[str, frozenset[str]]:
    return runpy.run_path(str(CHECKER))["MAY_IMPORT"]


def test_the_table_of_contributing_names_exactly_the_rooms_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `([\w.]+)` \|", text, re.M)
    assert len(named) == len(set(named))
    assert set(named) == rooms_of_the_tree()


def test_operators_read_names_without_torch(tmp_path: Path) -> None:
    assert violations(tmp_path, {"torchsleuth/operators/names.py": "import torch"}) == [
        "torchsleuth/operators/names.py:1: torch is heavy: import it inside the function that needs it"
    ]
    assert violations(tmp_path, {"torchsleuth/operators/names.py": "from torchsleuth import torch_api"}) == [
        "torchsleuth/operators/names.py:1: operators must not import torch_api"
    ]


def test_the_order_of_contributing_is_the_one_that_is_checked() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    [order] = re.findall(r"^    (\w+(?: < \w+)+)$", text, re.M)
    assert tuple(order.split(" < ")) == runpy.run_path(str(CHECKER))["IN_ORDER"]


def test_every_room_has_a_place_in_the_architecture_and_no_place_is_empty() -> None:
    rooms = {Path(name).stem for name in rooms_of_the_tree()}
    autoload = {"torchsleuth_autoload"}
    assert set(may_import()) == rooms | autoload
    assert frozenset().union(*may_import().values()) <= rooms


def test_every_path_that_contributing_names_exists() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = [name for name in re.findall(r"`([\w./]+)`", text) if "/" in name or name.endswith((".py", ".md", ".toml"))]
    folders = (ROOT, ROOT / "src", ROOT / "src" / "torchsleuth", ROOT / "src" / "torchsleuth" / "backends")
    written = {"repro.py", "issue.md", "report.html", "result.json"}  # by the tool
    assert [p for p in paths if p not in written and not any((f / p).exists() for f in folders)] == []
