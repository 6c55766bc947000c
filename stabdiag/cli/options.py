"""The options that several commands share, in bundles, and what they stand for."""

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
from stabdiag.cli.config import Project, config_files, project_of
from stabdiag.cli.terminal import Exit, Terminal, tell, terminal, write
from stabdiag.errors import StabdiagError, refuse_unknown
from stabdiag.files import protect_inputs, refuse_unwritable
from stabdiag.formats import by_suffix, names, suffixes
from stabdiag.model.frozen import frozen
from stabdiag.model.limits import Limits

if TYPE_CHECKING:
    from stabdiag.baseline.references import References
    from stabdiag.scan.work import ScanOptions

_BY_NAME: Final = inspect.Parameter.KEYWORD_ONLY

_WANTS = {
    "--limit": "NAME=VALUE such as spike.sigma=4",
    "--column": "ROLE=NAME such as loss=train/ce",
    "--set": "FIELD=VALUE such as grad_clip=1",
    "--write": "FORMAT=FILE such as sarif=report.sarif",
}


def option(usage: str, help: str, **more: Any) -> Any:
    """Return an option; its usage is that of the help: ``--output -o FILE``."""
    words = usage.split()
    flags = [word for word in words if word.startswith("-")]
    metavar = next((word for word in words if word not in flags), None)
    return typer.Option(*flags, metavar=metavar, help=help, **more)


def format_option(known: Sequence[str]) -> Any:
    """Return the option that names the format of an output; the first one is the default."""
    listed = f"{', '.join(known[:-1])} or {known[-1]}"
    return option(
        "--format -f FORMAT",
        f"{listed}. Default: by the suffix of `--output`, the settings file, else {known[0]}.",
        autocompletion=complete.among(known),
    )


Severe = Annotated[
    FailOn | None,
    option(
        "--fail-on SEVERITY",
        "Exit 1 at or above this severity: error, warning or never. With unknown, exit 1 for an "
        "error and 2 if too little was logged to tell. Default: the settings file, else error.",
    ),
]
Logs = Annotated[
    list[str],
    typer.Argument(
        metavar="LOG...",
        help="A log in any known format, a folder, an archive or a URL; or several files of one "
        "run. `-` reads standard input.",
    ),
]
Besides = Annotated[
    list[str] | None,
    option(
        "--write FORMAT=FILE",
        "Also write this format to a file, such as `sarif=report.sarif`. Repeatable.",
        autocompletion=complete.among([f"{name}=" for name in names()]),
    ),
]
Literal = Annotated[bool, option("--literal", "Use the tree's original fixed rules.")]
AsJson = Annotated[bool, option("--json", "The same as `--format json`.")]
Color = Annotated[
    bool | None,
    option(
        "--color/--no-color",
        "Use color or not. Default: if the terminal supports it.",
        show_default=False,
    ),
]


@frozen
class Held:
    """The options about limits and the project's settings."""

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
            "Read the settings from this TOML file, not from the nearest `stabdiag.toml` or "
            "`pyproject.toml`.",
        ),
    ] = None

    @cached_property
    def project(self) -> Project:
        """The project's settings; ignored findings that have expired are told of."""
        found = project_of(Path.cwd(), self.config)
        for rule in found.expired:
            tell(
                f"{found.table('ignore')}: {rule.slug} was to be ignored until {rule.until}, and "
                "counts again; fix it, or set a later day"
            )
        return found

    @cached_property
    def limits(self) -> Limits:
        """The limits in force."""
        return self.project.limits.override(_pairs(self.limit, "--limit"), by="--limit")

    def fails_on(self, flag: FailOn | None) -> FailOn:
        """Return the severity with exit code 1: by the flag, else by the settings."""
        chosen = flag or FailOn(self.project.fail_on or FailOn.ERROR)
        if flag is None and chosen is FailOn.NEVER:
            tell(f"{self.project.table()}: fail-on is never, so no finding fails this command")
        return chosen


@frozen
class Read(Held):
    """The options about how the columns of a log are read."""

    columns: Annotated[
        list[str] | None,
        option(
            "--column --columns ROLE=NAME",
            "Name the column of a role, such as `loss=train/ce`. Repeatable.",
            autocompletion=complete.columns,
        ),
    ] = None
    log_format: Annotated[
        str | None,
        option(
            "--log-format NAME",
            "The format of the log, if it is not recognized; `stabdiag formats` lists them.",
            autocompletion=complete.log_formats,
        ),
    ] = None

    @property
    def named(self) -> dict[str, str]:
        """The columns by role."""
        return {**self.project.columns, **_pairs(self.columns, "--column")}


@frozen
class Told(Held):
    """The options about how a run was configured."""

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
    def given(self) -> dict[str, object]:
        """The manifest fields that the options give."""
        dtype = {} if self.dtype is None else {"dtype": self.dtype}
        return {**_pairs(self.settings, "--set"), **dtype}


