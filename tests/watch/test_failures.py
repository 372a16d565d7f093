"""What is a failure, what is none, and what is kept of one.  In this process, with `torchsleuth.watching()`."""

from __future__ import annotations

import contextlib
import functools
import gc
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo
from torch._dynamo.backends.common import aot_autograd
from watched import Program, Watch

import torchsleuth
from torchsleuth.backends import faulty
from torchsleuth.case import folder, tensors
from torchsleuth.case.failure import Kind, Phase
from torchsleuth.case.model import Case, Role, Scalar, Tensor
from torchsleuth.watch import guarded
from torchsleuth.watch.found import Found, summarise

pytestmark = pytest.mark.slow


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    return Watch(tmp_path)


def inputs_of(found: Found, case: Case) -> list[torch.Tensor]:
    assert found.case is not None
    plain = [i for i in case.inputs if isinstance(i, Tensor)]
    return tensors.load(found.case, plain, case.storages)


def relu(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) + 1


def fails(message: str = "no kernel") -> Callable[..., Any]:
    """A backend that compiles nothing."""

    def backend(gm: torch.fx.GraphModule, inputs: Sequence[Any], **kwargs: Any) -> Any:
        raise ValueError(message)

    return backend


def fails_after_running(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """A backend whose code does all that the graph does, and then fails."""

    def run(*args: Any) -> Any:
        gm(*args)
        raise ValueError("failed at run time")

    return run


# --- backends -------------------------------------------------------------------------------------------------------
def with_tag(gm: torch.fx.GraphModule, inputs: Sequence[Any], tag: str = "", **kwargs: Any) -> Any:
    raise ValueError(f"{tag} fails")


class Compiler:
    def __init__(self, level: int) -> None:
        self.level = level

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any], **kwargs: Any) -> Any:
        raise ValueError("compiler fails")


def test_a_backend_by_its_name_with_its_options(watch: Watch) -> None:
    options = {"op": "relu", "kind": "compile-error"}
    _, case = watch.one(lambda: torch.compile(relu, backend="sleuth_faulty", options=options)(torch.ones(2)))
    backend = case.surroundings.backend
    assert (backend.name, backend.registered, backend.options, backend.code) == ("sleuth_faulty", True, options, None)


def test_a_function_with_options_and_mode(watch: Watch) -> None:
    for given in ({"mode": "reduce-overhead"}, {"options": {"level": 3}}):
        _, case = watch.one(lambda given=given: torch.compile(relu, backend=with_tag, **given)(torch.ones(2)))
        backend = case.surroundings.backend
        assert (backend.name, backend.registered) == ("with_tag", False)
        assert (backend.mode, dict(backend.options)) == (given.get("mode"), given.get("options", {}))
        assert backend.code is not None
        assert "def with_tag" in backend.code.source


@pytest.mark.parametrize(
    ("backend", "source"),
    [(functools.partial(with_tag, tag="partial"), "tag='partial'"), (Compiler(7), "class Compiler")],
    ids=["partial", "object"],
)
def test_a_callable_object(watch: Watch, backend: Any, source: str) -> None:
    found, case = watch.one(lambda: torch.compile(relu, backend=backend)(torch.ones(2)))
    code = case.surroundings.backend.code
    assert not case.surroundings.backend.registered
    assert code is not None
    assert source in code.source + code.name
    assert found.failure.kind is Kind.COMPILE_ERROR


