"""Tenants: who owns topics, groups and principals. Only the name rule is fixed yet; rights and
pages build on it.
"""
