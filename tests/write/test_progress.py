"""Progress: a live line on a terminal, plain lines elsewhere, now and then."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys

import pytest

from torchsleuth.write import progress
from torchsleuth.write.progress import Plain, duration, lines_of, status_of


def test_plain_lines_carry_the_seconds_since_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    said = io.StringIO()
    say = Plain(said)
    say("begin")
    now[0] = 112.34
    say("end")
    assert said.getvalue() == "torchsleuth [  0.0s] begin\ntorchsleuth [ 12.3s] end\n"


def test_where_there_is_no_terminal_the_state_is_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    said = io.StringIO()
    say = Plain(said)
    say("searching")
    for second in range(1, 61):
        now[0] = float(second)
        status_of(say)(f"{second} judged")
    lines = said.getvalue().splitlines()
    assert [line.split("] ")[1] for line in lines] == ["searching", "20 judged", "40 judged", "60 judged"]


def test_whoever_takes_only_lines_gets_no_state() -> None:
    said: list[str] = []
    status_of(said.append)("12 judged")
    assert said == []


@pytest.mark.parametrize(("seconds", "text"), [(-3, "0 s"), (44.6, "45 s"), (89, "89 s"), (540, "9 min")])
def test_durations_are_about(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_where_nobody_reads_any_more_it_is_silent() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    say = Plain(Closed())
    say("begin")
    say.status("later")


def on_a_terminal(source: str) -> str:
    """What a terminal gets to see of a script."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen([sys.executable, "-c", source], stderr=theirs, stdout=theirs, env=environment)
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        seen += part
    assert process.wait(30) == 0
    os.close(ours)
    return seen.decode()


def test_on_a_terminal_lines_stay_and_the_state_is_drawn_below_them() -> None:
    text = on_a_terminal(
        "import time\n"
        "from torchsleuth.write import terminal\n"
        "with terminal.progress() as say:\n"
        "    say('searching among [4] operators')\n"
        "    say.status('12 judged [so far]')\n"
        "    time.sleep(0.5)\n"
    )
    assert "searching among [4] operators\r\n" in text
    assert "12 judged [so far]" in text
    assert "12 judged [so far]\r\n  " not in text, "the state leaves no line"


def test_on_a_terminal_nothing_is_drawn_again_while_the_program_has_it() -> None:
    text = on_a_terminal(
        "import time\n"
        "from torchsleuth.write import progress\n"
        "with progress.progress() as say:\n"
        "    progress.lines_of(say)('dynamo: [0/0]')\n"
        "    print('(Pdb) ', end='', flush=True)\n"
        "    time.sleep(0.5)\n"
        "    print('the program ended', flush=True)\n"
        "    say('judging')\n"
        "    time.sleep(0.3)\n"
    )
    before, _, after = text.partition("the program ended")
    assert before.endswith("s dynamo: [0/0]\r\n(Pdb) ")
    assert "\x1b" not in before
    assert "\x1b" in after, "and then it is"
    seconds = float(after.partition("s judging")[0].split()[-1])
    assert seconds >= 0.5, "one clock for both"


def test_lines_go_where_they_always_go_where_nothing_is_live() -> None:
    said: list[str] = []
    lines_of(said.append)("a line")
    assert said == ["a line"]
    stream = io.StringIO()
    lines_of(Plain(stream))("a line")
    assert stream.getvalue() == "torchsleuth [  0.0s] a line\n"
