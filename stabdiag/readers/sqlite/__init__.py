"""SQLite databases that hold runs."""
