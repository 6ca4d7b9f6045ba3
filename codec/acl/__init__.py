"""Access control of 4.9: accounts in plain_acl.yml, addresses that need no account, and permissions."""
