"""Commands: parse, call, render. A package per noun, a module per verb; `rmqcli.cli.app` names them."""
