"""A live, read-only web page about a cluster.

`shared` reads the cluster once for all viewers; `overview`, `topic`, `message` and `group` make views of it,
values of `rmqcli.report.page`; `html` writes them as documents, `guard` decides who may see them, and
`server` responds to requests. Names and bodies are untrusted, so only `html` and the report's parts write
markup.
"""
