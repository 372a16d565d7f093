"""How much memory is left, and what is not compared for want of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from torchsleuth.commands import verdict
from torchsleuth.commands.run import Seen
from torchsleuth.watch import free_memory, numbers
from torchsleuth.watch.found import summarise
from torchsleuth.watch.free_memory import _of_container, available_memory, room_to_compare
from torchsleuth.watch.launcher import Ended
from torchsleuth.watch.schedule import Schedule
from torchsleuth.watch.session import Options, Outbox

_UNLIMITED = 1 << 62


class Groups:
    """Control groups as a kernel shows them."""

    def __init__(self, place: Path, own: str) -> None:
        self.mounted, self.own = place / "cgroup", place / "own"
        self.mounted.mkdir()
        self.own.write_text(own)

    def second(self, group: str, limit: object, used: int, **stat: int) -> None:
        self._write(self.mounted / group, {"memory.max": limit, "memory.current": used}, stat)

    def first(self, group: str, limit: int, used: int, **stat: int) -> None:
        files = {"memory.limit_in_bytes": limit, "memory.usage_in_bytes": used}
        self._write(self.mounted / "memory" / group, files, stat)

    @property
    def left(self) -> int:
        return _of_container(self.mounted, self.own)

    def _write(self, folder: Path, files: dict[str, object], stat: dict[str, int]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, value in files.items():
            (folder / name).write_text(f"{value}\n")
        (folder / "memory.stat").write_text("".join(f"{name} {value}\n" for name, value in stat.items()))


def test_what_is_available_is_the_less_of_machine_and_container(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 < available_memory() < 1 << 50
    machine = free_memory._of_machine()
    monkeypatch.setattr(free_memory, "_of_container", lambda *_: machine // 4)
    assert available_memory() == machine // 4


@pytest.mark.parametrize(("limit", "used", "left"), [(1000, 300, 700), (1000, 1300, 0), ("max", 300, _UNLIMITED)])
def test_a_container_of_its_own_is_a_root(tmp_path: Path, limit: object, used: int, left: int) -> None:
    groups = Groups(tmp_path, "0::/\n")
    assert groups.left == _UNLIMITED
    groups.second("", limit, used)
    assert groups.left == left


def test_pages_of_files_are_not_taken(tmp_path: Path) -> None:
    groups = Groups(tmp_path, "0::/\n")
    groups.second("", 16_000, 15_950, anon=1_000, inactive_file=9_000, active_file=5_000, shmem=500)
    assert groups.left == 16_000 - 1_950
    groups.second("", 16_000, 100, inactive_file=9_000)  # read one after the other, while it changes
    assert groups.left == 16_000


def test_pages_of_files_in_groups_of_the_first_version(tmp_path: Path) -> None:
    groups = Groups(tmp_path, "4:memory:/\n")
    # What stands under a plain name is of the group alone, and what is used is of all groups below it.
    groups.first("", 1_000, 900, inactive_file=1, active_file=2, total_inactive_file=400, total_active_file=300)
    assert groups.left == 800


@pytest.mark.parametrize("tightest", ["", "user.slice", "user.slice/job", "user.slice/job/step"])
def test_the_tightest_group_on_the_way_to_the_root_decides(tmp_path: Path, tightest: str) -> None:
    groups = Groups(tmp_path, "1:name=systemd:/elsewhere\n0::/user.slice/job/step\n")
    for group in ("", "user.slice", "user.slice/job", "user.slice/job/step", "user.slice/other", "elsewhere"):
        groups.second(group, 100_000, 10_000)
    for group in ("user.slice/other", "elsewhere"):
        groups.second(group, 500, 100)
    assert groups.left == 90_000
    groups.second(tightest, 1_000, 300)
    assert groups.left == 700


def test_groups_of_the_first_version_have_a_tree_of_their_own(tmp_path: Path) -> None:
    groups = Groups(tmp_path, "9:cpu,cpuacct:/a\n4:hugetlb,memory:/slurm/job\n0::/b\n")
    groups.first("", (1 << 63) - 4096, 10_000)
    assert groups.left > 1 << 61
    groups.first("slurm", 5_000, 1_000)
    groups.first("slurm/job", 3_000, 1_000)
    for other in ("a", "b"):
        groups.first(other, 10, 0)
    assert groups.left == 2_000


def test_a_path_that_only_the_host_has_leaves_the_root(tmp_path: Path) -> None:
    groups = Groups(tmp_path, "4:memory:/docker/0123abcd\n0::/../../init.scope\n")
    groups.second("", 2_000, 500)
    assert groups.left == 1_500
    groups.first("", 1_000, 100)
    assert groups.left == 900


def test_where_nobody_says_which_group_is_ours_the_root_is_asked(tmp_path: Path) -> None:
    groups = Groups(tmp_path, "")
    groups.own.unlink()
    groups.second("", 1_000, 300)
    assert groups.left == 700


@pytest.mark.parametrize(("left", "room"), [(1 << 30, True), (40 << 20, False)])
def test_a_call_is_compared_where_copies_of_what_it_gets_fit(
    monkeypatch: pytest.MonkeyPatch, left: int, room: bool
) -> None:
    monkeypatch.setattr(free_memory, "available_memory", lambda: left)
    weights = [torch.empty(1 << 20), torch.empty(1 << 20), 3, None]
    assert room_to_compare(weights) is room
    assert room_to_compare([torch.empty(1000), 3])


def test_memory_that_inputs_share_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_memory, "available_memory", lambda: 100 << 20)
    whole = torch.empty(1 << 20)
    assert room_to_compare([whole] * 20)
    assert not room_to_compare([torch.empty(1 << 20) for _ in range(20)])


def test_a_call_that_would_not_fit_is_left_alone_and_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    box = Outbox(tmp_path, Options())
    box.hello()
    record = SimpleNamespace(eager=object(), number=3, calls=1)

    def too_large() -> None:
        box.event("too-large", graph=record.number)

    inputs = [torch.ones(2)]
    assert numbers.before(Schedule(), record, inputs, too_large) is not None  # type: ignore[arg-type]
    assert summarise(tmp_path, 0).too_large == 0
    monkeypatch.setattr(numbers, "room_to_compare", lambda _: False)
    for _ in range(2):  # calls of one graph
        assert numbers.before(Schedule(), record, inputs, too_large) is None  # type: ignore[arg-type]
    summary = summarise(tmp_path, 0)
    assert summary.too_large == 1
    [note] = verdict.notes_of(Seen(summary, Ended(0, 1.0)))
    assert note.startswith("1 graph was too large to be compared with eager in the memory that is free")
