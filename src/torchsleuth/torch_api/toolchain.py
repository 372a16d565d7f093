"""What Inductor compiles with on this machine.

No import of this package: doctor runs this file in interpreters without torchsleuth.
"""

from __future__ import annotations

import importlib


def cpp_compiler() -> str:
    """The C++ compiler that Inductor will use; raises where it finds none."""
    found: str = importlib.import_module("torch._inductor.cpp_builder").get_cpp_compiler()
    return found


def probe_vector_instructions() -> None:
    """Find out once what each compilation asks: it takes a C++ compilation, 8 s, and is remembered in the process."""
    try:
        from torch._inductor.cpu_vec_isa import pick_vec_isa
    except ImportError as error:
        print(f"not warmed: vector instructions: {error}")
    else:
        pick_vec_isa()
