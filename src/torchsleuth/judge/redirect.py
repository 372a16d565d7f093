"""Where the process of a trial reads from and prints to."""

from __future__ import annotations

import io
import os
import sys


def redirect(output: str) -> None:
    """Standard input from nowhere; standard output and error to the file `output`."""
    nowhere = os.open(os.devnull, os.O_RDONLY)
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(nowhere, 0)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(nowhere)
    os.close(file)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # what was printed before a crash is evidence
