"""Commands: they parse, call and render. One module or package per noun; `rmqcli.cli.app` lists them."""
