"""Commands: parse, call, render. One package for each noun and one module for each verb; `rmqcli.cli.app`
names them.
"""
