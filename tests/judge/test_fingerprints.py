"""What makes two failures the same bug: properties of normalised messages, and of the errors around them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from torchsleuth.case.failure import (
    Failure,
    Fingerprint,
    Kind,
    Phase,
    fingerprint_of,
    is_out_of_memory,
    normalise,
    of_exception,
    of_hang,
    of_memory_limit,
    of_signal,
)
from torchsleuth.judge.child import failure_of

words = st.sampled_from("expected size buf0 arg1_1 at tensor [2, 3] 0x7f00 /tmp/a/b.cpp: -4 1.5e-3 s0 x_1".split())
messages = st.lists(words, max_size=12).map(" ".join)


@given(messages)
def test_normalising_twice_changes_nothing(message: str) -> None:
    assert normalise(normalise(message)) == normalise(message)


@given(st.text(max_size=200))
def test_any_text_can_be_normalised(message: str) -> None:
    assert len(normalise(message)) <= 400


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 2**48), st.integers(0, 2**48))
def test_numbers_and_addresses_do_not_matter(first: int, second: int, here: int, there: int) -> None:
    message = "buf{0} has size {0} at {1:#x}"
    assert normalise(message.format(first, here)) == normalise(message.format(second, there))


@given(st.lists(st.integers(0, 999), min_size=1, max_size=4), st.lists(st.integers(0, 999), min_size=1, max_size=4))
def test_shapes_of_any_rank_are_the_same(first: list[int], second: list[int]) -> None:
    assert normalise(f"bad shape {first} here") == normalise(f"bad shape {second} here")


@given(st.from_regex(r"[a-z]{3,8}", fullmatch=True), st.from_regex(r"[a-z]{3,8}", fullmatch=True))
def test_words_matter(first: str, second: str) -> None:
    assert (normalise(f"cannot {first}") == normalise(f"cannot {second}")) == (first == second)


def test_of_many_lines_the_first_and_the_target_count() -> None:
    assert normalise("bad thing\n  target: aten.relu.default\n  args[0]: TensorBox(...)") == (
        "bad thing | target: aten.relu.default"
    )


def test_of_a_cpp_error_the_compilers_message_counts() -> None:
    text = "C++ compile error\n\nCommand:\ng++ y.cpp\n\nOutput:\n/tmp/x/y.cpp:12:5: error: ‘foo’ was not declared\n"  # noqa: RUF001
    assert normalise(text) == "C++ compile error: ‘foo’ was not declared"  # noqa: RUF001


fingerprints = st.builds(
    Fingerprint,
    st.sampled_from(["ValueError", "KeyError"]),
    st.sampled_from(["", "a", "b"]),
    st.sampled_from([(), ("x.py:f",), ("y.py:g", "x.py:f"), ("y.py:g",)]),
)


@given(fingerprints, fingerprints)
def test_sameness_is_symmetric(first: Fingerprint, second: Fingerprint) -> None:
    assert first.same_as(second) == second.same_as(first)
    assert first.same_as(first)


def test_the_place_decides_only_where_the_message_is_empty() -> None:
    assert Fingerprint("E", "m", ("a",)).same_as(Fingerprint("E", "m", ("b",)))
    assert not Fingerprint("E", "", ("a",)).same_as(Fingerprint("E", "", ("b",)))
    assert Fingerprint("E", "", ("x", "a")).same_as(Fingerprint("E", "", ("y", "a")))
    assert not Fingerprint("E", "m").same_as(Fingerprint("E", ""))


@given(st.sampled_from(Kind), st.sampled_from(Phase), fingerprints, st.text(max_size=20))
def test_a_failure_survives_json(kind: Kind, phase: Phase, mark: Fingerprint, text: str) -> None:
    failure = Failure(kind, phase, mark, text)
    assert Failure.from_json(failure.to_json()) == failure


class BackendCompilerFailed(Exception):
    def __init__(self, inner: Exception) -> None:
        super().__init__(f"backend='x' raised: {inner}")
        self.inner_exception = inner


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise error from cause
    except BaseException as caught:
        return caught


def test_a_wrapper_is_looked_through() -> None:
    inner = ValueError("size 3")
    assert fingerprint_of(raised(BackendCompilerFailed(inner))) == fingerprint_of(raised(inner))
    assert fingerprint_of(BackendCompilerFailed(inner)).line == "ValueError: size N"


def test_an_error_with_a_cause_that_wraps_nothing_stays_itself() -> None:
    assert fingerprint_of(raised(KeyError("outer"), ValueError("inner"))).error == "KeyError"


def test_causes_that_go_in_a_circle_end() -> None:
    first, second = BackendCompilerFailed(ValueError("x")), BackendCompilerFailed(ValueError("y"))
    first.inner_exception, second.inner_exception = second, first
    assert fingerprint_of(first).error.endswith("BackendCompilerFailed")


@pytest.mark.parametrize(
    ("error", "is_memory"),
    [
        (MemoryError(), True),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried 8 bytes"),
            True,
        ),
        (BackendCompilerFailed(RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")), True),
        (RuntimeError("size mismatch"), False),
    ],
)
def test_want_of_memory_is_seen(error: Exception, is_memory: bool) -> None:
    assert is_out_of_memory(error) is is_memory
    assert (of_exception(error, Phase.RUN_FORWARD).kind is Kind.OUT_OF_MEMORY) is is_memory


@pytest.mark.parametrize(
    ("phase", "kind"),
    [
        (Phase.COMPILE_FORWARD, Kind.COMPILE_ERROR),
        (Phase.COMPILE_BACKWARD, Kind.COMPILE_ERROR),
        (Phase.RUN_FORWARD, Kind.RUNTIME_ERROR),
        (Phase.RUN_BACKWARD, Kind.RUNTIME_ERROR),
    ],
)
def test_the_phase_names_an_exception(phase: Phase, kind: Kind) -> None:
    failure = failure_of(raised(ValueError("x")), phase)
    assert (failure.kind, failure.phase) == (kind, phase)
    assert re.search(r"ValueError: x\s*$", failure.text)


def test_an_assertion_of_the_script_is_a_matter_of_accuracy() -> None:
    assert failure_of(raised(AssertionError("differs")), Phase.RUN_FORWARD).kind is Kind.ACCURACY


def test_an_error_of_dynamos_own_module_is_dynamos() -> None:
    kind = type("Unsupported", (RuntimeError,), {"__module__": "torch._dynamo.exc"})
    wrapper = type("BackendCompilerFailed", (RuntimeError,), {"__module__": "torch._dynamo.exc"})
    assert failure_of(raised(kind("x")), Phase.COMPILE_FORWARD).kind is Kind.DYNAMO_ERROR
    assert failure_of(raised(wrapper("x")), Phase.COMPILE_FORWARD).kind is Kind.COMPILE_ERROR


def test_ends_without_an_exception_have_fingerprints_of_their_own() -> None:
    marks = [make(Phase.RUN_FORWARD).fingerprint for make in (of_hang, of_memory_limit, lambda p: of_signal(11, p))]
    assert [mark.line for mark in marks] == ["hang", "memory limit", "SIGSEGV"]
    assert of_signal(6, Phase.RUN_FORWARD).fingerprint.error == "SIGABRT"
    assert of_signal(250, Phase.RUN_FORWARD).fingerprint.error == "signal 250"
    assert sum(a.same_as(b) for a in marks for b in marks) == 3


def test_of_much_that_a_compiler_says_both_ends_are_kept() -> None:
    error = RuntimeError("first\n" + "warning\n" * 10_000 + "last")
    text = of_exception(error, Phase.COMPILE_FORWARD).text
    assert "RuntimeError: first" in text
    assert text.endswith("last\n")
    assert "[...]" in text
    assert len(text) < 21_000


HEADER_WARNING = """\
In file included from /env/torch/include/vec512.h:9,
                 from /env/torch/include/vec.h:13:
