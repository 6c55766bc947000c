"""``python -m stabdiag``."""

from stabdiag.cli import main

main()
