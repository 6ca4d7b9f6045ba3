"""A report on a cluster or a store folder as one HTML page, for people.

`cluster` and `store` read and write sections, `page` has their values, `cells` and `charts` make numbers and
plots readable, and `html` writes the page. Names come from others, so that only `html` writes markup.
"""
