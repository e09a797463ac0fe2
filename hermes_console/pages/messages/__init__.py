"""Messages of a topic: browse, one message, produce, export, search."""
