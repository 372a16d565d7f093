"""Both Judges, with real torch: what each kind of script comes out as."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from judge_helpers import Ask, eventually, processes_with

from torchsleuth.case.failure import Fingerprint, Kind, Phase
from torchsleuth.judge import Outcome, Trial, Verdict
from torchsleuth.judge.conduct import Conductor

pytestmark = pytest.mark.slow

RELU = """
import torch
def f(x):
    return torch.relu(x + 1)
x = torch.randn(3)
torch.compile(f)(x)
"""
BROKEN_RELU = (
    """
import torch._inductor.config
torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"
"""
    + RELU
)

# A backend of the script's own, which runs only when compilation is on.
BACKEND = """
import ctypes, os, signal, subprocess, sys, time
import torch
def backend(graph, inputs):
    {body}
    return graph.forward
torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
"""


def fails_like(outcome: Outcome, mark: Fingerprint) -> bool:
    seen = outcome.failure
    return outcome.verdict is Verdict.FAILED and seen is not None and seen.fingerprint.same_as(mark)


def in_backend(body: str) -> str:
    return BACKEND.format(body=body)


def test_a_script_that_compiles_and_runs_passes(ask: Ask) -> None:
    outcome = ask(RELU)
    assert (outcome.verdict, outcome.failure) == (Verdict.PASSED, None)
    assert outcome.seconds > outcome.eager_seconds > 0


def test_the_first_run_is_eager_and_the_second_compiled(ask: Ask) -> None:
    outcome = ask(
        """
        import os, torch
        calls = []
        def backend(graph, inputs):
            calls.append(graph)
            return graph.forward
        torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
        print("RUN", len(calls), os.environ.get("TORCH_COMPILE_DISABLE"))
        """
    )
    assert outcome.verdict is Verdict.PASSED
    assert [line for line in outcome.output.splitlines() if line.startswith("RUN")] == ["RUN 0 1", "RUN 1 None"]


def test_a_compile_error_is_a_failure_with_its_fingerprint(ask: Ask) -> None:
    outcome = ask(BROKEN_RELU, phase=Phase.COMPILE_FORWARD)
    assert outcome.verdict is Verdict.FAILED
    assert outcome.failure is not None
    assert outcome.failure.kind is Kind.COMPILE_ERROR
    assert outcome.failure.phase is Phase.COMPILE_FORWARD
    assert outcome.failure.fingerprint.error == "torch._inductor.exc.CppCompileError"
    assert outcome.failure.fingerprint.message.startswith("C++ compile error: ")
    assert fails_like(outcome, outcome.failure.fingerprint)
    assert not fails_like(outcome, Fingerprint("ValueError", "no"))


def test_the_same_bug_has_the_same_fingerprint_twice(ask: Ask) -> None:
    first, second = ask(BROKEN_RELU), ask(BROKEN_RELU.replace("randn(3)", "randn(4, 5)"))
    assert first.failure is not None
    assert fails_like(second, first.failure.fingerprint)


def test_a_module_of_torch_compiled_after_its_eager_run_is_really_compiled(ask: Ask) -> None:
    """Dynamo remembers the frames that it skipped while it was disabled; that must not last into the compiled run."""
    outcome = ask(
        """
        import torch
        def backend(graph, inputs):
            raise ValueError("reached")
        torch.compile(torch.nn.Linear(3, 3), backend=backend)(torch.ones(1, 3))
        """
    )
    assert outcome.verdict is Verdict.FAILED
    assert fails_like(outcome, Fingerprint("ValueError", "reached"))


def test_an_error_when_the_compiled_code_runs_is_a_runtime_error(ask: Ask) -> None:
    outcome = ask(
        """
        import torch
        def backend(graph, inputs):
            def run(*inputs):
                raise RuntimeError("size 3 at 0xdeadbeef")
            return run
        torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
        """
    )
    assert outcome.failure is not None
    assert outcome.failure.kind is Kind.RUNTIME_ERROR
    assert outcome.failure.fingerprint.message == "size N at ADDR"


def test_an_error_of_dynamo_is_told_apart(ask: Ask) -> None:
    outcome = ask(
        """
        import torch
        def f(x):
            torch._dynamo.graph_break()
            return x + 1
        torch.compile(f, backend="eager", fullgraph=True)(torch.ones(2))
        """,
        phase=Phase.COMPILE_FORWARD,
    )
    assert outcome.failure is not None
    assert outcome.failure.kind is Kind.DYNAMO_ERROR


def test_fullgraph_is_no_error_in_the_eager_run(ask: Ask) -> None:
    """With Dynamo's config alone switched off, torch complains that fullgraph=True compiled nothing."""
    script = "import torch\ntorch.compile(lambda x: x + 1, backend='eager', fullgraph=True)(torch.ones(2))\n"
    assert ask(script).verdict is Verdict.PASSED


