"""The entry point that torch loads at every import.

It must cost nothing and never raise: an exception here would break `import torch` for everyone who has torchsleuth
installed.  So it uses the standard library alone, does nothing unless TORCHSLEUTH_WATCH names a session folder, and
even then only registers an import hook: the watching itself starts when torch's compiler is first imported.
"""

import os
import sys


def start() -> None:
    session = os.environ.get("TORCHSLEUTH_WATCH")
    if not session:
        return
    try:
        # Inductor's compile workers are torch processes too; nothing of the user's runs in them.
        if any(word.endswith("compile_worker/__main__.py") for word in getattr(sys, "orig_argv", sys.argv)):
            return
        from torchsleuth.watch import begin

        begin.watch_process(session)
    except BaseException as error:
        _complain(session, error)


def _complain(session: str, error: BaseException) -> None:
    try:
        with open(os.path.join(session, "trouble.log"), "a", encoding="utf-8") as file:
            file.write(f"{os.getpid()}: {type(error).__name__}: {error}\n")
    except BaseException:
        pass
