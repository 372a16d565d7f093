"""The trace, read from text: records, breaks, guards that failed, time.  No torch is needed."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from torchsleuth.explain.break_text import BreakText, Place, is_machinery, parse_break, plain_function, resumed_at
from torchsleuth.explain.compiles import Collector
from torchsleuth.explain.gather import gather
from torchsleuth.explain.guard_failures import parse_reason
from torchsleuth.explain.kernels import kernel_lines
from torchsleuth.explain.operators import operators_of
from torchsleuth.explain.reasons import meaning
from torchsleuth.explain.records import Reading, Record, parse
from torchsleuth.explain.times import Clock, Perfetto, step_of


def line(data: dict[str, Any], payload: str = "", process: int = 7) -> str:
    head = f"V1115 11:41:53.446000 {process} torch/_dynamo/utils.py:2350] {json.dumps(data)}\n"
    return head + "".join(f"\t{each}\n" for each in payload.splitlines())


def at(compile_id: str, **data: Any) -> dict[str, Any]:
    frame, _, number = compile_id.partition("/")
    return {**data, "frame_id": int(frame), "frame_compile_id": int(number), "attempt": 0}


def started(compile_id: str, name: str = "toy", first: int = 9) -> str:
    return line(at(compile_id, dynamo_start={"stack": [{"line": first, "name": name, "filename": 1}]}))


FILES = line({"str": ["/home/me/train.py", 1]})
BREAK = """Graph break in user code at /home/me/train.py:12
Graph Break Reason: Encountered graph break when attempting to trace CALL: a function call, e.g. f(x, y):

Failed to trace builtin operator
  Explanation: Dynamo does not know how to trace builtin operator `print` with argument types ['str'] (has_kwargs False)
  Hint: Avoid calling builtin `print` with argument types ['str'].
  Hint: Please report an issue to PyTorch.

  Developer debug context: builtin print [<class 'ConstantVariable'>] False

User code traceback:
  File "/home/me/train.py", line 34, in <module>
    toy(torch.randn(10))
  File "/home/me/train.py", line 12, in torch_dynamo_resume_in_toy_at_11
    print("woo")

Traceback (most recent call last):
  File "/lib/torch/_dynamo/symbolic_convert.py", line 1076, in wrapper
    return inner_fn(self, inst)