def test_the_scripts_own_comparison_with_eager_is_a_matter_of_accuracy(ask: Ask) -> None:
    outcome = ask(
        """
        import torch
        def f(x):
            return x + 1
        def backend(graph, inputs):
            return lambda *inputs: tuple(y + 1 for y in graph.forward(*inputs))
        x = torch.ones(2)
        torch.testing.assert_close(torch.compile(f, backend=backend)(x), f(x))
        """
    )
    assert outcome.failure is not None
    assert outcome.failure.kind is Kind.ACCURACY
    assert outcome.failure.fingerprint == Fingerprint("accuracy", "values")
    assert not fails_like(outcome, Fingerprint("AssertionError", "values"))


def test_an_assertion_inside_the_compiler_is_not_a_matter_of_accuracy(ask: Ask) -> None:
    outcome = ask(in_backend("assert False, 'inside'"), phase=Phase.COMPILE_FORWARD)
    assert outcome.failure is not None
    assert outcome.failure.kind is Kind.COMPILE_ERROR


def test_an_error_of_eager_makes_the_script_invalid(ask: Ask, judge: Conductor) -> None:
    before = judge.judged
    outcome = ask("import torch\ntorch.compile(lambda x: x.reshape(5))(torch.ones(2))\n")
    assert (outcome.verdict, outcome.failure) == (Verdict.INVALID, None)
    assert outcome.reason.startswith("eager itself fails: RuntimeError: shape")
    assert judge.judged == before


def test_a_script_that_is_no_python_is_invalid(ask: Ask) -> None:
    outcome = ask("import torch\ndef f(:\n")
    assert outcome.verdict is Verdict.INVALID
    assert "SyntaxError" in outcome.reason


def test_a_segfault_with_compilation_on_is_a_crash(ask: Ask) -> None:
    outcome = ask("print('before', flush=False)\n" + in_backend("ctypes.string_at(0)"))
    assert outcome.failure is not None
    assert outcome.failure.kind is Kind.CRASH
    assert fails_like(outcome, Fingerprint("SIGSEGV"))
    assert "before" in outcome.output
    assert "in backend" in outcome.failure.text  # the Python stack at the crash


def test_a_segfault_in_eager_is_invalid(ask: Ask) -> None:
    outcome = ask("import ctypes, torch\nctypes.string_at(0)\n")
    assert outcome.verdict is Verdict.INVALID
    assert outcome.reason == "eager itself fails: SIGSEGV"


def test_an_abort_is_a_crash_with_its_own_signal(ask: Ask) -> None:
    assert fails_like(ask(in_backend("os.abort()")), Fingerprint("SIGABRT"))


def test_a_hang_is_ended_at_the_deadline(ask: Ask) -> None:
    began = time.monotonic()
    outcome = ask(in_backend("time.sleep(600)"), deadline=1.5)
    assert time.monotonic() - began < 30
    assert outcome.failure is not None
    assert outcome.failure.kind is Kind.HANG
    assert fails_like(outcome, Fingerprint("hang"))


def test_a_hang_that_ignores_signals_is_ended_too(ask: Ask) -> None:
    body = "[signal.signal(n, signal.SIG_IGN) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]; time.sleep(600)"
    assert fails_like(ask(in_backend(body), deadline=1.5), Fingerprint("hang"))


def test_eager_that_runs_out_of_time_says_nothing(ask: Ask) -> None:
    outcome = ask("import time, torch\ntime.sleep(600)\n", deadline=1.5)
    assert outcome.verdict is Verdict.UNKNOWN
    assert outcome.reason == "eager was stopped by a limit of the judge: deadline"


def test_a_script_that_stops_its_own_hang_counts_as_a_hang(ask: Ask) -> None:
    script = "import faulthandler\nfaulthandler.dump_traceback_later(1.5, exit=True)\n" + in_backend("time.sleep(600)")
    assert fails_like(ask(script), Fingerprint("hang"))


def test_a_script_with_an_alarm_counts_as_a_hang(ask: Ask) -> None:
    alarm = "import faulthandler, signal\nfaulthandler.register(signal.SIGALRM, chain=True)\nsignal.alarm(2)\n"
    outcome = ask(alarm + in_backend("sum(range(10**11))"))  # one call into C: no handler in Python would be reached
    assert fails_like(outcome, Fingerprint("hang"))
    assert "(most recent call first)" in outcome.output


