"""What is inside a message, for people: bytes as text, JSON or hex, and back from a form. Pure."""
