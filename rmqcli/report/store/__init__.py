"""The report on a store folder."""
