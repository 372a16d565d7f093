"""The step log, from the lines that a program leaves to those that a person reads."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from command_line import torch_script
from torchsleuth.watch import steps
from torchsleuth.watch.session import Options, Outbox
from torchsleuth.watch.steps import Follower, Writer, component_of


def log(folder: Path, rows: list[dict[str, object]], process: str = "7-1") -> Path:
    place = folder / "processes" / process
    place.mkdir(parents=True, exist_ok=True)
    with (place / steps.NAME).open("a") as file:
        file.writelines(json.dumps({"thread": 1, "id": "0/0", **row}) + "\n" for row in rows)
    return place / steps.NAME


ROWS: list[dict[str, object]] = [
    {"frame": "/a/skipped.py:1 in skipped", "at": 0.1},
    {"frame": "/a/model.py:3 in f", "at": 0.2},
    {"begins": "dynamo", "at": 0.2},
    {"begins": "bytecode_tracing", "at": 0.3},
    {"instruction": "/a/model.py:4: LOAD_FAST x", "at": 0.31},
    {"ends": "bytecode_tracing", "at": 0.32},
    {"begins": "GraphLowering.run", "at": 0.4},
    {"ends": "GraphLowering.run", "at": 0.9},
    {"ends": "dynamo", "at": 1.0},
]


def test_steps_are_told_as_they_come_with_the_frame_that_is_compiled(tmp_path: Path) -> None:
    said: list[str] = []
    follower = Follower(tmp_path, said.append)
    log(tmp_path, ROWS[:4])
    follower.look()
    assert [line.split("]")[1].strip() for line in said] == [
        "dynamo: dynamo of /a/model.py:3 in f",
        "dynamo: bytecode_tracing",
    ]
    assert follower.unfinished() == "bytecode_tracing"
    log(tmp_path, ROWS[4:])
    follower.look()
    assert [line.split("]")[1].strip() for line in said[2:]] == [
        "/a/model.py:4: LOAD_FAST x",
        "inductor: GraphLowering.run",
        "GraphLowering.run ended after 0.500 s",
        "dynamo ended after 0.800 s",
    ]  # a short step without steps of its own has no line for its end
    assert follower.unfinished() is None


def test_a_step_that_an_exception_went_through_is_over_with_the_one_around_it(tmp_path: Path) -> None:
    follower = Follower(tmp_path, lambda _: None)
    log(tmp_path, [*ROWS[2:4], {"ends": "dynamo", "at": 1.0}])
    follower.look()
    assert follower.unfinished() is None


def test_a_step_that_fails_is_told_with_its_error_on_one_line(tmp_path: Path) -> None:
    said: list[str] = []
    failing = [
        *ROWS[2:4],
        {"begins": "GraphLowering.run", "at": 0.4},
        {"ends": "GraphLowering.run", "at": 0.41, "error": "CppCompileError"},
        {"begins": "async_compile", "at": 0.42},  # its end is not timed
        {"ends": "dynamo", "at": 0.8, "error": "InductorError"},
    ]
    follower = Follower(tmp_path, said.append)
    log(tmp_path, failing)
    follower.look()
    assert [line.split("]")[1].strip() for line in said if "began" not in line][2:] == [
        "inductor: GraphLowering.run",
        "GraphLowering.run failed: CppCompileError after 0.010 s",
        "inductor: async_compile",
        "async_compile failed: InductorError after 0.380 s",
        "bytecode_tracing failed: InductorError after 0.500 s",
        "dynamo failed: InductorError after 0.600 s",
    ]
    assert follower.unfinished() is None


class SkipFrame(Exception):
    """By this name Dynamo tells its caller to run a frame in eager."""


def steps_of(tmp_path: Path, error: BaseException | None, *, around: BaseException | None = None) -> list[str]:
    """What is said of one step that raises `error`, while the program handles `around`."""
    writer = Writer(Outbox(tmp_path, Options(log="steps")))

    def step() -> None:
        writer.begins("inductor")
        try:
            if error is not None:
                raise error
        finally:
            writer.begins("inner")
            writer.ends("inner")
            writer.ends("inductor")

    with contextlib.suppress(type(error) if error is not None else ()):
        if around is None:
            step()
        else:
            try:
                raise around
            except type(around):
                step()
    said: list[str] = []
    Follower(tmp_path, said.append).look()
    return [" ".join(line.split()[1:-2]) for line in said if " after " in line]


def test_the_error_on_its_way_out_is_the_one_that_the_step_failed_with(tmp_path: Path) -> None:
    assert steps_of(tmp_path / "1", None) == ["inductor ended after"]
    assert steps_of(tmp_path / "2", ZeroDivisionError()) == ["inductor failed: ZeroDivisionError after"]
    assert steps_of(tmp_path / "3", None, around=KeyError()) == ["inductor ended after"]
    assert steps_of(tmp_path / "4", ValueError(), around=KeyError()) == ["inductor failed: ValueError after"]
    assert steps_of(tmp_path / "5", SkipFrame()) == ["inductor ended after"]


@pytest.mark.slow
def test_a_compilation_that_fails_is_told_where_it_fails(run_cli, tmp_path: Path) -> None:
    script = torch_script(
        tmp_path,
        """
        import torch._inductor.config
        torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"
        torch.compile(torch.relu)(torch.ones(2))
        """,
    )
    done = run_cli("run", "--log", "steps", "--no-minimize", "--budget", "1", script)
    failed = [line for line in done.stderr.splitlines() if " failed: " in line]
    assert failed, done.stderr
    assert all("Error after " in line for line in failed)
    assert not [line for line in done.stderr.splitlines() if "compile_fx_inner ended" in line]


def test_half_a_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    said: list[str] = []
    follower = Follower(tmp_path, said.append)
    path = log(tmp_path, ROWS[2:3])
    whole = path.read_text()
    path.write_text(whole[:10])
    follower.look()
    assert said == []
    path.write_text(whole)
    follower.look()
    assert len(said) == 1


def test_several_processes_are_told_apart(tmp_path: Path) -> None:
    said: list[str] = []
    log(tmp_path, ROWS[2:3], "7-1")
    log(tmp_path, ROWS[2:3], "8-2")
    follower = Follower(tmp_path, said.append)
    follower.look()
    log(tmp_path, ROWS[3:4], "8-2")
    follower.look()
    assert said[-1].startswith("8 ")


@pytest.mark.parametrize(
    ("step", "component"),
    [
        ("dynamo", "dynamo"),
        ("aot_trace_joint_graph", "aot"),
        ("min_cut_rematerialization_partition", "partitioner"),
        ("pass.post_grad_passes.remove_noop_ops", "inductor"),
        ("my_backend", "backend"),
    ],
)
def test_a_step_belongs_to_a_component(step: str, component: str) -> None:
    assert component_of(step) == component


def test_what_a_program_writes_is_what_the_tool_reads(tmp_path: Path) -> None:
    writer = Writer(Outbox(tmp_path, Options(log="debug")))
    writer.frame("/a/model.py:3 in f")
    writer.begins("dynamo")
    writer.instruction("/a/model.py", 4, "LOAD_FAST 'x'")
    writer.ends("dynamo")
    said: list[str] = []
    Follower(tmp_path, said.append).look()
    assert "dynamo of /a/model.py:3 in f" in said[0]
    assert said[1].endswith("/a/model.py:4: LOAD_FAST 'x'")
