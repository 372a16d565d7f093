"""Text for people: repro.py with its docstring, issue.md, result.json, the terminal."""
