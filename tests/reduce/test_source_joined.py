"""A program of several files as one script: the same program, or nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from torchsleuth.reduce.source.joined import joined

KERNELS = '''"""What is computed."""
from __future__ import annotations
import math

def half(x: float) -> float:
    return x / 2

SCALE = math.pi

if __name__ == "__main__":
    print("not when it is imported")
'''


def written(folder: Path, modules: dict[str, str]) -> Path:
    for name, text in modules.items():
        file = folder / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def said(text: str, folder: Path) -> str:
    """What a script prints, alone."""
    file = folder / "alone.py"
    file.write_text(text)
    return subprocess.run([sys.executable, "-I", str(file)], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    "script",
    [
        "from kernels import half\nprint(half(3))",
        "from kernels import half as h, SCALE\nprint(h(3), SCALE)",
        "import kernels\nprint(kernels.half(kernels.SCALE))",
        "import kernels as k\n\ndef f(x):\n    return k.half(x)\nprint(f(3))",
        "from kernels import *\nprint(half(SCALE))",
        "import math\nfrom kernels import half\nprint(math.floor(half(5)))",
        '"""Mine."""\nfrom __future__ import annotations\nimport kernels\nprint(kernels.half(3), __doc__)',
    ],
)
def test_it_prints_the_same_without_its_modules(tmp_path: Path, script: str) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    elsewhere.mkdir()
    written(here, {"kernels": KERNELS})
    text = joined(script, [here])
    assert text is not None
    assert "kernels" not in text
    assert text.count("import math") <= 1
    (here / "script.py").write_text(script)
    with_them = subprocess.run([sys.executable, str(here / "script.py")], capture_output=True, text=True, check=True)
    assert said(text, elsewhere) == with_them.stdout


def test_modules_of_modules_and_packages_come_first(tmp_path: Path) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    elsewhere.mkdir()
    wheel = "from .more.screws import screw\nfrom . import glue\n\ndef wheel():\n    return screw + glue.drop()\n"
    written(
        here,
        {
            "lib/__init__": "from .parts import wheel\n",
            "lib/parts": wheel,
            "lib/glue": "def drop():\n    return 1\n",
            "lib/more/__init__": "",
            "lib/more/screws": "screw = 40\n",
        },
    )
    text = joined("from lib import wheel\nfrom lib.parts import screw\nprint(wheel() + screw)", [here])
    assert text is not None
    assert said(text, elsewhere) == "81\n"


def test_modules_that_import_each_other_come_to_an_end(tmp_path: Path) -> None:
    one, two = "import two\n\ndef f():\n    return two.g()\n", "import one\n\ndef g():\n    return 2\n"
    written(tmp_path, {"one": one, "two": two})
    text = joined("import one\nprint(one.f())", [tmp_path])
    assert text is not None
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert said(text, elsewhere) == "2\n"


@pytest.mark.parametrize(
    ("script", "modules"),
    [
        ("import torch\nprint(torch.ones(1))", {}),  # none of its own
        ("import kernels\nprint(kernels)", {"kernels": KERNELS}),
        ("import kernels\nprint(getattr(kernels, 'half'))", {"kernels": KERNELS}),
        ("import kernels\nkernels.SCALE = 2", {"kernels": KERNELS}),
        ("import kernels\n\ndef f(half):\n    return kernels.half(half)", {"kernels": KERNELS}),
        ("from kernels import half\nSCALE = 2\nprint(half(SCALE))", {"kernels": KERNELS}),
        ("import math as m\nfrom kernels import m\nprint(m)", {"kernels": "m = 1\n"}),
        ("from kernels import half\nprint(sum([1]), half)", {"kernels": KERNELS + "def sum(x):\n    return 0\n"}),
        ("from kernels import half", {"kernels": "def half(:"}),
        ("import lib.parts\nprint(lib.parts.x)", {"lib/parts": "x = 1\n"}),
        ("from torchsleuth.backends import faulty", {"torchsleuth/backends": "faulty = 1\n"}),
        ("from .kernels import half", {"kernels": KERNELS}),
    ],
)
def test_it_is_left_as_it_is_where_that_is_not_the_same(tmp_path: Path, script: str, modules: dict[str, str]) -> None:
    assert joined(script, [written(tmp_path, modules)]) is None


def test_what_comes_of_it_is_python(tmp_path: Path) -> None:
    text = joined("from kernels import half\nhalf(1)", [written(tmp_path, {"kernels": KERNELS})])
    assert text is not None
    [first, *_] = ast.parse(text).body
    assert ast.unparse(first) == "from __future__ import annotations"