/env/torch/include/vec512_qint.h: In function 'f':
/env/torch/include/vec512_qint.h:240:7: warning: overflow in conversion [-Woverflow]
  240 |       0xff, 0xff,
      |       ^~~~
/env/torch/include/vec512_qint.h:12:1: note: in expansion of macro
   12 | #define
"""
THE_ERROR = """\
/tmp/k.main.cpp: In function 'void kernel(float*)':
/tmp/k.main.cpp:15:33: error: 'compile' was not declared in this scope
   15 |     auto tmp1 = compile error!;
      |                 ^~~~~~~
/tmp/k.main.cpp:3:1: note: declared here
"""


def test_of_a_c_plus_plus_compiler_the_errors_stay_and_the_warnings_go() -> None:
    said = f"C++ compile error\n\nOutput:\n{HEADER_WARNING * 200}{THE_ERROR}{HEADER_WARNING * 200}\nthe last word"
    text = of_exception(RuntimeError(said), Phase.COMPILE_FORWARD).text
    assert THE_ERROR in text
    assert "overflow" not in text
    assert "In file included" not in text
    assert "[400 of the compiler's warnings left out]" in text
    assert text.rstrip().endswith("the last word")


def test_what_is_no_warning_of_a_compiler_stays() -> None:
    said = "a.py:3: UserWarning: warning: careful\n  3 | x\nIn file included from nowhere\nit broke"
    assert said in of_exception(RuntimeError(said), Phase.COMPILE_FORWARD).text


def test_what_a_backend_raised_is_in_the_line_that_people_read() -> None:
    class BackendCompilerFailed(Exception):
        pass

    error = BackendCompilerFailed("backend='inductor' raised:\nAssertionError: a set_ that\ncannot be kept")
    summary = of_exception(error, Phase.COMPILE_FORWARD).summary
    assert summary == "BackendCompilerFailed: backend='inductor' raised: AssertionError: a set_ that"


def test_an_internal_assert_under_the_headline_is_told() -> None:
    """What only says where it was met stays in front; the fault itself is what people search for."""
    text = "The following operation failed in the interpreter.\nTraceback:\n  ptr INTERNAL ASSERT FAILED at a.cpp:3\n"
    error = RuntimeError(text)
    summary = of_exception(error, Phase.RUN_FORWARD).summary
    assert summary == (
        "RuntimeError: The following operation failed in the interpreter. ptr INTERNAL ASSERT FAILED at a.cpp:3"
    )
    first = RuntimeError("ptr INTERNAL ASSERT FAILED at a.cpp:3\nmore")
    assert of_exception(first, Phase.RUN_FORWARD).summary == "RuntimeError: ptr INTERNAL ASSERT FAILED at a.cpp:3"
