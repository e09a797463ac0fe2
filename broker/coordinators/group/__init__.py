"""Classic consumer groups and their committed offsets: pure logic, no clock, no chance, no I/O."""
