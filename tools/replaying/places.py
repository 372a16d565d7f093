"""Absolute paths to placeholders and back: a record holds no path of the machine that made it."""

from __future__ import annotations

import importlib.util
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_MARK = re.compile(r"/@([a-z]+)@")


@dataclass(frozen=True)
class Places:
    """Names of folders and files.  `hide` writes `/@name@` in the place of each path, `show` does the reverse."""

    paths: Mapping[str, str]

    @staticmethod
    def recorded_on(root: Path) -> Places:
        """The places of a run below `root`, and the installation that it uses."""
        torch = importlib.util.find_spec("torch")
        site = Path((torch.submodule_search_locations or [""])[0]).parent if torch is not None else root / "site"
        source = Path(__file__).resolve().parents[2]
        return Places(
            {
                **_below(root),
                "tmp": tempfile.gettempdir(),
                "python": sys.executable,
                "site": str(site),
                "source": str(source),
                "prefix": sys.prefix,
                "base": sys.base_prefix,
            }
        )

    @staticmethod
    def replayed_in(root: Path) -> Places:
        """The same names; an installation that is not there stands in the place of the recorded one."""
        installed = {name: str(root / "installed" / name) for name in ("site", "source", "prefix", "base")}
        return Places({**_below(root), "tmp": str(root / "tmp"), **installed, "python": sys.executable})

    def also(self, **paths: Path | str | None) -> Places:
        return Places({**self.paths, **{name: str(path) for name, path in paths.items() if path}})

    def hide(self, text: str) -> str:
        for name, path in sorted(self.paths.items(), key=lambda row: -len(row[1])):
            text = re.sub(rf"{re.escape(path)}(?![\w-]|\.\w)", f"/@{name}@", text)
        return text

    def show(self, text: str) -> str:
        return _MARK.sub(lambda found: self.paths.get(found[1], found[0]), text)


def _below(root: Path) -> dict[str, str]:
    return {"work": str(root / "work"), "cache": str(root / "cache")}
