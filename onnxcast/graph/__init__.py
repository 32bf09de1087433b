"""Walk, type and edit graphs, and ask the schemas."""
