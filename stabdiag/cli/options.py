"""Bundles of options that several commands share."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import cached_property, partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args

import typer

from stabdiag.cli import complete
from stabdiag.cli.commands import FailOn
from stabdiag.cli.config import Project, config_files, read_project
from stabdiag.cli.terminal import Exit, Terminal, notify, terminal, write
from stabdiag.errors import StabdiagError, refuse_unknown
from stabdiag.files import protect_inputs, refuse_unwritable
from stabdiag.formats import by_suffix, names, suffixes
from stabdiag.model.frozen import frozen
from stabdiag.model.limits import Limits

if TYPE_CHECKING:
    from stabdiag.baseline.references import References
    from stabdiag.scan.work import ScanOptions

_KEYWORD_ONLY: Final = inspect.Parameter.KEYWORD_ONLY

_EXAMPLES = {
    "--limit": "NAME=VALUE such as spike.sigma=4",
    "--column": "ROLE=NAME such as loss=train/ce",
    "--set": "FIELD=VALUE such as grad_clip=1",
    "--write": "FORMAT=FILE such as sarif=report.sarif",
}


def option(usage: str, help: str, **settings: Any) -> Any:
    """Return an option; ``usage`` is written as in the help: ``--output -o FILE``."""
    words = usage.split()
    flags = [word for word in words if word.startswith("-")]
    metavar = next((word for word in words if word not in flags), None)
    return typer.Option(*flags, metavar=metavar, help=help, **settings)


def format_option(choices: Sequence[str]) -> Any:
    """Return the option for the output format; the first choice is the default."""
    listed = f"{', '.join(choices[:-1])} or {choices[-1]}"
    return option(
        "--format -f FORMAT",
        f"{listed}. Default: by the suffix of `--output`, the settings file, else {choices[0]}.",
        autocompletion=complete.among(choices),
    )


FailOnOption = Annotated[
    FailOn | None,
    option(
        "--fail-on SEVERITY",
        "Exit 1 at or above this severity: error, warning or never. With unknown, exit 1 for an "
        "error and 2 if too little was logged to tell. Default: the settings file, else error.",
    ),
]
LogArguments = Annotated[
    list[str],
    typer.Argument(
        metavar="LOG...",
        help="A log in any supported format, a folder, an archive or a URL; or several files of "
        "one run. `-` reads standard input.",
    ),
]
WriteOption = Annotated[
    list[str] | None,
    option(
        "--write FORMAT=FILE",
        "Also write the report in this format to a file: `sarif=report.sarif`. Repeatable.",
        autocompletion=complete.among([f"{name}=" for name in names()]),
    ),
]
LiteralOption = Annotated[
    bool, option("--literal", "Apply the published decision tree verbatim, without calibration.")
]
AsJson = Annotated[bool, option("--json", "Same as `--format json`.")]
Color = Annotated[
    bool | None,
    option(
        "--color/--no-color",
        "Whether to use color. Default: if the terminal supports it.",
        show_default=False,
    ),
]


@frozen
class LimitOptions:
    """Options for thresholds and the project's settings file."""

    limit: Annotated[
        list[str] | None,
        option(
            "--limit NAME=VALUE",
            "Change a threshold, such as `spike.sigma=4`. Repeatable.",
            autocompletion=complete.limits,
        ),
    ] = None
    config: Annotated[
        Path | None,
        option(
            "--config FILE",
            "Read settings from this TOML file instead of the nearest `stabdiag.toml` or "
            "`pyproject.toml`.",
        ),
    ] = None

    @cached_property
    def project(self) -> Project:
        """The project's settings. Expired ignore rules are reported on standard error."""
        project = read_project(Path.cwd(), self.config)
        for rule in project.expired:
            notify(
                f"{project.table('ignore')}: the rule for {rule.slug} expired on {rule.until}; "
                "fix the finding or extend the date"
            )
        return project

    @cached_property
    def limits(self) -> Limits:
        """The thresholds in force."""
        return self.project.limits.override(_pairs(self.limit, "--limit"), by="--limit")

    def exit_severity(self, flag: FailOn | None) -> FailOn:
        """Return the lowest severity with exit code 1, from the flag or the settings."""
        severity = flag or FailOn(self.project.fail_on or FailOn.ERROR)
        if flag is None and severity is FailOn.NEVER:
            notify(f"{self.project.table()}: fail-on is never, so no finding fails this command")
        return severity


@frozen
class ReadOptions(LimitOptions):
    """Options for reading the columns of a log."""

    columns: Annotated[
        list[str] | None,
        option(
            "--column --columns ROLE=NAME",
            "Map a role to a column, such as `loss=train/ce`. Repeatable.",
            autocompletion=complete.columns,
        ),
    ] = None
    log_format: Annotated[
        str | None,
        option(
            "--log-format NAME",
            "The log format, if it is not detected; `stabdiag formats` lists them.",
            autocompletion=complete.log_formats,
        ),
    ] = None

    @property
    def columns_by_role(self) -> dict[str, str]:
        """The column names by role."""
        return {**self.project.columns, **_pairs(self.columns, "--column")}


