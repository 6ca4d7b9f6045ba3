"""What a cluster is told to be: topics, groups, name server entries, broker configuration, offsets, as a document."""
