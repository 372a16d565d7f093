"""What else the compilation depended on, read where it happens."""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from torchsleuth import torch_api
from torchsleuth.case import user_kernels
from torchsleuth.case.ir import Graph, Op
from torchsleuth.case.model import Autocast, Backend, Case, Code, Surroundings
from torchsleuth.case.program.frame import constant
from torchsleuth.operators.names import parse
from torchsleuth.watch import guarded

_CARRIED = ("TORCH", "PYTORCH_", "OMP_", "MKL_", "KMP_", "GOMP_", "CXX", "CPP_", "TRITON_", "CUBLAS_", "NVIDIA_TF32")
_NOT_CARRIED = (
    "TORCHSLEUTH_", "TORCHDYNAMO_REPRO_", "TORCHDYNAMO_VERBOSE", "TORCH_LOGS", "TORCH_TRACE", "TORCH_COMPILE_DEBUG",
    "TORCH_DEVICE_BACKEND_AUTOLOAD", "TORCH_HOME", "TORCH_HUB", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR",
    "TRITON_HOME", "TRITON_DUMP", "TORCHELASTIC_", "TORCH_NCCL_", "TORCH_COMPILE_DISABLE",
    "TORCH_COMPILE_OVERRIDE_BACKENDS",
    "TORCH_CPP_LOG_LEVEL", "TORCH_DISTRIBUTED_DEBUG", "TORCHINDUCTOR_COMPILE_THREADS", "TORCH_EXTENSIONS_DIR",
)  # fmt: skip
# Entries that say how the compiler reports or stores, not what it makes; suppress_errors would hide the failure.
_REPORTING = {
    "torch._dynamo.config": {"verbose", "suppress_errors", "repro_after", "repro_level", "log_file_name",
                             "debug_dir_root", "replay_record_enabled", "report_guard_failures",
                             "log_compilation_metrics", "disable"},
    "torch._inductor.config": {"compile_threads", "debug", "save_args", "worker_start_method", "verbose_progress"},
    "torch._functorch.config": {"debug_partitioner", "graphsafe_rng_functionalization_debug"},
    "torch.fx.experimental._config": set(),
}  # fmt: skip
_threads_at_start = torch.get_num_threads()


@dataclass(frozen=True)
class Configs:
    """Entries that differ from their default; those whose value no script can hold are named only."""

    entries: tuple[tuple[str, str, Any], ...]
    unknown: tuple[str, ...]
    code: tuple[Code, ...] = ()  # entries that are functions of the user's: their source, and the line that sets them


def read(backend: Any, graph: Graph, devices: Iterable[str], configs: Configs) -> Surroundings:
    described = describe_backend(backend)
    code, missing = _operators(graph)
    return Surroundings(
        backend=described,
        dynamic=getattr(backend, "dynamic", None),
        grad=torch.is_grad_enabled(),
        inference=torch.is_inference_mode_enabled(),
        autocast=tuple(_autocast(devices)),
        configs=configs.entries,
        environment=carried_environment(os.environ),
        switches=_switches(),
        code=(*code, *configs.code),
        unknown=(*configs.unknown, *missing),
    )


def carried_environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in environment.items() if k.startswith(_CARRIED) and not k.startswith(_NOT_CARRIED)}


def _autocast(devices: Iterable[str]) -> Iterable[Autocast]:
    cache = torch.is_autocast_cache_enabled()
    for device in sorted({"cpu", *devices} - {"meta"}):
        if torch.is_autocast_enabled(device):
            yield Autocast(device, str(torch.get_autocast_dtype(device)), cache)


def changed_configs() -> Configs:
    found, unknown, code = [], [], []
    for module_name, module in torch_api.config_modules().items():
        for entry, value in torch_api.changed_configs(module):
            if entry in _REPORTING[module_name] or entry.startswith(("trace.", "_")):
                continue
            if constant(value):
                found.append((module_name, entry, value))
            elif carried := _carry_setting(module_name, entry, value):
                code.append(carried)
            else:
                unknown.append(f"{module_name}.{entry} = {type(value).__name__}")
    return Configs(tuple(found), tuple(unknown), tuple(code))


