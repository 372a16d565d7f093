"""Lookups in torch's caches, and graphs that were compiled without torch.compile."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from traces import artifact, beginning, ended, explained, graph, line, started, whole

from command_line import environment_without_torch_settings, explain_command, torch_script
from torchsleuth.explain.as_json import to_json
from torchsleuth.explain.cache_lookups import Cache, State
from torchsleuth.write.explained import text
from torchsleuth.write.page_explain import explain_page

BYPASS = json.dumps({"cache_state": "bypass", "cache_bypass_reason": "Can't cache HigherOrderOperator:\n cond"})
AOTI = (
    line({"artifact": {"name": "before_pre_grad_graph"}}, "    relu = torch.relu(x)")
    + line(
        {"aot_inference_graph": {}}, "    relu = torch.ops.aten.relu.default(x)\n    add = torch.ops.aten.add(relu, 1)"
    )
    + line({"graph_dump": {"name": "inductor_aot_wrapper_code"}}, "#include")
    + line({"graph_dump": {"name": "inductor_aot_kernel_code"}}, "// kernels")
)
MEASURED = line({"compilation_metrics": {"duration_us": None}})


def test_hits_misses_and_bypasses(tmp_path: Path) -> None:
    found = explained(
        tmp_path, beginning(), whole("0/0"), artifact("0/0", "aotautograd_cache_hit", "{}"),
        artifact("0/0", "fx_graph_cache_hit", "{}"), artifact("0/0", "fx_graph_cache_hit", "{}"),
        artifact("0/0", "fx_graph_cache_miss", "{}"), whole("1/0", "other", first=30),
        artifact("1/0", "fx_graph_cache_bypass", BYPASS),
    )  # fmt: skip
    assert found.caches.numbers == {
        Cache.AOTAUTOGRAD: {State.HIT: 1},
        Cache.FX_GRAPH: {State.HIT: 2, State.MISS: 1, State.BYPASS: 1},
    }
    data = to_json(found, version="0", command=(), exit_code=0)
    assert data["caches"]["fx_graph"] == {"hit": 2, "miss": 1, "bypass": 1}
    reason = "Can't cache HigherOrderOperator: cond"
    assert data["caches"]["bypasses"] == [{"cache": "fx_graph", "function": "other", "reason": reason, "count": 1}]
    told = "\n".join(text(data))
    assert "FX graph cache     2 hits, 1 miss, 1 bypass" in told
    assert f"FX graph cache bypassed for other (once): {reason}" in told
    assert "2 hits, 1 miss, 1 bypass" in explain_page(data)


def test_a_bypass_whose_reason_is_damaged(tmp_path: Path) -> None:
    broken = artifact("0/0", "fx_graph_cache_bypass", BYPASS).replace("HigherOrder", "Higher")
    data = to_json(explained(tmp_path, beginning(), whole("0/0"), broken), version="0", command=(), exit_code=0)
    assert data["caches"]["bypasses"][0]["reason"] is None
    assert "torch gave no reason that can be read" in "\n".join(text(data))


def test_no_lookup_is_told_of_a_program_that_had_none(tmp_path: Path) -> None:
    data = to_json(explained(tmp_path, beginning(), whole("0/0")), version="0", command=(), exit_code=0)
    assert data["caches"] == {"bypasses": []}
    assert "Caches" not in "\n".join(text(data))


def test_what_has_no_frame_is_told_as_what_it_is(tmp_path: Path) -> None:
    found = explained(tmp_path, beginning(), AOTI, MEASURED, AOTI)
    assert [(g.what, g.ops) for g in found.outside] == [("AOTInductor", 2), ("AOTInductor", 2)]
    data = to_json(found, version="0", command=(), exit_code=0)
    told = list(text(data))
    assert told[0] == "torchsleuth: no torch.compile; 2 graphs without it"
    assert "  AOTInductor: 2 operators" in told
    assert "Nothing was compiled with torch.compile; 2 graphs without it." in explain_page(data)


def test_two_graphs_without_a_measurement_between_them(tmp_path: Path) -> None:
    assert len(explained(tmp_path, beginning(), AOTI, AOTI).outside) == 2


def test_measurements_alone_are_no_graph(tmp_path: Path) -> None:
    assert explained(tmp_path, beginning(), whole("0/0"), MEASURED).outside == ()


def test_a_compilation_without_a_frame_that_failed(tmp_path: Path) -> None:
    failed = line({"compilation_metrics": {"duration_us": 2e6, "fail_type": "InductorError", "fail_reason": "no g++"}})
    (made,) = explained(tmp_path, beginning(), AOTI, failed).outside
    assert (made.failed, made.seconds) == ("InductorError: no g++", 2.0)


def test_compiled_autograd_has_a_number_and_no_frame(tmp_path: Path) -> None:
    captured = line({"compiled_autograd_graph": {}, "compiled_autograd_id": 0}, "    sin = torch.sin(x)")
    (made,) = explained(tmp_path, beginning(), captured).outside
    assert (made.what, made.ops, made.id) == ("compiled autograd", 1, "!0")


def test_a_capture_without_a_frame_is_no_function(tmp_path: Path) -> None:
    """As torch.export(strict=True) leaves it; where the trace is cut, nobody knows."""
    captured = graph("0/0", "torch.relu(x)", "x + 1")
    found = explained(tmp_path, beginning(), captured)
    assert ([(g.what, g.ops) for g in found.outside], found.frames, found.not_known) == ([("Dynamo", 2)], (), ())
    cut = explained(tmp_path, captured)
    assert (cut.outside, len(cut.frames)) == ((), 1)


@pytest.mark.parametrize("name", ["trace.log", "trace.txt", "trace"])
def test_a_trace_given_by_the_name_of_its_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(beginning() + whole("0/0"), encoding="utf-8")
    done = explain_command(tmp_path, name, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert "torchsleuth: 1 graph, 1 operator" in done.stdout


def test_a_trace_cut_within_a_long_payload_is_still_one(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("\tpayload\n" * 50_000 + whole("1/0"), encoding="utf-8")
    done = explain_command(tmp_path, "x.txt", env=os.environ)
    assert "torchsleuth: at least 1 graph" in done.stdout
    assert "x.txt begins: it is cut at its start" in done.stdout


def test_a_file_that_is_no_trace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("hello\n", encoding="utf-8")
    done = explain_command(tmp_path, "x.txt", env=os.environ)
    assert done.returncode == 2
    assert "x.txt holds no trace" in done.stderr


def test_a_folder_of_traces_under_other_names(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "one.txt").write_text(beginning() + started("0/0") + graph("0/0", "x + 1") + ended("0/0"))
    assert explain_command(tmp_path, "kept", env=os.environ).returncode == 0


@pytest.mark.slow
def test_ahead_of_time(tmp_path: Path) -> None:
    source = """
    class M(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x) + 1

    torch._inductor.aoti_compile_and_package(torch.export.export(M(), (torch.ones(2, 4),)))
    """
    done = explain_command(tmp_path, torch_script(tmp_path, source).name, env=environment_without_torch_settings())
    assert done.returncode == 0, done.stderr
    assert "AOTInductor: 2 operators" in done.stdout