def test_the_alarm_of_the_eager_run_does_not_go_off_in_the_compiled_one(ask: Ask) -> None:
    """A repro of a hang sets it at its top; each run has the whole time."""
    script = """
    import faulthandler, os, signal, time, torch
    if os.environ.get("TORCH_COMPILE_DISABLE"):
        signal.alarm(1)
        faulthandler.dump_traceback_later(1.0, exit=True)
    else:
        time.sleep(1.5)
    """
    assert ask(script).verdict is Verdict.PASSED


def test_a_script_that_eats_memory_is_ended_at_the_limit(ask: Ask) -> None:
    body = "hog = [bytearray(os.urandom(1) * (64 << 20)) for _ in iter(lambda: time.sleep(0.02), 1)]"
    outcome = ask(in_backend(body), memory_limit=3 << 30)
    assert outcome.failure is not None
    assert outcome.failure.kind is Kind.OUT_OF_MEMORY
    assert fails_like(outcome, Fingerprint("memory limit"))


def test_the_memory_of_its_child_processes_counts(ask: Ask) -> None:
    hog = "import time; a = bytearray(b'x' * (1500 << 20)); time.sleep(600)"
    body = f'[subprocess.Popen([sys.executable, "-c", "{hog}"]) for _ in range(2)]; time.sleep(600)'
    assert fails_like(ask(in_backend(body), memory_limit=3 << 30), Fingerprint("memory limit"))


def test_a_kill_from_outside_is_taken_for_the_kernels(ask: Ask) -> None:
    assert fails_like(ask(in_backend("os.kill(os.getpid(), signal.SIGKILL)")), Fingerprint("memory limit"))


@pytest.mark.parametrize("statement", ["os._exit(7)", "sys.exit(7)"])
def test_a_script_that_ends_its_interpreter_fails(ask: Ask, statement: str) -> None:
    script = f"import os, sys, torch\nif not os.environ.get('TORCH_COMPILE_DISABLE'):\n    {statement}\n"
    assert fails_like(ask(script), Fingerprint("exit 7"))


@pytest.mark.parametrize("status", ["", "0", "None"])
def test_a_script_that_exits_well_passes(ask: Ask, status: str) -> None:
    assert ask(f"import sys, torch\nsys.exit({status})\n").verdict is Verdict.PASSED


def test_a_daemon_that_left_its_session_is_gone_afterwards(ask: Ask) -> None:
    body = "subprocess.Popen(['sleep', '98761'], start_new_session=True)"
    outcome = ask(in_backend(body))
    assert outcome.verdict is Verdict.PASSED
    assert processes_with("sleep 98761") == []


def test_a_daemon_that_was_forked_twice_is_gone_afterwards(ask: Ask) -> None:
    """It keeps neither parent, session nor environment; only the warden's adoption finds it."""
    script = """
    import os, torch
    if not os.environ.get("TORCH_COMPILE_DISABLE"):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execve("/bin/sleep", ["sleep", "98762"], {})
            os._exit(0)
        os.wait()
    """
    assert ask(script).verdict is Verdict.PASSED
    assert eventually(lambda: processes_with("sleep 98762") == [], 1.0)


def test_a_daemon_of_a_script_that_crashes_is_gone_too(ask: Ask) -> None:
    body = "subprocess.Popen(['sleep', '98763'], start_new_session=True); os.abort()"
    assert fails_like(ask(in_backend(body)), Fingerprint("SIGABRT"))
    assert processes_with("sleep 98763") == []


def test_backward_works_in_a_trial(ask: Ask) -> None:
    outcome = ask(
        """
        import torch
        x = torch.ones(4, requires_grad=True)
        torch.compile(lambda x: (x * x).sum())(x).backward()
        assert torch.equal(x.grad, torch.full((4,), 2.0)), x.grad
        """
    )
    assert outcome.verdict is Verdict.PASSED, outcome


def test_parallel_regions_work_in_a_trial(ask: Ask) -> None:
    """libgomp hangs in a child whose parent ran a parallel region before the fork."""
    outcome = ask(
        """
        import torch
        torch.set_num_threads(2)
        a = torch.ones(512, 512)
        c = torch.compile(lambda a: (a @ a).relu() + 1)(a)
        assert c[0, 0] == 513, c[0, 0]
        """
    )
    assert outcome.verdict is Verdict.PASSED, outcome


def test_each_run_draws_the_same_random_numbers_as_a_fresh_process(ask: Ask) -> None:
    outcome = ask("import torch\nprint('DREW', torch.randn(1).item())\n")
    drawn = [line for line in outcome.output.splitlines() if line.startswith("DREW")]
    assert len(drawn) == 2
    assert len(set(drawn)) == 1


