"""JSON lines and JSON documents, whatever they nest."""
