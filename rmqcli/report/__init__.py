"""A report on a cluster or a store folder as one HTML page, for people.

`cluster` and `store` read data and create sections, `page` defines the values of a page, `cells` and `charts`
make numbers and plots readable, and `html` writes the page. Names are untrusted, so only `html` writes
markup.
"""
