"""The allow-list against the real torch: every operator is allowed, and nothing that does more than compute."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import BuiltinFunctionType, ModuleType
from typing import Any

import pytest
import torch
from torch.overrides import get_ignored_functions, get_overridable_functions

from torchsleuth import torch_api
from torchsleuth.case import allowed
from torchsleuth.errors import UnsafeGraph

pytestmark = pytest.mark.slow

# Functions that __torch_function__ may override, and that a graph has no business with: they pickle, share or hand out
# memory, or register Python functions.
NOT_IN_GRAPHS = {
    f"torch.Tensor.{name}"
    for name in (
        "__array__ __array_wrap__ __deepcopy__ __dlpack__ __dlpack_device__ __format__ __reduce_ex__ __repr__ "
        "__setstate__ module_load register_hook register_post_accumulate_grad_hook share_memory_ storage "
        "untyped_storage numpy"
    ).split()
} | {"torch.get_device_module"}  # fmt: skip

# What lives in torch itself beside its operators, read one by one.  A newer torch that brings more fails the test
# below: read the new name, then put it here or into allowed._NOT_TENSOR_FUNCTIONS.
REVIEWED = set(
    """
    _assert _check _check_index _check_is_size _check_not_implemented _check_tensor_all _check_tensor_all_with
    _check_type _check_value _check_with _constrain_as_size _segment_reduce
    _freeze_functional_tensor _from_functional_tensor _to_functional_tensor _is_functional_tensor
    _is_functional_tensor_base
    _sym_acos _sym_asin _sym_atan _sym_cos _sym_cosh _sym_log2 _sym_sin _sym_sinh _sym_tan _sym_tanh
    eig lstsq matrix_rank quantized_gru quantized_lstm solve symeig to_dlpack while_loop
    """.split()
)


def overridable() -> Iterator[Any]:
    for functions in get_overridable_functions().values():
        yield from functions


def allows(name: str) -> bool:
    try:
        allowed.check_function(name)
    except UnsafeGraph:
        return False
    return True


def test_every_overridable_function_is_allowed() -> None:
    names = {name for f in overridable() if (name := torch_api.qualified_name(f))}
    assert len(names) > 1000
    assert {n for n in names if not allows(n)} - NOT_IN_GRAPHS == set()
    assert {n for n in NOT_IN_GRAPHS if allows(n)} == set()


def test_every_name_finds_its_function_again() -> None:
    for function in overridable():
        name = torch_api.qualified_name(function)
        assert name is None or torch_api.resolve(name) is function


def test_every_registered_operator_is_allowed() -> None:
    files = {"torch.ops.aten.save", "torch.ops.aten.from_file", "torch.ops.debugprims.load_tensor"}
    refused = set()
    for schema in torch._C._jit_get_all_schemas():
        name = f"torch.ops.{schema.name.replace('::', '.')}"
        if schema.name.split("::")[0] in ("prim", "_test"):
            continue  # TorchScript's own
        overload = f"{name}.{schema.overload_name or 'default'}"
        refused |= {name} if not allows(name) or not allows(overload) else set()
    assert refused == files


def test_every_higher_order_operator_is_allowed() -> None:
    importlib.import_module("torch._higher_order_ops")
    from torch._ops import _higher_order_ops

    assert len(_higher_order_ops) > 20
    for name, operator in _higher_order_ops.items():
        assert allows(f"torch.ops.higher_order.{name}")
        assert torch_api.resolve(torch_api.qualified_name(operator) or "") is operator


def test_what_torch_holds_beside_operators_was_read_by_somebody() -> None:
    known = {id(f) for f in (*overridable(), *get_ignored_functions())}
    found = set()
    for name in dir(torch):
        value = getattr(torch, name)
        builtin = isinstance(value, BuiltinFunctionType) and getattr(torch._C._VariableFunctions, name, None) is value
        if callable(value) and allows(f"torch.{name}") and id(value) not in known and not builtin:
            found.add(name)
    found = {n for n in found if not n.startswith("_functionalize_") and n != "Size"}
    assert found - REVIEWED == set()


# Among the functions that torch itself says are not operators, those that do something to the world.
SIDE_EFFECTS = (
    "load save hub compile from_file from_dlpack frombuffer set_default_device set_default_dtype "
    "set_default_tensor_type set_printoptions set_num_threads set_num_interop_threads set_flush_denormal "
    "set_float32_matmul_precision set_warn_always set_deterministic_debug_mode set_anomaly_enabled "
    "use_deterministic_algorithms import_ir_module import_ir_module_from_buffer parse_ir parse_schema fork wait "
    "init_num_threads set_vital read_vitals get_file_path prepare_multiprocessing_environment "
    "_import_dotted_name _load_global_deps _preload_cuda_deps _preload_cuda_lib _register_device_module "
    "_import_device_backends _initExtension _get_cuda_dep_paths _TorchCompileWrapper get_device_module os sys "
    "importlib builtins ctypes glob inspect platform threading warnings serialization package jit utils library "
    "multiprocessing distributed _C _dynamo _inductor nn Tensor Generator"
).split()


@pytest.mark.parametrize("name", SIDE_EFFECTS)
def test_what_does_something_to_the_world_is_refused(name: str) -> None:
    assert not allows(f"torch.{name}")
    with pytest.raises(UnsafeGraph):
        allowed.check_value(f"torch.{name}")


def test_no_module_of_torch_may_stand_as_a_value() -> None:
    for extra in (
        "torch._dynamo",
        "torch._inductor.compile_fx",
        "torch.utils.cpp_extension",
        "torch.testing._internal",
    ):
        importlib.import_module(extra)
    modules = {n for n in dir(torch) if isinstance(getattr(torch, n), ModuleType)}
    assert {n for n in modules if allows(f"torch.{n}")} == set()
    for name in modules:
        with pytest.raises(UnsafeGraph):
            allowed.check_value(f"torch.{name}")


def test_no_class_in_a_namespace_of_operators_is_allowed() -> None:
    for scope in allowed._NAMESPACES:
        holder = torch_api.resolve(scope)
        classes = {n for n in dir(holder) if isinstance(getattr(holder, n, None), type)}
        modes = {"dual_level", "_set_fwd_grad_enabled"}  # forward-mode AD is switched by two context managers
        assert (scope, {n for n in classes - modes if allows(f"{scope}.{n}")}) == (scope, set())


def test_methods_that_write_or_hand_out_are_refused() -> None:
    for name in (
        "tofile",
        "dump",
        "dumps",
        "numpy",
        "register_hook",
        "__reduce__",
        "__class__",
        "__init__",
        "__dict__",
    ):
        with pytest.raises(UnsafeGraph):
            allowed.check_method(name)


def test_all_dtypes_layouts_and_formats_may_stand_as_values() -> None:
    kinds = (torch.dtype, torch.layout, torch.memory_format, torch.qscheme)
    values = [getattr(torch, n) for n in dir(torch) if isinstance(getattr(torch, n), kinds)]
    assert len(values) > 50
    for value in values:
        assert torch_api.resolve(allowed.check_value(str(value))) is value
    for dtype in (v for v in values if isinstance(v, torch.dtype)):
        assert allowed.is_dtype(str(dtype))
