"""Settings: one frozen dataclass per scope is the table. Pure.

Files and the environment are read elsewhere.
"""
