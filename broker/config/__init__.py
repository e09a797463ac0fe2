"""Settings: one frozen dataclass per scope is the table. Pure: files and the environment are read elsewhere."""