"""


def collected(*lines: str) -> Collector:
    collector = Collector(Reading())
    collector.take(parse(io.StringIO("".join(lines)), collector.reading))
    return collector


def test_records_have_their_payload() -> None:
    text = FILES + line(at("2/1", artifact={"name": "recompile_reasons"}), "one\n\ttwo") + line({"other": {}})
    reading = Reading()
    first, second = parse(io.StringIO(text), reading)
    assert (first.name, first.payload, first.compile_id, first.process) == (
        "recompile_reasons",
        "one\n\ttwo\n",
        "2/1",
        "7",
    )
    assert (second.kind, second.payload, second.compile_id) == ("other", "", "")
    assert reading.file("7", 1) == "/home/me/train.py"
    assert reading.file("8", 1) == "/home/me/train.py"  # a fork goes on with its parent's names
    assert reading.broken_lines == 0


def test_ranks_are_told_apart() -> None:
    text = "[rank1]:" + line({"other": {}})
    assert [r.process for r in parse(io.StringIO(text), Reading())] == ["7 rank 1"]


@pytest.mark.parametrize(
    "broken",
    ["garbage\n", 'V1115 11:41:53.446000 7 a.py:1] {"cut": ', "\x00\x01\n", "V1115 11:41:53.446000 7 a.py:1] []\n"],
)
def test_a_broken_line_is_counted_and_left_out(broken: str) -> None:
    collector = collected(
        FILES, started("0/0"), broken if broken.endswith("\n") else broken + "\n", started("1/0", "other")
    )
    assert [c.function for c in collector.compiles] == ["toy", "other"]
    assert collector.reading.broken_lines == 1


def test_a_record_of_another_shape_is_counted_too() -> None:
    collector = collected(FILES, line(at("0/0", dynamo_start={"stack": []})), started("1/0"))
    assert collector.reading.broken_lines == 1
    assert collector.compiles[-1].function == "toy"


def test_a_break_is_read() -> None:
    found = parse_break(BREAK)
    assert found.kind == "Failed to trace builtin operator"
    assert found.place == Place("/home/me/train.py", 12, "toy")
    assert [p.line for p in found.stack] == [34, 12]
    assert (found.in_loop, found.gave_up) == (False, False)
    assert meaning(found).reason == "print()"


def test_a_break_in_a_loop_keeps_its_first_cause() -> None:
    head, _, rest = BREAK.partition("\nUser code")
    text = (
        head.replace("Encountered graph break", "Skipping the function and falling back to eager. Graph break")
        + "\n*** While handling this graph break, another graph break occurred: ***\n\ngraph break in loop\n"
        "  Explanation: torch.compile detected a graph break in a for/while loop.\n\nUser code" + rest
    )  # fmt: skip
    found = parse_break(text)
    assert (found.in_loop, found.gave_up) == (True, True)
    assert meaning(found).reason == "print()"


def test_the_line_that_can_be_changed_is_named() -> None:
    stack = (
        Place("/home/me/train.py", 5, "f"),
        Place("/home/me/venv/lib/python3.11/site-packages/transformers/model.py", 7, "g"),
        Place("/usr/lib/python3.11/copy.py", 153, "deepcopy"),
    )
    found = BreakText("x", "", "", (), stack, False, False)
    assert found.place == stack[1]
    assert is_machinery("/a/lib/python3.12/site-packages/torch/nn/modules/module.py")
    assert not is_machinery("/a/lib/python3.12/site-packages/torchvision/ops.py")


def test_what_is_not_in_the_table_keeps_torchs_words() -> None:
    found = BreakText("Something new", "", "", ("Please report an issue.", "Do this instead."), (), False, False)
    assert (meaning(found).reason, meaning(found).advice) == ("Something new", "Do this instead.")


def test_functions_that_go_on_after_a_break_belong_to_the_first() -> None:
    assert plain_function("torch_dynamo_resume_in_torch_dynamo_resume_in_toy_at_3_at_5") == "toy"
    assert resumed_at("torch_dynamo_resume_in_toy_at_12") == 12
    assert resumed_at("toy") is None


def test_the_last_break_of_a_compilation_is_the_one_that_stays() -> None:
    reason = {"artifact": {"name": "dynamo_graph_break_reason"}}
    other = BREAK.replace(":12", ":13").replace("line 12", "line 13")
    collector = collected(FILES, started("0/0"), line(at("0/0", **reason), BREAK), line(at("0/0", **reason), other))
    met = collector.compiles[0].met
    assert met is not None
    assert met.place.line == 13


def test_numbers_that_begin_anew_are_other_compilations() -> None:
    collector = collected(FILES, started("0/0", "toy"), started("0/0", "other"))
    assert [(c.function, c.again) for c in collector.compiles] == [("toy", 0), ("other", 1)]


@pytest.mark.parametrize(
    ("text", "cause", "subject", "values"),
    [
        ("4/1: tensor 'x' size mismatch at index 0. expected 3, actual 5", "tensor 'x' size mismatch at index 0",
         "x.size()[0]", ("3", "5")),
        ("4/0: scale == 0.5      # return x * scale  # exp/p1.py:19 in grow", "scale == 0.5", "scale", ("0.5",)),
        ("1/0: tensor 'x' dtype mismatch. expected Float, actual Double", "tensor 'x' dtype mismatch", "x.dtype",
         ("Float", "Double")),
        ("1/0: tensor 'x' requires_grad mismatch. expected requires_grad=1", "tensor 'x' requires_grad mismatch",
         "x.requires_grad", ("True",)),
        ("1/0: GLOBAL_STATE changed: x", "GLOBAL_STATE changed: x", "GLOBAL_STATE changed: x", ()),
    ],
)  # fmt: skip
def test_guards_that_failed(text: str, cause: str, subject: str, values: tuple[str, ...]) -> None:
    found = parse_reason(text)
    assert (found.guard, found.subject, found.values) == (cause, subject, values)


def test_a_guard_names_the_users_line() -> None:
    text = '4/0: scale == 0.5  # x\nUser stack trace:\n  File "/home/me/train.py", line 19, in grow\n    return x\n'
    assert parse_reason(text).place == Place("/home/me/train.py", 19, "grow")


def test_the_new_value_is_the_cause_and_not_the_newest_entry(tmp_path: Path) -> None:
    """float, then double, then float of another rank: the third is there because of the rank."""
    name = {"artifact": {"name": "recompile_reasons"}}
    dtype = "0/0: tensor 'x' dtype mismatch. expected Float, actual Double"
    both = json.dumps(["0/1: tensor 'x' dtype mismatch. expected Double, actual Float",
                       "0/0: tensor 'x' rank mismatch. expected 1, actual 2"])  # fmt: skip
    path = tmp_path / "trace.log"
    path.write_text(
        FILES + started("0/0") + line(at("0/1", **name), dtype) + started("0/1") + line(at("0/2", **name), both)
        + started("0/2")
    )  # fmt: skip
    assert {r.cause: r.count for r in gather([path]).recompiles} == {
        "tensor 'x' dtype mismatch": 1,
        "tensor 'x' rank mismatch": 1,
    }


def test_operators_of_a_printed_graph() -> None:
    assert operators_of(
        """class GraphModule(torch.nn.Module):
    def forward(self, L_a_: "f32[10][1]cpu"):
        l_a_ = L_a_

        # File: train.py:11 in toy, code: x = a / (torch.abs(a) + 1)
        weight: "f32[3]" = self.weight
        abs_1: "f32[10][1]cpu" = torch.abs(l_a_)
        add: "f32[10][1]cpu" = abs_1 + 1;  abs_1 = None
        _enter = torch.amp.autocast_mode._enter_autocast('cpu', None, True, None)
        return (add,)
