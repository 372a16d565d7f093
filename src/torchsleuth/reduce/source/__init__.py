"""Python source made smaller: for failures that no graph holds, because Dynamo itself fails or loses something.

The program's own file is the script to begin with; statements go first, then what wraps them, what a function does
takes the place of its call, then expressions shrink.  What makes no sense fails in eager too, and is refused by the
Judge like any other candidate.
"""
