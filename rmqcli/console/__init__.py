"""A page about a cluster that stays up to date, for a browser. It reads only.

`shared` reads the cluster once for all viewers; `overview`, `topic`, `message` and `group` make views of it,
values of `rmqcli.report.page`; `html` writes them as documents, `guard` says who may have them, and `server`
answers requests. Names and bodies are untrusted, so only `html` and the report's parts write markup.
"""