@frozen
class ManifestOptions(LimitOptions):
    """Options that describe how a run was configured."""

    dtype: Annotated[
        str | None,
        option(
            "--dtype DTYPE",
            "fp16, bf16, fp8 or fp32; overrides the manifest.",
            autocompletion=complete.among(("fp16", "bf16", "fp8", "fp32")),
        ),
    ] = None
    settings: Annotated[
        list[str] | None,
        option(
            "--set FIELD=VALUE",
            "Override a manifest field, such as `grad_clip=1`. Repeatable.",
            autocompletion=complete.fields,
        ),
    ] = None

    @property
    def manifest_fields(self) -> dict[str, object]:
        """The manifest fields that the options set."""
        dtype = {} if self.dtype is None else {"dtype": self.dtype}
        return {**_pairs(self.settings, "--set"), **dtype}


@frozen
class RunOptions(ManifestOptions, ReadOptions):
    """Options for commands that read any number of runs."""

    @property
    def common(self) -> dict[str, Any]:
        """The arguments for the Python API, for one log or many."""
        return {
            "settings": self.manifest_fields,
            "limits": self.limits,
            "columns": self.columns_by_role,
            "format": self.log_format,
            "assume": self.project.manifest,
        }

    def scan_options(self, **changes: Any) -> ScanOptions:
        """Return the options for reading and diagnosing many logs."""
        from stabdiag.scan.work import ScanOptions

        return ScanOptions(**self.common, ignored=self.project.ignored, **changes).checked()