def test_a_script_may_define_operators(ask: Ask) -> None:
    """It runs twice, and an operator can be registered once in a process."""
    outcome = ask(
        """
        import torch
        library = torch.library.Library("sleuth_test", "DEF")
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CPU")
        library.impl("twice", lambda x: torch.empty_like(x), "Meta")
        torch.compile(lambda x: torch.ops.sleuth_test.twice(x), backend="eager")(torch.ones(2))
        """
    )
    assert outcome.verdict is Verdict.PASSED, outcome


def test_the_script_finds_its_data_and_itself(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "repro_data.pt").write_text("data")
    outcome = ask(
        """
        import inspect, os, sys, torch
        def f(): return 1
        assert __name__ == "__main__" and sys.modules["__main__"].f is f
        assert open("repro_data.pt").read() == "data"
        assert os.path.basename(__file__) == "repro.py" and os.path.samefile(os.path.dirname(__file__), os.getcwd())
        assert inspect.getsource(f).startswith("def f")
        assert sys.argv == [__file__] and sys.path[0] == os.getcwd()
        assert sys.stdin.read() == ""
        """
    )
    assert outcome.verdict is Verdict.PASSED, outcome
    assert (tmp_path / "repro.py").read_text().strip().startswith("import inspect")


def test_caches_are_private_and_cold(ask: Ask, judge: Conductor) -> None:
    script = RELU + "import os; from torch._dynamo.utils import counters\n"
    script += "print('MISS', counters['inductor']['fxgraph_cache_miss'], os.environ['TORCHINDUCTOR_CACHE_DIR'])\n"
    folders = set()
    for _ in range(2):
        line = [line for line in ask(script).output.splitlines() if line.startswith("MISS")][-1].split()
        assert line[1] == "1"
        assert line[2].startswith(str(judge.scratch))
        assert not os.path.exists(line[2])
        folders.add(line[2])
    assert len(folders) == 2


def test_a_second_run_meets_the_cache_of_the_first(ask: Ask) -> None:
    script = RELU + "from torch._dynamo.utils import counters\n"
    script += "if counters['aot_autograd']['autograd_cache_hit']: raise ValueError('only on a hit')\n"
    assert ask(script).verdict is Verdict.PASSED
    twice = ask(script, cache_runs=2)
    assert fails_like(twice, Fingerprint("ValueError", "only on a hit"))
    assert twice.eager_seconds > 0


def test_a_failure_while_the_cache_is_filled_counts_as_it_is(ask: Ask, judge: Conductor) -> None:
    before = judge.judged
    outcome = ask(BROKEN_RELU, cache_runs=2)
    assert outcome.verdict is Verdict.FAILED
    assert judge.judged == before + 1


def test_outcomes_come_in_the_order_of_the_trials_and_two_run_at_once(judge: Conductor, tmp_path: Path) -> None:
    """Each of the first two waits for the other one's file: they end well only side by side."""
    folders = []
    for number in range(3):
        folders.append(tmp_path / str(number))
        folders[-1].mkdir()
    meet = """
import pathlib, time, torch
pathlib.Path("../here-{me}").touch()
until = time.time() + 40
while not pathlib.Path("../here-{other}").exists() and time.time() < until: time.sleep(0.05)
assert pathlib.Path("../here-{other}").exists()
"""
    before = judge.judged
    outcomes = judge.judge_all(
        [
            Trial(meet.format(me=0, other=1), folders[0], deadline=60),
            Trial(meet.format(me=1, other=0), folders[1], deadline=60),
            Trial("import torch\nraise KeyError('third')\n", folders[2], deadline=60),
        ]
    )
    assert [outcome.verdict for outcome in outcomes] == [Verdict.PASSED, Verdict.PASSED, Verdict.INVALID]
    assert judge.judged == before + 2


def test_trials_that_share_a_folder_see_their_own_source(judge: Conductor, tmp_path: Path) -> None:
    source = "import inspect, torch\ndef f(): return {n}\nassert 'return {n}' in inspect.getsource(f)\n"
    outcomes = judge.judge_all([Trial(source.format(n=n), tmp_path) for n in (1, 2)])
    assert [outcome.verdict for outcome in outcomes] == [Verdict.PASSED, Verdict.PASSED], outcomes


def test_it_goes_on_after_whatever_happened(ask: Ask) -> None:
    ask(in_backend("ctypes.string_at(0)"))
    ask(in_backend("os.killpg(0, signal.SIGKILL)"))
    assert ask(RELU).verdict is Verdict.PASSED


def test_signals_are_as_in_a_fresh_process(ask: Ask) -> None:
    outcome = ask(
        """
        import signal, torch
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        assert signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()
        """
    )
    assert outcome.verdict is Verdict.PASSED, outcome
