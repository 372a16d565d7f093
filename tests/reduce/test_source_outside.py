"""Which scripts depend on what is not part of their text, and which may be remembered."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchsleuth.reduce.source.outside import reads_outside


@pytest.mark.parametrize(
    "line",
    [
        "import parts",
        "import parts.inner as inner",
        "from parts import f",
        "from package.inner import f",
        "x = open('{file}').read()",
        "x = torch.load(f'{file}')",
        "size = int(os.environ['SIZE'])",
        "size = os.environ.get('SIZE')",
        "size = getenv('SIZE')",
        "model = Model.from_pretrained('name')",
        "model = torch.hub.load('a', 'b')",
        "path = os.path.expanduser('~/x')",
    ],
)
def test_what_depends_on_something_else(line: str, tmp_path: Path) -> None:
    (tmp_path / "parts.py").touch()
    (tmp_path / "package").mkdir()
    (tmp_path / "data.txt").touch()
    text = f"import os\nimport torch\n{line.replace('{file}', str(tmp_path / 'data.txt'))}\n"
    assert reads_outside(text, [tmp_path])


@pytest.mark.parametrize(
    "line",
    [
        "import math, numpy",
        "from torch import nn",
        "x = 'no/such/file'",
        "x = '/no/such/file'",
        "x = open('/dev/null')",
        "x = a / b",
        "os.environ['SIZE'] = '3'",
        "os.environ.update(RANK='0')",
    ],
)
def test_what_stands_alone(line: str, tmp_path: Path) -> None:
    assert not reads_outside(f"import os\nimport torch\n{line}\n", [tmp_path])