@frozen
class Runs(Told, Read):
    """The options about how many logs are read."""

    @property
    def common(self) -> dict[str, Any]:
        """The arguments of the Python API that these options stand for, whatever is read."""
        return {
            "settings": self.given,
            "limits": self.limits,
            "columns": self.named,
            "format": self.log_format,
            "assume": self.project.manifest,
        }

    def asked(self, **more: Any) -> ScanOptions:
        """Return how to read and judge the logs of a scan."""
        from stabdiag.scan.work import ScanOptions

        return ScanOptions(**self.common, ignored=self.project.ignored, **more).checked()


@frozen
class Reading(Runs):
    """The options about how one log is read."""

    manifest: Annotated[
        Path | None,
        option(
            "--manifest FILE",
            "The run's configuration. Default: the files beside the log, such as "
            "`<log>.manifest.json`, `manifest.json`, `training_args.json`, `config.yaml`.",
        ),
    ] = None
    attempt: Annotated[
        int | None,
        option("--attempt N", "Which of several appended runs to read. Default: the last."),
    ] = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the Python API that these options stand for."""
        return {**self.common, "manifest": self.manifest, "attempt": self.attempt}


BaselinePaths = Annotated[
    list[str] | None,
    option(
        "--baseline PATH",
        "Compare with earlier good runs: logs, folders, patterns, URLs, a store of a scan, or a "
        "baseline kept by `stabdiag baseline`. Repeatable. Default: the settings file.",
    ),
]


@frozen
class BaselineOptions:
    """The options about earlier good runs to compare with."""

    baseline: BaselinePaths = None
    where: Annotated[
        list[str] | None,
        option(
            "--where CONDITION",
            "Use only references that meet a condition, such as `outcome=healthy`. Repeatable.",
        ),
    ] = None

    def sources(self, project: Project) -> list[str]:
        """Return what was named as a baseline, by an option or by the settings file."""
        if self.where and not (self.baseline or project.baseline):
            raise StabdiagError("--where selects references; name them with --baseline")
        return self.baseline or list(project.baseline)

    def arguments(self, project: Project) -> dict[str, Any]:
        """Return the arguments of the Python API that these options stand for."""
        sources = self.sources(project)
        return {"baseline": sources, "where": self.where or ()} if sources else {}

    def references(self, runs: Runs) -> References | None:
        """Return the references, read once for all runs; None if none are named."""
        sources = self.sources(runs.project)
        if not sources:
            return None
        from stabdiag.api.baselines import read_baseline

        found = read_baseline(sources, runs.asked(), self.where or ())
        if not found.profiles:
            reasons = "; ".join(reference.in_words for reference in found.left_out)
            tell(f"no baseline to compare with: {reasons}")
        return found


@frozen
class Output:
    """The options about what is written, and where.

    The format is one of those that are ``known``, of which a command may have others than these.
    """

    format: str | None = None  # ``bundled`` makes the option
    output: Annotated[
        Path | None,
        option(
            "--output -o FILE",
            "Write to this file. Default: standard output (`-`).",
            callback=lambda path: None if path == Path("-") else path,
        ),
    ] = None
    color: Color = None
    known: tuple[str, ...] = ("terminal", "markdown")

    @property
    def asked(self) -> str | None:
        """The format that is asked for by name."""
        return self.format

    @property
    def screen(self) -> Terminal:
        """What the terminal, or the file in its place, can show."""
        return terminal(self.output, self.color)

    def chosen(self, held: Held, inputs: Iterable[object], besides: Iterable[Path] = ()) -> str:
        """Return the format to write, once it is known that it can be written.

        Raises:
            StabdiagError: if it cannot, or for a format that this command does not have.
        """
        check_outputs([self.output, *besides], inputs, held.config)
        chosen = self._named(held)
        if self.output is None and chosen in ("html", "svg") and sys.stdout.isatty():
            raise StabdiagError(
                f"a terminal cannot show {chosen}; write a file: -o report.{chosen}"
            )
        return chosen

    def _named(self, held: Held) -> str:
        if self.asked is not None:
            refuse_unknown(self.asked, self.known)
            return self.asked
        suffix = "" if self.output is None else self.output.suffix
        told = by_suffix(suffix)
        if told in self.known:
            return told
        if suffix:
            have = " ".join(each for one in self.known for each in suffixes(one))
            raise StabdiagError(
                f"{self.output}: this command writes no {suffix} file; end the name with one of "
                f"{have}, or choose with --format ({', '.join(self.known)})"
            )
        set_by_file = held.project.format
        return set_by_file if set_by_file in self.known else self.known[0]

    def write(self, text: str | Iterable[str], verdict: str = "", *also: Path) -> None:
        """Write a text, and say which files were written."""
        write(text, self.output)
        files = [str(path) for path in (self.output, *also) if path is not None and path.is_file()]
        if files:
            tell(f"wrote {', '.join(files)}{f'; {verdict}' if verdict else ''}")


@frozen
class Data(Output):
    """The options about an output that can be JSON, too."""

    json: AsJson = False

    @property
    def asked(self) -> str | None:
        """The format that is asked for by name."""
        if self.json and self.format not in (None, "json"):
            raise StabdiagError(f"--json and --format {self.format} exclude each other")
        return "json" if self.json else self.format


Sheet = Annotated[Data, names("sheet")]


@frozen
class Brief(Data):
    """The options about an output that the verdict may stand for."""

    quiet: Annotated[bool, option("--quiet -q", "Print the verdict alone, in a line.")] = False

    def chosen(self, held: Held, inputs: Iterable[object], besides: Iterable[Path] = ()) -> str:
        """Return the format to write: the verdict alone is none of them."""
        chosen = super().chosen(held, inputs, besides)
        if self.quiet and self.output is None and self.asked:
            raise StabdiagError(
                f"--quiet prints one line and --format {chosen} a report; write one to a file"
            )
        return chosen

    def tell(self, report: Callable[[], str | Iterable[str]], verdict: str, *also: Path) -> None:
        """Write the report, or the verdict in its place; with a file, both."""
        if self.quiet:
            write(verdict, None)
        if self.output is not None or not self.quiet:
            self.write(report(), verdict, *also)


@frozen
class Page(Brief):
    """The options about a report."""

    verbose: Annotated[bool, option("--verbose -v", "Show every question with its numbers.")] = (
        False
    )
    known: tuple[str, ...] = names()


def bundled(command: Callable[..., Exit | None]) -> Callable[..., Exit | None]:
    """Give a command the options of each bundle among its parameters, one by one for typer.

    A bundle may be annotated with the formats that the command knows.
    """
    own = inspect.signature(command, eval_str=True).parameters
    makes: dict[str, Any] = {}
    bundles: dict[str, list[inspect.Parameter]] = {}
    for name, one in own.items():
        bundle, *known = get_args(one.annotation) or (one.annotation,)
        make: Any = bundle
        if is_dataclass(bundle):
            bundles[name] = _options(bundle, *known)
            makes[name] = partial(make, known=known[0]) if known else make

    @wraps(command)
    def called(**given: Any) -> Exit | None:
        for name, options in bundles.items():
            taken = {option.name: given.pop(option.name) for option in options}
            given[name] = makes[name](**taken)
        return command(**given)

    flat = [each for name, one in own.items() for each in bundles.get(name, [one])]
    flat = [one.replace(kind=_BY_NAME) for one in flat]
    called.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in flat}
    return called


def _options(bundle: Any, known: Sequence[str] = ()) -> list[inspect.Parameter]:
    """Return the options of a bundle: the format, its own, then those of what it is made from."""
    defaults: dict[str, Any] = {one.name: one.default for one in fields(bundle)}
    usual = defaults.pop("known", ())
    kinds: dict[str, Any] = {}
    if "format" in defaults:
        kinds["format"] = Annotated[str | None, format_option(known or usual)]
    for part in bundle.__mro__:
        kinds = {**kinds, **inspect.get_annotations(part, eval_str=True), **kinds}
    return [
        inspect.Parameter(name, _BY_NAME, default=defaults[name], annotation=kind)
        for name, kind in kinds.items()
        if name in defaults
    ]


def check_outputs(
    outputs: Sequence[Path | None], inputs: Iterable[object], config: Path | None
) -> None:
    """Refuse at once outputs that cannot be written, or that the command line names as inputs.

    What else is read, such as the manifest beside a log, is known only afterwards.
    """
    refuse_unwritable(outputs)
    protect_inputs(outputs, [*inputs, *config_files(Path.cwd(), config)])


def besides_of(
    besides: list[str] | None, known: Collection[str] | None = None
) -> list[tuple[Path, str]]:
    """Return the other files to write, each with the name of its format."""
    pairs = [_pair(one, "--write") for one in besides or ()]
    for name, path in pairs:
        refuse_unknown(name, names() if known is None else known)
        if path == "-":
            raise StabdiagError(
                f"--write {name}=- names no file; --format {name} writes to standard output"
            )
    return [(Path(path), name) for name, path in pairs]


def _pairs(texts: list[str] | None, flag: str) -> dict[str, str]:
    return dict(_pair(one, flag) for one in texts or ())


def _pair(text: str, flag: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or (flag == "--write" and not value):
        raise StabdiagError(f"{flag} takes {_WANTS[flag]}, not {text!r}")
    return name.strip(), value
