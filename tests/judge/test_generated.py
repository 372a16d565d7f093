"""Which operators the generated code of a failing kernel names."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from judge_helpers import Ask

from torchsleuth.judge import Verdict
from torchsleuth.judge.generated import Noted, noted_by, noted_in

WRAPPER = textwrap.dedent("""
    async_compile = AsyncCompile()
    cpp_fused_mul_relu_0 = async_compile.cpp_pybinding(['float*'], r'''
    extern "C" void kernel(float* in_out_ptr0) { relu }
    ''')


    # Topologically Sorted Source Nodes: [h, probs], Original ATen: [aten._softmax]
    # Source node to ATen node mapping:
    triton_per_fused__softmax_1 = async_compile.triton('triton_per_fused__softmax_1', '''
    def kernel(): softmax
    ''')


    async_compile.wait(globals())


    def call(args):
        # Topologically Sorted Source Nodes: [h], Original ATen: [aten.mm]
        extern_kernels.mm(arg0_1, arg1_1, out=buf0)
        cpp_fused_mul_relu_0(buf1)
        buf7 = torch.ops.aten.cummin.default(buf1, 0)
""")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    folder = tmp_path / "cache" / "ab"
    folder.mkdir(parents=True)
    (folder / "wrapper.py").write_text(WRAPPER)
    return tmp_path / "cache"


def at(cache: Path, text: str) -> str:
    line = WRAPPER.splitlines().index(next(one for one in WRAPPER.splitlines() if text in one)) + 1
    return f'  File "{cache.resolve()}/ab/wrapper.py", line {line}, in call\n    {text}\n'


def test_the_kernel_that_was_called_when_it_failed(cache: Path) -> None:
    noted = noted_in(cache, at(cache, "cpp_fused_mul_relu_0(buf1)"))
    assert noted == Noted((), "mul_relu")
    assert noted.names("relu")
    assert noted.names("mul")
    assert not noted.names("mul_re")


def test_comments_name_the_nodes(cache: Path) -> None:
    assert noted_in(cache, at(cache, "extern_kernels.mm(")) == Noted(("h",), "mm")


def test_an_operator_that_is_called_as_it_is(cache: Path) -> None:
    assert noted_in(cache, at(cache, "torch.ops.aten.cummin")) == Noted((), "cummin")


def test_a_kernel_that_the_compiler_gave_up(cache: Path) -> None:
    (cache / "cd").mkdir()
    (cache / "cd" / "built.cpp").write_text("int main;")
    (cache / "cd" / "built.so").write_text("")
    (cache / "cd" / "kernel.main.cpp").write_text(
        'extern "C" void kernel(float* in_out_ptr0) { relu }\nPyObject* more;\n'
    )
    waiting = at(cache, "async_compile.wait(globals())")
    assert noted_in(cache, waiting) == Noted((), "mul_relu")


def test_nothing_is_named_where_nothing_is_known(cache: Path, tmp_path: Path) -> None:
    assert noted_in(cache, "Traceback: no file of ours") == Noted()
    assert noted_in(tmp_path / "missing", 'File "/x.py", line 3') == Noted()


@pytest.mark.slow
@pytest.mark.parametrize("bug", ["compile_error", "runtime_error"])
def test_the_kernel_with_the_bug_of_inductors_own(ask: Ask, bug: str) -> None:
    outcome = ask(f"""
        import torch
        import torch._inductor.config
        torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "{bug}"
        def f(x, w):
            return torch.softmax(torch.relu(x @ w) @ w, -1)
        torch.compile(f)(torch.randn(8, 8), torch.randn(8, 8))
    """)
    assert outcome.verdict is Verdict.FAILED
    assert outcome.noted.names("relu")
    assert not outcome.noted.names("softmax")


def test_of_a_program_only_the_files_that_its_traceback_names_are_read(cache: Path) -> None:
    for name, text in (("other.py", WRAPPER), ("mine.py", "def f():\n    relu(x)\n")):
        (cache / "ab" / name).write_text(text)
    assert noted_by(at(cache, "cpp_fused_mul_relu_0(buf1)")) == Noted((), "mul_relu")
    assert noted_by(f'  File "{cache}/ab/mine.py", line 2, in f\n    relu(x)\n') == Noted()
    assert noted_by(f'  File "{cache}/ab/gone.py", line 2, in f\n    relu(x)\n') == Noted()


def test_of_a_program_the_source_that_was_not_built_is_the_one_that_the_error_names(cache: Path) -> None:
    for name in ("named.main.cpp", "built.cpp", "left_by_another.cpp"):
        (cache / "ab" / name).write_text('#include <x>\nextern "C" void kernel(float* in_out_ptr0) { relu }\n')
    (cache / "ab" / "built.so").touch()
    wrapper = at(cache, "async_compile.wait(globals())")
    assert noted_by(f"{wrapper}{cache}/ab/named.main.cpp:18:37: error: no") == Noted((), "mul_relu")
    assert noted_by(f"{wrapper}{cache}/ab/built.cpp:18:37: error: no") == Noted()
    assert noted_by(wrapper) == Noted()


def test_a_triton_kernel_that_is_no_python_is_named_by_its_file(cache: Path) -> None:
    kernel = cache / "ab" / "kernel.py"
    kernel.write_text("import triton\n\n@triton.jit\ndef triton_poi_fused_relu_3(ptr):\n    compile error!\n")
    said = f"RuntimeError: Failed to import {kernel}\nSyntaxError: invalid syntax (kernel.py, line 5)\n"
    assert noted_by(said) == noted_in(cache, said) == Noted((), "relu")
    assert noted_by(said.replace("kernel.py", "gone.py")) == Noted()
