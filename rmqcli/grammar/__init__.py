"""The grammars of values on the command line: ranges of offsets and times, durations, sizes, escapes."""
