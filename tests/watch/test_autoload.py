"""The entry point: it costs nothing unless it is asked for, and `import torch` survives whatever it is asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from torchsleuth.watch.session import OPTIONS, VARIABLE, processes

SRC = Path(__file__).resolve().parents[2] / "src"
START = "import sys, torchsleuth_autoload as entry; entry.start(); print('alive')"
IMPORT_TORCH = "import sys, torch; print(torch.ones(2).sum().item())"


def python(
    code: str, *, session: str | Path | None, env: dict[str, str] | None = None, first: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs `code` as a program would be, with TORCHSLEUTH_WATCH; `first` comes first on its path."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith("TORCH")}
    path = os.pathsep.join([*([str(first)] if first else []), str(SRC)])
    extra = {VARIABLE: str(session)} if session is not None else {}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**plain, "PYTHONPATH": path, **extra, **(env or {})},
        text=True, capture_output=True, timeout=120, check=False,
    )  # fmt: skip


def says(done: subprocess.CompletedProcess[str], *lines: str) -> None:
    assert (done.returncode, done.stdout.split("\n")[:-1], done.stderr) == (0, list(lines), "")


@pytest.fixture
def session(tmp_path: Path) -> Path:
    (tmp_path / "session").mkdir()
    return tmp_path / "session"


@pytest.fixture
def broken_package(tmp_path: Path) -> Path:
    """A torchsleuth that cannot be imported, with the entry point beside it."""
    (tmp_path / "broken" / "torchsleuth").mkdir(parents=True)
    (tmp_path / "broken" / "torchsleuth" / "__init__.py").write_text("raise RuntimeError('half installed')\n")
    return tmp_path / "broken"


@pytest.fixture
def a_file(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("not a folder\n")
    return tmp_path / "file"


def test_without_the_variable_nothing_is_imported() -> None:
    says(python(f"{START}; print('torchsleuth' in sys.modules)", session=None), "alive", "False")
    says(python(f"{START}; print('torchsleuth' in sys.modules)", session=""), "alive", "False")


@pytest.mark.parametrize("where", ["no/such/folder", "\n", "../..//x", "~", "a" * 5000, "/proc/1/nowhere", "/dev/null"])
def test_a_session_that_is_no_folder_is_ignored(where: str, tmp_path: Path) -> None:
    here = f"import os; os.chdir({str(tmp_path)!r}); {START}; print(os.listdir())"
    says(python(here, session=where), "alive", "[]")


def test_a_file_in_the_folders_place_is_left_as_it_is(a_file: Path) -> None:
    says(python(START, session=a_file), "alive")
    assert a_file.read_text() == "not a folder\n"


def test_a_folder_that_cannot_be_written_is_ignored() -> None:
    says(python(START, session="/proc/self"), "alive")


@pytest.mark.parametrize(
    "options", ["{", "[]", "null", "3", '{"keep_going": [1]}', '{"nobody": 1}', "\udcff", "x" * 9999]
)
def test_garbage_options_are_ignored(options: str, session: Path) -> None:
    says(python(START, session=session, env={OPTIONS: options}), "alive")
    assert len(list(processes(session))) == 1


def test_a_broken_installation_is_logged(session: Path, broken_package: Path) -> None:
    says(python(START, session=session, first=broken_package), "alive")
    assert "RuntimeError: half installed" in (session / "trouble.log").read_text()


def test_a_broken_installation_and_no_place_to_log(a_file: Path, broken_package: Path) -> None:
    says(python(START, session=a_file, first=broken_package), "alive")


def test_even_an_exit_on_import_does_not_end_the_program(session: Path, broken_package: Path) -> None:
    (broken_package / "torchsleuth" / "__init__.py").write_text("raise SystemExit(7)\n")
    says(python(START, session=session, first=broken_package), "alive")


def test_compile_workers_are_left_alone(session: Path, tmp_path: Path) -> None:
    worker = tmp_path / "compile_worker" / "__main__.py"
    worker.parent.mkdir()
    worker.write_text(START)
    env = {**os.environ, VARIABLE: str(session), "PYTHONPATH": str(SRC)}
    done = subprocess.run([sys.executable, str(worker)], env=env, text=True, capture_output=True, check=False)
    says(done, "alive")
    assert list(session.iterdir()) == []


def test_a_program_that_is_called_like_one_is_watched(session: Path, tmp_path: Path) -> None:
    program = tmp_path / "test_compile_workers.py"
    program.write_text(START)
    env = {**os.environ, VARIABLE: str(session), "PYTHONPATH": str(SRC)}
    says(subprocess.run([sys.executable, str(program)], env=env, text=True, capture_output=True, check=False), "alive")
    assert len(list(processes(session))) == 1


def test_a_watched_process_says_hello_and_where_it_is(session: Path, tmp_path: Path) -> None:
    says(python(f"import os; os.chdir({str(tmp_path)!r}); {START}", session=session), "alive")
    [process] = processes(session)
    assert process.hello["executable"] == sys.executable
    assert process.hello["cwd"] == str(tmp_path)
    assert process.hello["argv"][1] == "-c"
    assert process.hello["pid"] == int(process.folder.name.split("-")[0])
    assert str(SRC) in process.hello["path"]
    assert process.ended


def test_a_forked_child_has_an_outbox_of_its_own(session: Path) -> None:
    code = """
    import os, torchsleuth_autoload as entry
    entry.start()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    print("alive", flush=True)
    """
    says(python(code, session=session), "alive", "alive")
    parent, child = sorted(processes(session), key=lambda p: p.hello["parent"] == os.getpid(), reverse=True)
    assert child.hello["parent"] == parent.hello["pid"]
    assert parent.ended
    assert child.ended
    assert not parent.of("nothing")


def test_a_module_that_takes_no_patch_is_imported_all_the_same(session: Path) -> None:
    """A loader that refuses attributes (frozen, from a zip) costs the watching, never the import."""
    code = """
    import sys, importlib.machinery, torchsleuth_autoload as entry
    entry.start()
    from torchsleuth.watch import begin
    class Stubborn:
        __slots__ = ()
        def create_module(self, spec): return None
        def exec_module(self, module): module.here = True
    class Finder:
        def find_spec(self, name, path, target=None):
            return importlib.machinery.ModuleSpec(name, Stubborn()) if name == "stubborn" else None
    sys.meta_path.append(Finder())
    begin.on_import("stubborn", lambda module: None)
    import stubborn
    print(stubborn.here)
    """
    says(python(code, session=session), "True")
    assert "exec_module" in (session / "trouble.log").read_text()


def test_to_ask_whether_there_is_a_module_is_not_to_import_it(session: Path) -> None:
    """Whoever probes for features does it with find_spec; the patch is for when the module is imported."""
    code = """
    import importlib.util, torchsleuth_autoload as entry
    entry.start()
    from torchsleuth.watch import begin
    begin.on_import("colorsys", lambda module: print("patched"))
    for _ in range(3):
        assert importlib.util.find_spec("colorsys")
    print("asked")
    import colorsys, importlib
    importlib.reload(colorsys)
    """
    says(python(code, session=session), "asked", "patched")


def test_a_patch_runs_once_after_the_module_and_its_fault_is_swallowed(session: Path) -> None:
    code = """
    import sys, torchsleuth_autoload as entry
    entry.start()
    from torchsleuth.watch import begin
    begin.on_import("colorsys", lambda module: print("patched", hasattr(module, "rgb_to_hsv")))
    begin.on_import("colorsys", lambda module: 1 / 0)
    import colorsys
    begin.on_import("colorsys", lambda module: print("at once"))
    """
    says(python(code, session=session), "patched True", "at once")
    assert "ZeroDivisionError" in (session / "trouble.log").read_text()


def test_a_module_in_the_middle_of_its_import_is_patched_at_its_end(session: Path, tmp_path: Path) -> None:
    """`from functorch.compile import ...` imports AOTAutograd, that Dynamo, and that installs the hooks."""
    ask = "from torchsleuth.watch import begin\nbegin.on_import('half', lambda m: print('patched', m.later))\n"
    (tmp_path / "half.py").write_text("import asks, asks_too\nlater = 1\nprint('whole')\n")
    (tmp_path / "asks.py").write_text(ask)
    (tmp_path / "asks_too.py").write_text(ask)
    (tmp_path / "broken.py").write_text(ask.replace("half", "broken") + "raise RuntimeError('its own')\n")
    code = f"""
    import sys, torchsleuth_autoload as entry
    entry.start()
    sys.path.insert(0, {str(tmp_path)!r})
    import half
    print(type(half.__spec__).__name__, half.__spec__._initializing)
    try:
        import broken
    except RuntimeError as error:
        print(error)
    """
    says(python(code, session=session), "whole", "patched 1", "patched 1", "ModuleSpec False", "its own")
    assert not (session / "trouble.log").exists()


@pytest.mark.slow
def test_hooks_are_there_whoever_imports_them_first(session: Path) -> None:
    code = """
    from functorch.compile import make_boxed_func
    import torch
    torch.compile(torch.sin, backend="aot_eager")(torch.ones(2, requires_grad=True)).sum().backward()
    """
    says(python(code, session=session))
    assert not (session / "trouble.log").exists()
    [process] = processes(session)
    assert process.of("graph")
    assert process.of("backward")


@pytest.mark.slow
def test_import_torch_survives(a_file: Path, session: Path, broken_package: Path) -> None:
    says(python(IMPORT_TORCH, session=a_file), "2.0")
    says(python(IMPORT_TORCH, session=session, first=broken_package), "2.0")
    assert "half installed" in (session / "trouble.log").read_text()


@pytest.mark.slow
def test_import_torch_without_the_variable_imports_nothing_of_ours() -> None:
    says(python(f"{IMPORT_TORCH}; print([m for m in sys.modules if m.startswith('torchsleuth.')])", session=None),
         "2.0", "[]")  # fmt: skip


@pytest.mark.slow
def test_import_torch_alone_pays_for_no_compiler(session: Path) -> None:
    done = python(f"{IMPORT_TORCH}; print('torch._dynamo' in sys.modules)", session=session)
    bare = python(f"{IMPORT_TORCH}; print('torch._dynamo' in sys.modules)", session=None)
    says(done, *bare.stdout.splitlines())
    hello = json.loads(next(session.glob("processes/*/hello.json")).read_text())
    assert hello["torch"].startswith("2.")
