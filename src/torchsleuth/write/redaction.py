"""What tells who somebody is, taken out of text: paths of theirs, their name, their machine's.

Paths are replaced wherever they stand.  Names are words that code may use too, so in Python they are replaced in
strings and comments only, and in JSON not where the whole value is an identifier: a repro must still run, and a Case
must still open.
"""

from __future__ import annotations

import getpass
import io
import re
import socket
import sys
import tempfile
import tokenize
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Words that name nobody.  Replacing them would only make text unreadable.
_NOBODY = {
    "root", "user", "ubuntu", "debian", "admin", "app", "worker", "runner", "jovyan", "coder", "vscode", "ec2-user",
    "nobody", "test", "torch", "pytorch", "python", "conda", "main", "model", "data", "localhost", "docker", "none",
}  # fmt: skip
_PACKAGES = re.compile(r"(?:/[^\s'\"`,:;()<>|]+)?/(?:site|dist)-packages(?![\w-])")
_SYSTEM = "usr lib lib64 opt etc proc dev sys bin sbin nix run".split()
_PATH = re.compile(r"(?<![\w/:.>~)\]-])/([\w.+-]+)/[\w.+-]+(?:/[\w.+-]+)?")
_TEXT_TOKENS = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


@dataclass
class Redactor:
    places: Sequence[tuple[str, str]]  # text, what stands in its place
    names: Sequence[tuple[str, str]] = ()
    replaced: Counter[str] = field(default_factory=Counter)
    paths_left: Counter[str] = field(default_factory=Counter)

    def text(self, text: str) -> str:
        return self._noted(self._without_names(self._without_places(text)))

    def python(self, source: str) -> str:
        source = self._without_places(source)
        lines = source.split("\n")
        try:
            tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
        except (tokenize.TokenError, SyntaxError):
            return self._noted(self._without_names(source))
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line) + 1)
        for token in reversed(tokens):
            # graph.py tells its bodies apart by a comment.
            if token.type in _TEXT_TOKENS and not token.string.startswith("# body: "):
                begin, end = (starts[row - 1] + column for row, column in (token.start, token.end))
                source = source[:begin] + self._without_names(source[begin:end]) + source[end:]
        return self._noted(source)

    def json(self, value: Any) -> Any:
        if isinstance(value, str):
            value = self._without_places(value)
            return self._noted(value if re.fullmatch(r"[\w.]+", value) else self._without_names(value))
        if isinstance(value, list):
            return [self.json(item) for item in value]
        if isinstance(value, dict):
            return {self._without_places(key): self.json(item) for key, item in value.items()}
        return value

    def _without_places(self, text: str) -> str:
        text = self._replace(_PACKAGES, "<site-packages>", text)
        for place, label in sorted(self.places, key=lambda pair: -len(pair[0])):
            end = r"(?![\w-])" if place[-1:].isalnum() else ""
            text = self._replace(re.compile(re.escape(place) + end), label, text)
        return text

    def _without_names(self, text: str) -> str:
        for name, label in self.names:
            word = re.escape(name)
            anywhere = rf"(?:(?<=torchinductor_)|(?<!\w)){word}(?!\w)"
            in_a_path = rf"(?<=/){word}(?=/)"  # one or two letters are a name nowhere else
            text = self._replace(re.compile(anywhere if len(name) > 2 else in_a_path), label, text)
        return text

    def _replace(self, pattern: re.Pattern[str], label: str, text: str) -> str:
        text, count = pattern.subn(lambda _: label, text)
        if count:
            self.replaced[label] += count
        return text

    def _noted(self, text: str) -> str:
        for found in _PATH.finditer(text):
            if found.group(1) not in _SYSTEM:
                self.paths_left[found.group(0)] += 1
        return text


def of_this_machine(run: Path, more: Iterable[str] = ()) -> Redactor:
    """A Redactor for whoever runs this, here; `more` is what the user wants out besides."""
    run = run.resolve()
    wanted = [(text, "<redacted>") for text in more if text]
    folders = [(run, "<out>"), (Path.cwd(), "<cwd>")]
    if run.parent.name == "torchsleuth-out":
        folders.append((run.parent.parent, "<cwd>"))
    folders += [(Path.home(), "<home>"), (Path(tempfile.gettempdir()), "<tmp>")]
    if not sys.prefix.startswith("/usr"):
        folders.append((Path(sys.prefix), "<python>"))
    places = dict(wanted)
    for folder, label in folders:
        for path in (folder.absolute(), folder.resolve()):
            if path != Path(path.anchor):
                places.setdefault(str(path), label)
    return Redactor(tuple(places.items()), tuple(_names()))


def _names() -> Iterable[tuple[str, str]]:
    host = socket.gethostname()
    found = [(host, "<host>"), (host.partition(".")[0], "<host>")]
    try:
        found.append((getpass.getuser(), "<user>"))
    except (OSError, KeyError, ImportError):  # no such user in the container's passwd
        found.append((Path.home().name, "<user>"))
    for name, label in dict.fromkeys(found):
        if name and name.lower() not in _NOBODY:
            yield name, label