@frozen
class LogOptions(RunOptions):
    """Options for commands that read one run."""

    manifest: Annotated[
        Path | None,
        option(
            "--manifest FILE",
            "The run's configuration. Default: files next to the log, such as "
            "`<log>.manifest.json`, `manifest.json`, `training_args.json`, `config.yaml`.",
        ),
    ] = None
    attempt: Annotated[
        int | None,
        option(
            "--attempt N",
            "Which run to read if several are appended to one log. Default: the last.",
        ),
    ] = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments for the Python API."""
        return {**self.common, "manifest": self.manifest, "attempt": self.attempt}


BaselinePaths = Annotated[
    list[str] | None,
    option(
        "--baseline PATH",
        "Compare with earlier good runs: logs, folders, patterns, URLs, the store of a scan, or a "
        "file written by `stabdiag baseline`. Repeatable. Default: the settings file.",
    ),
]


@frozen
class BaselineOptions:
    """Options for comparing with earlier good runs."""

    baseline: BaselinePaths = None
    where: Annotated[
        list[str] | None,
        option(
            "--where CONDITION",
            "Use only baseline runs that meet a condition, such as `outcome=healthy`. Repeatable.",
        ),
    ] = None

    def sources(self, project: Project) -> list[str]:
        """Return the baseline paths, from the options or the settings file."""
        if self.where and not (self.baseline or project.baseline):
            raise StabdiagError("--where selects baseline runs; name them with --baseline")
        return self.baseline or list(project.baseline)

    def arguments(self, project: Project) -> dict[str, Any]:
        """Return the arguments for the Python API."""
        sources = self.sources(project)
        return {"baseline": sources, "where": self.where or ()} if sources else {}

    def references(self, runs: RunOptions) -> References | None:
        """Return the references, read once for all runs; None without a baseline."""
        sources = self.sources(runs.project)
        if not sources:
            return None
        from stabdiag.api.baselines import read_baseline
        from stabdiag.model.baseline import describe_unused

        references = read_baseline(sources, runs.scan_options(), self.where or ())
        if not references.profiles:
            notify(f"no baseline to compare with: {describe_unused(references.left_out)}")
        return references


@frozen
class OutputOptions:
    """Options for the output format and destination.

    ``formats`` lists the formats that the command can write.
    """

    format: str | None = None  # ``bundled`` adds the option
    output: Annotated[
        Path | None,
        option(
            "--output -o FILE",
            "Write to this file. Default: standard output (`-`).",
            callback=lambda path: None if path == Path("-") else path,
        ),
    ] = None
    color: Color = None
    formats: tuple[str, ...] = ("terminal", "markdown")

    @property
    def requested(self) -> str | None:
        """The format that an option names."""
        return self.format

    @property
    def screen(self) -> Terminal:
        """The capabilities of the terminal, or of the output file."""
        return terminal(self.output, self.color)

    def choose_format(
        self, limit_options: LimitOptions, inputs: Iterable[object], others: Iterable[Path] = ()
    ) -> str:
        """Return the output format, after checking that the outputs can be written.

        Raises:
            StabdiagError: if one cannot be written, or this command does not have the format.
        """
        check_outputs([self.output, *others], inputs, limit_options.config)
        format_name = self._resolve_format(limit_options)
        if self.output is None and format_name in ("html", "svg") and sys.stdout.isatty():
            raise StabdiagError(
                f"a terminal cannot show {format_name}; write a file: -o report.{format_name}"
            )
        return format_name

    def _resolve_format(self, limit_options: LimitOptions) -> str:
        if self.requested is not None:
            refuse_unknown(self.requested, self.formats)
            return self.requested
        suffix = "" if self.output is None else self.output.suffix
        format_name = by_suffix(suffix)
        if format_name in self.formats:
            return format_name
        if suffix:
            choices = " ".join(suffix for name in self.formats for suffix in suffixes(name))
            raise StabdiagError(
                f"{self.output}: this command cannot write {suffix} files; end the name with one "
                f"of {choices}, or choose with --format ({', '.join(self.formats)})"
            )
        default = limit_options.project.format
        return default if default in self.formats else self.formats[0]

    def write(self, text: str | Iterable[str], verdict: str = "", *others: Path) -> None:
        """Write a text, and list the files that were written."""
        write(text, self.output)
        files = [
            str(path) for path in (self.output, *others) if path is not None and path.is_file()
        ]
        if files:
            notify(f"wrote {', '.join(files)}{f'; {verdict}' if verdict else ''}")


@frozen
class JsonOutputOptions(OutputOptions):
    """Options for an output that can be JSON."""

    json: AsJson = False

    @property
    def requested(self) -> str | None:
        """The format that an option names."""
        if self.json and self.format not in (None, "json"):
            raise StabdiagError(f"--json and --format {self.format} exclude each other")
        return "json" if self.json else self.format


ChecklistOutputOptions = Annotated[JsonOutputOptions, names("sheet")]


@frozen
class VerdictOutputOptions(JsonOutputOptions):
    """Options for an output that can be reduced to its verdict."""

    quiet: Annotated[bool, option("--quiet -q", "Print only the verdict, in one line.")] = False

    def choose_format(
        self, limit_options: LimitOptions, inputs: Iterable[object], others: Iterable[Path] = ()
    ) -> str:
        """Return the output format; ``--quiet`` excludes a named one on standard output."""
        format_name = super().choose_format(limit_options, inputs, others)
        if self.quiet and self.output is None and self.requested:
            raise StabdiagError(
                f"--quiet prints one line and --format {format_name} a report; write one to a file"
            )
        return format_name

    def write_report(
        self, report: Callable[[], str | Iterable[str]], verdict: str, *others: Path
    ) -> None:
        """Write the report, or only the verdict if ``--quiet``; with an output file, both."""
        if self.quiet:
            write(verdict, None)
        if self.output is not None or not self.quiet:
            self.write(report(), verdict, *others)


@frozen
class ReportOutputOptions(VerdictOutputOptions):
    """The options about a report."""

    verbose: Annotated[
        bool, option("--verbose -v", "Show every question of the decision tree with its numbers.")
    ] = False
    formats: tuple[str, ...] = names()


def bundled(command: Callable[..., Exit | None]) -> Callable[..., Exit | None]:
    """Replace each bundle among the parameters of a command by its options, for typer.

    A bundle may be annotated with the formats that the command can write.
    """
    parameters = inspect.signature(command, eval_str=True).parameters
    factories: dict[str, Any] = {}
    bundles: dict[str, list[inspect.Parameter]] = {}
    for name, parameter in parameters.items():
        bundle, *formats = get_args(parameter.annotation) or (parameter.annotation,)
        factory: Any = bundle
        if is_dataclass(bundle):
            bundles[name] = _options(bundle, *formats)
            factories[name] = partial(factory, formats=formats[0]) if formats else factory

    @wraps(command)
    def wrapper(**values: Any) -> Exit | None:
        for name, options in bundles.items():
            fields = {option.name: values.pop(option.name) for option in options}
            values[name] = factories[name](**fields)
        return command(**values)

    flat = [p for name, own in parameters.items() for p in bundles.get(name, [own])]
    flat = [parameter.replace(kind=_KEYWORD_ONLY) for parameter in flat]
    wrapper.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return wrapper


def _options(bundle: Any, formats: Sequence[str] = ()) -> list[inspect.Parameter]:
    """Return the options of a bundle: the format, its own, then those of its base classes."""
    defaults: dict[str, Any] = {item.name: item.default for item in fields(bundle)}
    default_formats = defaults.pop("formats", ())
    kinds: dict[str, Any] = {}
    if "format" in defaults:
        kinds["format"] = Annotated[str | None, format_option(formats or default_formats)]
    for base in bundle.__mro__:
        kinds = {**kinds, **inspect.get_annotations(base, eval_str=True), **kinds}
    return [
        inspect.Parameter(name, _KEYWORD_ONLY, default=defaults[name], annotation=kind)
        for name, kind in kinds.items()
        if name in defaults
    ]


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
    pairs = [_pair(text, "--write") for text in texts or ()]
    for name, path in pairs:
        refuse_unknown(name, names() if formats is None else formats)
        if path == "-":
            raise StabdiagError(
                f"--write {name}=- is not a file; --format {name} writes to standard output"
            )
    return [(Path(path), name) for name, path in pairs]


def _pairs(texts: list[str] | None, flag: str) -> dict[str, str]:
    return dict(_pair(text, flag) for text in texts or ())


def _pair(text: str, flag: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or (flag == "--write" and not value):
        raise StabdiagError(f"{flag} takes {_EXAMPLES[flag]}, not {text!r}")
    return name.strip(), value
