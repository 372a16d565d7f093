"""The client's end of a warden: start a command under guard, wait for it, stop it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace

from torchsleuth.judge.environment import with_torchsleuth
from torchsleuth.judge.launch import Launch
from torchsleuth.judge.order import Order


class Guarded:
    def __init__(self, launch: Launch) -> None:
        launch = replace(
            launch,
            folder=os.path.abspath(launch.folder),
            output=os.path.abspath(launch.output),
            ending=launch.ending and os.path.abspath(launch.ending),
        )
        # The warden runs under the client's own interpreter; only the command needs the program's.
        with open(launch.output, "ab") as output:
            self._warden = subprocess.Popen(
                [sys.executable, "-m", "torchsleuth.judge.warden"],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=with_torchsleuth(os.environ),
                cwd=os.sep,  # in a user's folder, a json.py would be imported in place of Python's
                start_new_session=True,  # Ctrl-C at the terminal is the client's to handle
            )
        self._lock = threading.Lock()
        self._send(launch.to_line())

    @property
    def running(self) -> bool:
        return self._warden.poll() is None

    def give(self, order: Order) -> None:
        self._send(order.to_line())

    def wait(self, seconds: float | None = None) -> bool:
        """Whether the command and everything it started is gone."""
        try:
            self._warden.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        self.stop()
        return True

    def stop(self) -> None:
        """Have everything killed, without waiting for it."""
        with self._lock:
            pipe = self._warden.stdin
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                return  # it has ended already

    def _send(self, line: bytes) -> None:
        with self._lock:
            pipe = self._warden.stdin
            assert pipe is not None
            try:
                if not pipe.closed:
                    pipe.write(line)
                    pipe.flush()
            except BrokenPipeError:
                return  # it has ended, which `wait` finds
