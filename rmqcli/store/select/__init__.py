"""Selection of records, entries and rows by topic, key, tag, queue and SQL92 condition."""