@pytest.fixture
def broken_lowering(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inductor without relu: fails long before a C++ compiler is needed."""
    from torch._inductor import lowering

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("relu is broken today")

    monkeypatch.setitem(lowering.lowerings, torch.ops.aten.relu.default, broken)


@pytest.mark.usefixtures("broken_lowering")
@torch._dynamo.config.patch(assume_static_by_default=False)
def test_inductor_with_options_and_the_configs_around(watch: Watch) -> None:
    options = {"epilogue_fusion": False, "max_autotune": False}

    def program() -> None:
        with torch._inductor.config.patch(force_disable_caches=True, pattern_matcher=False):
            torch.compile(relu, options=options)(torch.ones(2))

    found, case = watch.one(program)
    assert (case.surroundings.backend.name, case.surroundings.backend.options) == ("inductor", options)
    configs = {f"{module}.{entry}": value for module, entry, value in case.surroundings.configs}
    assert configs["torch._inductor.config.pattern_matcher"] is False
    assert configs["torch._dynamo.config.assume_static_by_default"] is False
    assert "relu is broken today" in found.failure.text
    assert "target: aten.relu.default" in found.failure.text
    assert found.case is not None
    assert (found.case / "inner" / "graph.py").exists()


@pytest.mark.usefixtures("broken_lowering")
def test_a_mode_of_inductor_is_the_options_it_stands_for(watch: Watch) -> None:
    def program() -> None:
        with torch._inductor.config.patch(force_disable_caches=True):
            torch.compile(relu, mode="max-autotune-no-cudagraphs")(torch.ones(2))

    _, case = watch.one(program)
    assert case.surroundings.backend.options["max_autotune"] is True


# --- failures, and what is none -------------------------------------------------------------------------------------
def test_a_failure_that_dynamo_swallows_is_found_and_marked(watch: Watch) -> None:
    seen = []
    with torch._dynamo.config.patch(suppress_errors=True):
        found, case = watch.one(lambda: seen.append(torch.compile(relu, backend=fails())(torch.ones(2))))
    assert torch.equal(seen[0], torch.full((2,), 2.0))
    assert found.swallowed
    assert not found.ended_program
    assert case.phase is Phase.COMPILE_FORWARD


def test_a_restart_for_a_float_argument_is_no_failure(watch: Watch) -> None:
    """AOTAutograd raises TensorifyScalarRestartAnalysis through the backend; Dynamo catches it and starts again."""
    compiled = torch.compile(lambda x, s: x * s + s, backend="aot_eager", dynamic=True)

    def program() -> None:
        for s in (1.5, 2.5, 3.5):
            assert torch.equal(compiled(torch.ones(3), s), torch.full((3,), 2 * s))
        raise AssertionError("it ran to its end")

    session = watch.session_of(program)
    summary = summarise(session, None)
    assert summary.found == ()
    assert summary.graphs >= 1


def test_a_frame_that_is_skipped_is_no_failure(watch: Watch) -> None:
    def skips(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        raise torch._dynamo.exc.SkipFrame("not worth it")

    seen = []

    def program() -> None:
        seen.append(torch.compile(lambda: 3, backend="eager")())
        seen.append(torch.compile(relu, backend=skips)(torch.ones(1)).item())

    assert watch(program) == ()
    assert seen == [3, 2.0]


def test_an_exception_that_may_become_a_graph_break_is_no_failure(watch: Watch) -> None:
    from torch._subclasses.fake_tensor import UnsupportedOperatorException

    def breaks(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        raise UnsupportedOperatorException(torch.ops.aten.relu.default)

    seen = []
    assert watch(lambda: seen.append(torch.compile(relu, backend=breaks)(torch.ones(1)).item())) == ()
    assert seen == [2.0]


def nop(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
    from functorch.compile import make_boxed_func

    return make_boxed_func(gm.forward)


@pytest.fixture
def no_backward() -> Callable[..., Any]:
    """A backend that cannot compile backwards."""
    return aot_autograd(fw_compiler=nop, bw_compiler=fails("no backward"))


def test_a_backward_compiled_early_and_never_run_is_no_failure(watch: Watch, no_backward: Any) -> None:
    """Under dynamic shapes AOTAutograd tries the backward with the forward, and says nothing if that fails."""
    compiled = torch.compile(lambda x: x.sin().view(-1, x.shape[0]), backend=no_backward, dynamic=True)
    outs: list[torch.Tensor] = []
    assert watch(lambda: outs.append(compiled(torch.ones(4, 3, requires_grad=True)))) == ()
    assert outs[0].shape == (3, 4)
    found = watch(lambda: compiled(torch.ones(4, 3, requires_grad=True)).sum().backward())
    assert [f.failure.phase for f in found] == [Phase.COMPILE_BACKWARD]


def test_ctrl_c_while_compiling_is_no_failure(watch: Watch) -> None:
    def impatient(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        raise KeyboardInterrupt

    def program() -> None:
        with pytest.raises(KeyboardInterrupt):
            torch.compile(relu, backend=impatient)(torch.ones(1))
        # What was interrupted is not held against what comes after.
        torch.compile(torch.sin, backend=aot_autograd(fw_compiler=nop, bw_compiler=fails("later")))(
            torch.ones(1, requires_grad=True)
        ).backward()

    found = watch(program)
    assert [(f.failure.phase, f.failure.fingerprint.message) for f in found] == [(Phase.COMPILE_BACKWARD, "later")]


def test_dynamos_own_error_has_no_graph(watch: Watch) -> None:
    def prints(x: torch.Tensor) -> torch.Tensor:
        print("a graph break")
        return x + 1

    [found] = watch(lambda: torch.compile(prints, fullgraph=True, backend="eager")(torch.ones(1)))
    assert (found.failure.kind, found.case) == (Kind.DYNAMO_ERROR, None)
    assert "in prints" in found.place
    assert "Unsupported" in found.failure.fingerprint.error


def test_the_same_failure_ten_times_is_one_and_another_is_another(watch: Watch) -> None:
    def program() -> None:
        for i in range(10):
            with contextlib.suppress(Exception):
                torch.compile(lambda x: torch.relu(x) + 1, backend=fails(f"no kernel {i}"))(torch.ones(2))
        with contextlib.suppress(Exception):
            torch.compile(relu, backend=fails("something else"))(torch.ones(2))
        torch.compile(relu, backend=fails_after_running)(torch.ones(2))

    found = watch(program)
    assert [f.failure.fingerprint.message for f in found] == ["no kernel N", "something else", "failed at run time"]
    assert len({f.case for f in found}) == 3


def test_a_program_that_fails_in_ever_new_ways_fills_no_disk(watch: Watch) -> None:
    def program() -> None:
        for word in "one two three four five".split():
            with contextlib.suppress(Exception):
                torch.compile(lambda x: x + 1, backend=fails(word))(torch.ones(2))

    assert len(watch(program, most_cases=3)) == 3


def test_a_compiled_function_inside_a_compiled_function(watch: Watch) -> None:
    inner = torch.compile(relu, backend=fails("inner"))

    @torch._dynamo.disable
    def between(x: torch.Tensor) -> torch.Tensor:
        return inner(x)

    def outer(x: torch.Tensor) -> torch.Tensor:
        return between(x * 2) + 1

    found = watch(lambda: torch.compile(outer, backend="aot_eager")(torch.ones(2)))
    assert [(f.failure.kind, f.failure.fingerprint.message) for f in found] == [(Kind.COMPILE_ERROR, "inner")]


def test_failures_of_several_threads(watch: Watch) -> None:
    def work(word: str) -> None:
        with contextlib.suppress(Exception):
            torch.compile(lambda x: torch.relu(x) + 1, backend=fails(word))(torch.ones(2))

    def program() -> None:
        threads = [threading.Thread(target=work, args=(w,)) for w in ("left", "right", "left", "middle")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    found = watch(program)
    assert sorted(f.failure.fingerprint.message for f in found) == ["left", "middle", "right"]
    for one in found:
        assert one.case is not None
        assert folder.load(one.case, ours=True).inputs


# --- what is kept ---------------------------------------------------------------------------------------------------
def test_inputs_that_the_graph_writes_are_kept_as_they_were(watch: Watch) -> None:
    x = torch.arange(4.0)
    found, case = watch.one(lambda: torch.compile(lambda x: x.add_(1) * 2, backend=fails_after_running)(x))
    assert x.tolist() == [1, 2, 3, 4]
    assert inputs_of(found, case)[0].tolist() == [0, 1, 2, 3]
    assert case.phase is Phase.RUN_FORWARD
    assert found.failure.kind is Kind.RUNTIME_ERROR


def test_a_device_that_died_with_the_failure_leaves_sizes_and_is_no_trouble_of_ours(
    watch: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dead(*_: Any, **__: Any) -> Any:
        raise torch.AcceleratorError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(tensors, "save", dead)
    log = tmp_path / "trouble.log"
    monkeypatch.setattr(guarded, "_log", log)
    _, case = watch.one(lambda: torch.compile(relu, backend=fails_after_running)(torch.arange(4.0)))
    assert [(i.shape, i.dtype) for i in case.inputs if isinstance(i, Tensor)] == [((4,), "torch.float32")]
    assert not log.exists()


def test_inputs_that_share_memory_are_kept_so(watch: Watch) -> None:
    base = torch.arange(8.0)

    def f(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        a.mul_(10)
        return b.sum() + c

    arguments = (base[2:6], base[4:], torch.ones(1))
    found, case = watch.one(lambda: torch.compile(f, backend=fails_after_running)(*arguments))
    a, b, c = inputs_of(found, case)
    assert base.tolist() == [0, 1, 20, 30, 40, 50, 6, 7]
    assert (a.tolist(), b.tolist()) == ([2, 3, 4, 5], [4, 5, 6, 7])
    assert a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() != c.untyped_storage().data_ptr()
    assert (a.storage_offset(), b.storage_offset()) == (2, 4)


def test_a_written_input_with_history_is_no_leaf(watch: Watch) -> None:
    leaf = torch.ones(3, requires_grad=True)
    found, case = watch.one(lambda: torch.compile(lambda x: x.mul_(2).sum(), backend=fails_after_running)(leaf * 1.0))
    [tensor] = case.inputs
    assert isinstance(tensor, Tensor)
    assert (tensor.requires_grad, tensor.leaf) == (True, False)
    assert inputs_of(found, case)[0].tolist() == [1, 1, 1]


def test_strides_and_conjugates_are_kept(watch: Watch) -> None:
    x = torch.arange(6.0).reshape(2, 3).t()
    z = torch.tensor([1 + 2j]).conj()
    found, case = watch.one(lambda: torch.compile(lambda x, z: x.sum() + z.real, backend=fails_after_running)(x, z))
    kept = inputs_of(found, case)
    assert kept[0].stride() == (1, 3)
    assert torch.equal(kept[0], x)
    assert kept[1].is_conj()
    assert kept[1].item() == 1 - 2j


def test_symbolic_sizes_have_the_values_of_the_call_that_failed(watch: Watch) -> None:
    calls = []

    def fails_on_the_second_call(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        def run(*args: Any) -> Any:
            calls.append(len(args))
            if len(calls) == 2:
                raise ValueError("not again")
            return gm(*args)

        return run

    compiled = torch.compile(lambda x: x * x.shape[0], backend=fails_on_the_second_call, dynamic=True)

    def program() -> None:
        compiled(torch.ones(5, 3))
        compiled(torch.full((7, 3), 2.0))

    found, case = watch.one(program)
    [size] = [i for i in case.inputs if isinstance(i, Scalar) and i.value == 7]
    [tensor] = [i for i in case.inputs if isinstance(i, Tensor)]
    assert size.symbol
    assert (tensor.shape, 0 in tensor.dynamic) == ((7, 3), True)
    assert inputs_of(found, case)[0].tolist() == [[2.0] * 3] * 7
    assert case.surroundings.dynamic is True


def test_parameters_and_buffers_have_their_roles(watch: Watch) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    _, case = watch.one(lambda: torch.compile(model, backend=fails())(torch.ones(4, 2)))
    roles = {i.source.rpartition("'")[0].rpartition("'")[2]: i.role for i in case.inputs if isinstance(i, Tensor)}
    assert roles["weight"] is roles["bias"] is Role.PARAMETER
    assert roles["running_mean"] is roles["num_batches_tracked"] is Role.BUFFER
    arguments = [i for i in case.inputs if isinstance(i, Tensor) and i.role is Role.ARGUMENT]
    assert [a.shape for a in arguments] == [(4, 2)]


def test_running_statistics_are_kept_as_they_were(watch: Watch) -> None:
    norm = torch.nn.BatchNorm1d(3)
    found, case = watch.one(lambda: torch.compile(norm, backend=fails_after_running)(torch.ones(4, 3)))
    plain = [i for i in case.inputs if isinstance(i, Tensor)]
    kept = dict(zip((i.source for i in plain), inputs_of(found, case), strict=True))
    [mean] = [v for k, v in kept.items() if "running_mean" in k]
    assert norm.running_mean is not None
    assert norm.running_mean.tolist() != [0, 0, 0]
    assert mean.tolist() == [0, 0, 0]


def test_the_modes_around_are_kept(watch: Watch) -> None:
    def program() -> None:
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            torch.compile(relu, backend=fails())(torch.ones(2))

    _, case = watch.one(program)
    assert not case.surroundings.grad
    assert [(a.device, a.dtype) for a in case.surroundings.autocast] == [("cpu", "torch.bfloat16")]


def test_no_more_bytes_are_kept_than_the_cap_allows(watch: Watch) -> None:
    big, small = torch.ones(1000), torch.ones(4)
    found, case = watch.one(
        lambda: torch.compile(lambda a, b: a.sum() + b, backend=fails_after_running)(big, small), data_cap=100
    )
    kept = {s.nbytes: s for s in case.storages}
    assert kept[16].kept
    assert not kept[4000].kept
    assert len(kept[4000].digest) == 32
    assert found.case is not None
    assert (found.case / "tensors.safetensors").stat().st_size < 1000


@pytest.mark.parametrize("backend", ["aot_eager", fails_after_running, fails()], ids=["healthy", "run", "compile"])
def test_no_input_is_held_past_its_call(watch: Watch, backend: Any) -> None:
    alive: list[weakref.ref[torch.Tensor]] = []

    def program() -> None:
        for _ in range(3):
            x = torch.ones(8)
            alive.append(weakref.ref(x))
            with contextlib.suppress(ValueError, torch._dynamo.exc.BackendCompilerFailed):
                torch.compile(lambda x: x.mul_(2) + 1, backend=backend)(x)
            del x
        gc.collect()
        assert [ref() for ref in alive] == [None] * 3
        raise LookupError("and got this far")

    with pytest.raises(LookupError):
        _not_suppressed(watch, program)


def _not_suppressed(watch: Watch, program: Program) -> None:
    errors: list[BaseException] = []

    def call() -> None:
        try:
            program()
        except BaseException as error:
            errors.append(error)

    watch(call)
    raise errors[0]


# --- --keep-going ---------------------------------------------------------------------------------------------------
def fails_in_place(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x * 2


@pytest.mark.parametrize(
    "backend",
    [
        fails(),
        fails_after_running,
        faulty("mul", "compile-error"),
        faulty("mul", "runtime-error"),
        faulty("mul", "runtime-error", inner="eager"),  # which changes the very graph that it was given
    ],
    ids=["compile", "run", "faulty compile", "faulty run", "faulty graph"],
)
def test_a_failing_graph_runs_in_eager_and_gives_what_eager_gives(watch: Watch, backend: Any) -> None:
    compiled = torch.compile(fails_in_place, backend=backend)
    seen: list[list[float]] = []

    def program() -> None:
        x = torch.arange(3.0)
        for _ in range(6):  # more often than mutated inputs are cloned without --keep-going
            seen.append(compiled(x).tolist())

    found = watch(program, keep_going=True)
    x = torch.arange(3.0)
    assert seen == [fails_in_place(x).tolist() for _ in range(6)]
    assert len(found) == 1


def test_inputs_that_share_memory_are_put_back_together(watch: Watch) -> None:
    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.mul_(10)
        return a + b

    base = torch.arange(6.0)
    twin = base.clone()
    expected = f(twin[:4], twin[2:])
    seen: list[torch.Tensor] = []
    compiled = torch.compile(f, backend=fails_after_running)
    watch(lambda: seen.append(compiled(base[:4], base[2:])), keep_going=True)
    assert torch.equal(seen[0], expected)
    assert torch.equal(base, twin)


def test_what_cannot_be_put_back_is_not_run_again(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchsleuth.watch import capture

    monkeypatch.setattr(capture, "_MUTATED_CAP", 0)
    x = torch.zeros(3)
    seen: list[torch.Tensor] = []
    watch(lambda: seen.append(torch.compile(fails_in_place, backend=fails_after_running)(x)), keep_going=True)
    assert seen == []  # it raised, as it would have without us
    assert x.tolist() == [1, 1, 1]


@pytest.mark.parametrize("copied", [True, False])
def test_what_a_call_wrote_over_and_was_not_copied_is_said(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, copied: bool
) -> None:
    from torchsleuth.watch import capture

    if not copied:
        monkeypatch.setattr(capture, "_MUTATED_CAP", 0)
    [found] = watch(lambda: torch.compile(fails_in_place, backend=fails_after_running)(torch.zeros(3)))
    assert found.case is not None
    unknown = folder.load(found.case).surroundings.unknown
    assert [text for text in unknown if "as they were before the call" in text] == (
        [] if copied else list(unknown[-1:])
    )


def test_a_backward_that_does_not_compile_runs_in_eager(watch: Watch, no_backward: Any) -> None:
    x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    torch.sin(y).sum().backward()
    found = watch(lambda: torch.compile(torch.sin, backend=no_backward)(x).sum().backward(), keep_going=True)
    assert [f.failure.phase for f in found] == [Phase.COMPILE_BACKWARD]
    assert x.grad is not None
    assert y.grad is not None
    assert torch.equal(x.grad, y.grad)


def test_without_keep_going_it_raises(watch: Watch) -> None:
    seen: list[torch.Tensor] = []
    assert len(watch(lambda: seen.append(torch.compile(relu, backend=fails())(torch.ones(1))))) == 1
    assert seen == []


# --- watching() -----------------------------------------------------------------------------------------------------
@pytest.fixture
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("fresh")
def test_a_failure_leaves_the_block_as_it_is(tmp_path: Path) -> None:
    error = ValueError("exactly this one")

    def backend(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        return lambda *args: (_ for _ in ()).throw(error)

    with pytest.raises(ValueError, match="exactly") as caught, torchsleuth.watching(tmp_path / "out") as watch:
        torch.compile(relu, backend=backend)(torch.ones(1))
    assert caught.value is error
    assert [f.ended_program for f in watch.failures] == [True]


@pytest.mark.usefixtures("fresh")
def test_every_block_finds_its_own(tmp_path: Path) -> None:
    compiled = torch.compile(relu, backend=fails_after_running)
    watches = [torchsleuth.watching(tmp_path / str(i)) for i in range(2)]
    for watch in watches:
        with pytest.raises(ValueError, match="run time"), watch:
            compiled(torch.ones(1))
    assert [len(watch.failures) for watch in watches] == [1, 1]


@pytest.mark.usefixtures("fresh")
def test_outside_of_a_block_nothing_is_watched(tmp_path: Path) -> None:
    compiled = torch.compile(relu, backend=fails_after_running)
    with torchsleuth.watching(tmp_path / "out") as watch:
        pass
    files = sorted(watch.out.rglob("*"))
    with pytest.raises(ValueError, match="run time"):
        compiled(torch.ones(1))
    assert watch.failures == ()
    assert sorted(watch.out.rglob("*")) == files


@pytest.mark.usefixtures("fresh")
def test_a_block_inside_a_block_takes_its_own_and_gives_back(tmp_path: Path) -> None:
    with torchsleuth.watching(tmp_path / "outer") as outer:
        with pytest.raises(ValueError, match="run time"), torchsleuth.watching(tmp_path / "inner") as inner:
            torch.compile(relu, backend=fails_after_running)(torch.ones(1))
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed):
            torch.compile(torch.sin, backend=fails("after"))(torch.ones(1))
    assert [f.failure.fingerprint.message for f in inner.failures] == ["failed at run time"]
    assert [f.failure.fingerprint.message for f in outer.failures] == ["after"]


@pytest.mark.usefixtures("fresh")
def test_keep_going_in_a_block(tmp_path: Path) -> None:
    with torchsleuth.watching(tmp_path / "out", keep_going=True) as watch:
        assert torch.compile(relu, backend=faulty("relu", "compile-error"))(torch.ones(1)).item() == 2
    assert len(watch.failures) == 1


@pytest.mark.usefixtures("fresh")
def test_what_a_block_found_can_be_investigated(tmp_path: Path) -> None:
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed), torchsleuth.watching(tmp_path / "out") as watch:
        torch.compile(relu, backend=faulty("relu", "compile-error"))(torch.ones(1))
    result = watch.investigate()
    [finding] = result.findings
    assert finding.reproduced, finding.why_not
    assert (watch.out / "repro.py").exists()
    assert (watch.out / "result.json").exists()
    [found] = watch.failures
    assert found.case == watch.out / "cases" / "f1"
