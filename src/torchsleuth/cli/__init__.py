"""The command line: one file a command; thin: parse, call, print.  Importing it must stay cheap."""

from torchsleuth.cli.main import main

__all__ = ["main"]
