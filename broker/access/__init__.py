"""Who may do what: principals, rules, quotas. Pure. Empty until there is authentication."""
