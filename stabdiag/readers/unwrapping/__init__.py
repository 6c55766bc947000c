"""Restore a log as its program wrote it: unpacked, unwrapped, one record per line."""
