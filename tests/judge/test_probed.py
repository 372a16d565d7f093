"""What probing the processor left behind, copied into the cache folders of fresh processes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from torchsleuth.judge import probed


def test_the_warm_folder_is_this_users_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probed.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = probed.warm_folder()
    assert folder.parent == tmp_path
    assert folder.stat().st_mode & 0o777 == 0o700
    assert probed.warm_folder() == folder


def test_a_folder_that_others_can_write_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probed.tempfile, "gettempdir", lambda: str(tmp_path))
    theirs = probed.warm_folder()
    theirs.chmod(0o777)
    assert probed.warm_folder() != theirs


def _library(folder: Path, name: str, *, age: float, source: bool = True) -> None:
    place = folder / name[:2]
    place.mkdir(parents=True)
    (place / f"{name}.so").write_bytes(b"library")
    if source:
        (place / f"{name}.cpp").write_text("source")
    then = time.time() - age
    os.utime(place / f"{name}.so", (then, then))


def test_a_cache_folder_gets_what_is_known_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probed.tempfile, "gettempdir", lambda: str(tmp_path))
    known = probed.warm_folder()
    _library(known, "abc", age=60)
    _library(known, "def", age=0)  # perhaps still being written
    _library(known, "ghi", age=60, source=False)
    (known / "locks").mkdir()
    (known / "headers-2.13.0").touch()
    probed.seed(tmp_path / "cache")
    found = sorted(str(p.relative_to(tmp_path / "cache")) for p in (tmp_path / "cache").rglob("*") if p.is_file())
    assert found == ["ab/abc.cpp", "ab/abc.so"]


def test_where_nothing_is_known_nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probed.tempfile, "gettempdir", lambda: str(tmp_path))
    probed.seed(tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_what_others_can_write_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probed.tempfile, "gettempdir", lambda: str(tmp_path))
    known = probed.warm_folder()
    _library(known, "abc", age=60)
    known.chmod(0o777)
    probed.seed(tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_what_cannot_be_copied_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probed.tempfile, "gettempdir", lambda: str(tmp_path))
    _library(probed.warm_folder(), "abc", age=60)
    (tmp_path / "cache").write_text("a file, not a folder")
    probed.seed(tmp_path / "cache")


def test_the_first_judge_on_a_machine_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probed.tempfile, "gettempdir", lambda: str(tmp_path))
    assert not probed.ever_warmed()
    assert not list(tmp_path.iterdir())
    (probed.warm_folder() / f"{probed.HEADERS}2.13.0").touch()
    assert probed.ever_warmed()
