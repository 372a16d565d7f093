"""What to do about a recompilation, by the guard that failed."""

from __future__ import annotations

import re

from torchsleuth.explain.guard_failures import SIZE, TENSOR, GuardFailure


def advice_on(reason: GuardFailure, values: tuple[str, ...]) -> str:
    size = SIZE.search(reason.guard)
    if reason.guard.startswith("Unexpected recompilation"):
        return (
            "torch names no guard. Often several threads came to the function at once: call it once before they start."
        )
    if reason.guard.startswith("BACKEND_MATCH"):
        return "Call torch.compile once, keep what it gives, and use that: each backend object is compiled for apart."
    if size and "_parameters[" in size[1]:
        return "A parameter of the module has another size: keep its size, or compile a module for each size."
    if size and size[2] == "size":
        name, index = size[1], size[3]
        special = " Sizes 0 and 1 are always compiled apart." if {"0", "1"} & set(values) else ""
        return (
            f"Say that the size varies, before the first call: torch._dynamo.mark_dynamic({name}, {index}), or "
            f"torch.compile(..., dynamic=True); or pad to a few sizes.{special}"
        )
    if size:
        return f"Give {size[1]} the same memory layout in every call, for example with .contiguous()."
    tensor = TENSOR.search(reason.guard)
    if tensor:
        return f"Pass {tensor[1]} with the same {tensor[2]} in every call, or accept one compilation for each."
    if "grad_mode" in reason.guard or "global_state" in reason.guard.lower():
        return (
            "Call the function under the same modes (no_grad, autocast, threads) each time, or accept one compilation "
            "for each."
        )
    if re.search(r"obj_id|___check_type_id|is not|\bis\b", reason.guard):
        return "The object is another one in each call: make it once, outside, and pass the same."
    if reason.subject.startswith("len("):
        return f"Pass a fixed number of items, or a tensor: each {reason.subject} is compiled apart."
    kinds = {kind_of(v) for v in values}
    if reason.subject.startswith("___stack"):
        return (
            "A number that was computed before a graph break is compiled into what follows it: mend the break, or keep "
            "the number in a tensor."
        )
    if "." in reason.subject and kinds == {"int"}:
        return (
            f"{reason.subject} is a number on an object, and each value is compiled apart: keep it in a tensor, or set "
            "torch._dynamo.config.allow_unspec_int_on_nn_module = True before compiling."
        )
    if kinds <= {"int", "float"} and kinds:
        return (
            f"Pass {reason.subject} as a tensor, torch.tensor({reason.subject}), so that its value is not compiled in."
        )
    return f"Each value of {reason.subject} is compiled apart: keep the number of different values small."


def kind_of(value: str) -> str:
    try:
        int(value)
    except ValueError:
        pass
    else:
        return "int"
    try:
        float(value)
    except ValueError:
        return "other"
    return "float"
