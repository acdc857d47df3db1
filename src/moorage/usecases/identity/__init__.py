"""Users, service principals, groups, tokens and grants."""
