"""The settings of a cluster as a document: topics, groups, name server entries, broker configuration, offsets."""
