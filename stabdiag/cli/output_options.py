"""The values of the options that say what to write, and where."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from enum import StrEnum
from pathlib import Path

from stabdiag.cli.choices import JsonDetail
from stabdiag.cli.config import config_files
from stabdiag.cli.run_options import RunOptions, parse_pair
from stabdiag.cli.terminal import Terminal, notify, terminal, write_text
from stabdiag.errors import StabdiagError, refuse_unknown
from stabdiag.files import protect_inputs, refuse_unwritable
from stabdiag.formats import by_suffix, names, suffixes
from stabdiag.model.frozen import frozen


@frozen
class OutputOptions:
    """The output of a command; ``formats`` are the formats that it can write."""

    formats: type[StrEnum]
    format: StrEnum | None = None
    output: Path | None = None
    json: bool | JsonDetail | None = None
    quiet: bool = False
    color: bool | None = None

    @property
    def screen(self) -> Terminal:
        """The capabilities of the terminal, or of the output file."""
        return terminal(self.output, self.color)

    @property
    def has_full_json(self) -> bool:
        """Whether JSON contains the whole report."""
        return self.json is JsonDetail.FULL

    def choose_format(
        self, run_options: RunOptions, inputs: Iterable[object], others: Iterable[Path] = ()
    ) -> str:
        """Return the output format, after checking that the outputs can be written.

        Raises:
            StabdiagError: if one cannot be written, this command does not have the format, or
                ``--quiet`` and a format are both meant for standard output.
        """
        check_outputs([self.output, *others], inputs, run_options.config)
        format_name = self._resolve_format(run_options)
        if self.output is None and format_name in ("html", "svg") and sys.stdout.isatty():
            raise StabdiagError(
                f"a terminal cannot show {format_name}; write a file: -o report.{format_name}"
            )
        if self.quiet and self.output is None and (self.format or self.json):
            raise StabdiagError(
                f"--quiet prints one line and --format {format_name} a report; write one to a file"
            )
        return format_name

    def _resolve_format(self, run_options: RunOptions) -> str:
        if self.json and self.format not in (None, "json"):
            raise StabdiagError(f"--json and --format {self.format} exclude each other")
        if self.json:
            return "json"
        if self.format is not None:
            return self.format.value
        choices = [str(choice) for choice in self.formats]
        suffix = "" if self.output is None else self.output.suffix
        format_name = by_suffix(suffix)
        if format_name in choices:
            return format_name
        if suffix:
            valid_suffixes = " ".join(suffix for name in choices for suffix in suffixes(name))
            raise StabdiagError(
                f"{self.output}: this command cannot write {suffix} files; end the name with one "
                f"of {valid_suffixes}, or choose with --format ({', '.join(choices)})"
            )
        default = run_options.project.format
        return default if default in choices else choices[0]

    def write(self, text: str | Iterable[str], verdict: str = "", *others: Path) -> None:
        """Write a text, and list the files that were written."""
        write_text(text, self.output)
        files = [
            str(path) for path in (self.output, *others) if path is not None and path.is_file()
        ]
        if files:
            notify(f"wrote {', '.join(files)}{f'; {verdict}' if verdict else ''}")

    def write_report(
        self, report: Callable[[], str | Iterable[str]], verdict: str, *others: Path
    ) -> None:
        """Write the report, or only the verdict if ``--quiet``; with an output file, both."""
        if self.quiet:
            write_text(verdict, None)
        if self.output is not None or not self.quiet:
            self.write(report(), verdict, *others)


def check_outputs(
    outputs: Sequence[Path | None], inputs: Iterable[object], config: Path | None
) -> None:
    """Raise an error for outputs that cannot be written or that the command line names as inputs.

    Other inputs, such as the manifest next to a log, are known only after reading.
    """
    refuse_unwritable(outputs)
    protect_inputs(outputs, [*inputs, *config_files(Path.cwd(), config)])


def parse_write_options(
    texts: list[str] | None, formats: Collection[str] | None = None
) -> list[tuple[Path, str]]:
    """Return the files that ``--write`` names, each with its format."""
    pairs = [parse_pair(text, "--write") for text in texts or ()]
    for name, path in pairs:
        refuse_unknown(name, names() if formats is None else formats)
        if path == "-":
            raise StabdiagError(
                f"--write {name}=- is not a file; --format {name} writes to standard output"
            )
    return [(Path(path), name) for name, path in pairs]
