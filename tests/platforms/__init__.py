"""Other systems than Linux, as far as Linux can show them: their names are removed, and sys.platform is theirs."""
