"""Access control of one broker: the files of accounts, the gate, and changes by requests."""