"""
    ).counts == (("+", 1), ("torch.abs", 1), ("torch.amp.autocast_mode._enter_autocast", 1))


def event(name: str, phase: str, now: float, compile_id: str = "0/0") -> Record:
    return Record("chromium_event", {}, json.dumps({"name": name, "ph": phase, "ts": now}), "7", compile_id, 0)


def test_time_is_that_of_the_step_alone() -> None:
    clock = Clock()
    for name, phase, now in (
        ("dynamo", "B", 0), ("backend_compile", "B", 1e6), ("GraphLowering.run", "B", 2e6),
        ("GraphLowering.run", "E", 5e6),
        ("backend_compile", "E", 6e6), ("dynamo", "E", 10e6),
    ):  # fmt: skip
        clock.take(event(name, phase, now), "k")
    assert clock.steps == {"lowering": 3.0, "AOTAutograd": 2.0, "Dynamo": 5.0}


def test_time_of_helper_threads_is_not_counted_twice() -> None:
    clock = Clock()
    clock.take(event("async_compile.wait", "B", 0), "k")
    clock.take(event("compile_file", "B", 1, compile_id=""), "")
    clock.take(event("async_compile.wait", "E", 4e6), "k")
    clock.take(event("compile_file", "E", 9e6, compile_id=""), "")
    assert clock.steps == {"kernel compile": 4.0}


def test_a_step_whose_end_was_lost_does_not_stop_the_clock() -> None:
    clock = Clock()
    for name, phase, now in (("dynamo", "B", 0), ("lost", "B", 1e6), ("dynamo", "E", 2e6), ("never begun", "E", 3e6)):
        clock.take(event(name, phase, now), "k")
    assert sum(clock.steps.values()) == 2.0


@pytest.mark.parametrize(
    ("name", "step"),
    [("post_grad_passes", "passes"), ("async_compile.wait", "kernel compile"), ("Scheduler.codegen", "scheduling"),
     ("create_aot_dispatcher_function", "AOTAutograd"), ("build_guards", "guards"), ("something else", "Dynamo")],
)  # fmt: skip
def test_steps_are_named(name: str, step: str) -> None:
    assert step_of(name) == step


def test_the_file_for_perfetto_is_json() -> None:
    file = io.StringIO()
    perfetto = Perfetto(file)
    one = event("dynamo", "B", 1)
    perfetto.take(one, json.loads(one.payload))
    perfetto.close()
    assert [e["name"] for e in json.loads(file.getvalue())["traceEvents"]] == ["process_name", "dynamo"]


def test_an_empty_trace_explains_nothing(tmp_path: Path) -> None:
    (tmp_path / "t.log").write_text("")
    found = gather([tmp_path / "t.log"], None, tmp_path)
    assert (found.graph_count, found.breaks, found.frames) == (0, (), ())
    assert json.loads((tmp_path / "trace.json").read_text()) == {"traceEvents": []}


def test_kernels_lead_to_the_users_lines() -> None:
    graph = """
        # File: /home/me/train.py:15 in forward, code: return x + self.down(y)
        linear: "f32[4, 16]" = torch._C._nn.linear(l_y_, w, b);  l_y_ = None
        add: "f32[4, 16]" = l_x_ + linear
        # File: /home/me/train.py:16 in forward, code: z.sin()
        sin: "f32[4, 16]" = add.sin()
"""
    generated = """cpp_fused_add_0 = async_compile.cpp_pybinding(['float*'])
    def call(self, args):
        # Topologically Sorted Source Nodes: [linear], Original ATen: [aten.t, aten.addmm]
        extern_kernels.addmm(primals_2, alpha=1, out=buf0)
        buf1 = buf0; del buf0  # reuse
        cpp_fused_add_0(buf1, primals_4)
        triton_poi_fused_odd_1.run(buf1)
        return (buf1,)
"""
    assert list(kernel_lines(graph, generated)) == [
        "extern_kernels.addmm  <-  linear  <-  /home/me/train.py:15: return x + self.down(y)",
        "cpp_fused_add_0  <-  add  <-  /home/me/train.py:15: return x + self.down(y)  (by name)",
        "triton_poi_fused_odd_1  <-  ?",
    ]
