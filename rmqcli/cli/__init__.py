"""The command-line application: command tree, options, profiles, errors and exit codes."""