def _carry_setting(module: str, entry: str, value: Any) -> Code | None:
    """A pass of the user's that stands in a config."""
    found = guarded.guarded(_carried)("config", id(value), _Holder(value)) if callable(value) else None
    if found is None or not found.name:
        return None
    source = f"{found.source}\n\nimport {module}\n{module}.{entry} = {found.name}"
    return replace(found, what=f"config {module}.{entry}", source=source)


def _switches() -> dict[str, Any]:
    found: dict[str, Any] = {}
    if torch.get_default_dtype() is not torch.float32:
        found["default_dtype"] = str(torch.get_default_dtype())
    if torch.are_deterministic_algorithms_enabled():
        found["deterministic"] = True
    if torch.get_float32_matmul_precision() != "highest":
        found["matmul_precision"] = torch.get_float32_matmul_precision()
    if torch.get_num_threads() != _threads_at_start:
        found["threads"] = torch.get_num_threads()
    return found


def versions() -> dict[str, str]:
    found = {"torch": torch.__version__, "python": platform.python_version(), "platform": platform.platform()}
    if torch.version.cuda:
        found["cuda"] = torch.version.cuda
    return found


def describe_backend(backend: Any) -> Backend:
    """What torch.compile(backend=...) was given: a name with options, or code of the user's."""
    name, function, options, mode = torch_api.backend_parts(backend)
    if name:
        kept = {k: v for k, v in options.items() if constant(v)}
        return Backend(name, True, kept, mode)
    code = _carry_backend(function, options)
    shown = getattr(function, "__name__", type(function).__name__)
    return Backend(shown, False, {k: v for k, v in options.items() if constant(v)}, mode, code)


@functools.lru_cache(maxsize=64)
def _carried(what: str, key: int, holder: Any) -> Code:
    from torchsleuth.case.carry import carry_object

    found = carry_object(holder.value)
    return Code(what, found.name, found.source, found.imports, found.stands_alone, found.why_not)


class _Holder:
    """Lets an unhashable object be a cache key by identity."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Holder) and other.value is self.value


def _carry_backend(function: Any, options: Mapping[str, Any]) -> Code:
    found = guarded.guarded(_carried)("backend", id(function), _Holder(function))
    if found is not None and found.name:
        return found
    module = getattr(function, "__module__", type(function).__module__)
    name = getattr(function, "__qualname__", type(function).__qualname__)
    why = found.why_not if found is not None else "its source could not be read"
    return Code("backend", f"{module}.{name}", "", (str(module),), False, why)


def _operators(graph: Graph) -> tuple[list[Code], list[str]]:
    """The source of operators that torch itself does not register."""
    called = {parse(n.target) for g in graph.all_graphs() for n in g.nodes if n.op is Op.CALL_FUNCTION}
    own = {operator.qualified for operator in called if operator.is_custom}
    found, missing = [], []
    for number, kernel in sorted(_kernels(graph).items()):
        code = guarded.guarded(_carry_kernel)(number, kernel)
        if code is None or not code.name:
            missing.append(f"Triton kernel {kernel}")
        else:
            found.append(code)
    for name in sorted(own):
        code = guarded.guarded(_carry_operator)(name)
        if code is None:
            missing.append(f"operator {name.replace('::', '.')}")
        else:
            found.append(code)
    return found, missing


def _kernels(graph: Graph) -> dict[int, str]:
    """The user's own Triton kernels that a graph calls, by number in torch's table: their labels."""
    calls = [(n, user_kernels.number_of(n)) for g in graph.all_graphs() for n in g.nodes]
    return {number: str(n.kwargs["kernel"]) for n, number in calls if number is not None}


@functools.lru_cache(maxsize=256)
def _carry_kernel(number: int, label: str) -> Code:
    from torchsleuth.case.carry import carry_triton_kernel

    found = carry_triton_kernel(torch_api.user_kernel(number))
    what = user_kernels.what(label)
    return Code(what, found.name, found.source, found.imports, found.stands_alone, found.why_not)


@functools.lru_cache(maxsize=256)
def _carry_operator(qualified: str) -> Code:
    from torchsleuth.case.carry import carry_operator

    found = carry_operator(qualified)
    return Code(f"operator {qualified}", found.name, found.source, found.imports, found.stands_alone, found.why_not)


def without(case: Case, entry: str) -> Case:
    """The Case with a config as it is by default."""
    now = case.surroundings
    return replace(case, surroundings=replace(now, configs=tuple(c for c in now.configs if c[1] != entry)))
