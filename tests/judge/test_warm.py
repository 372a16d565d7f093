"""A warm process differs from a fresh one in nothing that a compilation could notice."""

from __future__ import annotations

import subprocess
import sys

import pytest

# The tables that Inductor and Dynamo fill at first use; a warm process must find them as a fresh one does.
TABLES = """
import torch, torch._dynamo, torch._inductor.compile_fx
from torch._dynamo.backends import registry
from torch._inductor.codegen import common
{action}
print(sorted(common.device_codegens), sorted(common.device_op_overrides_dict), sorted(registry._BACKENDS))
"""


def tables(action: str, environment: dict[str, str]) -> str:
    script = TABLES.format(action=action)
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


@pytest.mark.slow
def test_warming_registers_nothing(python_with_sleuth: dict[str, str]) -> None:
    warmed = "from torchsleuth.judge import warm; warm.warm_up(forks=True, cuda=False)"
    assert tables(warmed, python_with_sleuth) == tables("", python_with_sleuth)
    filled = "import torch._inductor.codegen.cpu_device_op_overrides"
    assert tables(filled, python_with_sleuth) != tables("", python_with_sleuth)


@pytest.mark.slow
def test_warming_starts_neither_cuda_nor_threads_of_its_own(python_with_sleuth: dict[str, str]) -> None:
    script = """
import threading, torch
from torchsleuth.judge import warm
warm.warm_up(forks=True, cuda=False)
print(torch.cuda.is_initialized(), threading.active_count())
"""
    done = subprocess.run([sys.executable, "-c", script], env=python_with_sleuth, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "False 1", done.stderr
