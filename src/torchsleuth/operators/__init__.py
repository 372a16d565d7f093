"""Properties of an operator that follow from its name: namespace, base name, in place, random, view.

Modules:

- `names` parses the spellings of an operator's name and is the only place that does so.
- `python_operators` is the table of Python's infix and augmented-assignment operators.
- `properties` is the table of operator properties, with one function for each question.
- `public` maps ATen operators to the public function or method that calls them.

The tool reads graphs without importing torch, so this package uses the standard library alone.  The tests compare the
tables with the schemas of the installed torch.
"""
