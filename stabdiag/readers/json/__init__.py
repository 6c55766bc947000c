"""JSON lines and JSON documents, nested or flat."""
