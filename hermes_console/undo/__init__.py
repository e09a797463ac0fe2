"""What a group's offsets were before an operator changed them, so that the change can be undone."""
