"""Each command, whole: what it runs, writes and says in the end.  `cli` parses for it."""
