"""The walk: ask, follow the edge, until a leaf or the end of each section."""

from __future__ import annotations

from dataclasses import replace

from stabdiag.model.edges import BY_SLUG, EDGES, END, QUESTIONS, SECTIONS, Question, taken
from stabdiag.model.findings import ActionKind, Answer, AskedOf, Finding, Severity
from stabdiag.model.frozen import frozen
from stabdiag.stats.shape import Spike
from stabdiag.tree import divergence, nan, precision, spike
from stabdiag.tree.advice import ADVICE
from stabdiag.tree.advice.nan import after_earlier
from stabdiag.tree.advice.shared import with_deleted
from stabdiag.tree.case import Case, Reply, unknown
from stabdiag.tree.confidence import confidence_in
from stabdiag.tree.nothing_found import nothing_found
from stabdiag.tree.panels import panels

_ANSWERS = {**nan.ANSWERS, **spike.ANSWERS, **precision.ANSWERS, **divergence.ANSWERS}
_BY_ID = {question.id: question for question in QUESTIONS}


@frozen
class Walk:
    """The answers in the order in which they were given, and the findings, worst first."""

    answers: tuple[Answer, ...]
    findings: tuple[Finding, ...]


def walk(case: Case) -> Walk:
    """Walk the whole tree.

    NaN ends the walk, and the other sections are then asked of the history before it. Otherwise all
    sections are walked and the worst finding comes first, an earlier section before a later one;
    only the literal reading stops at the first section that finds something.
    """
    trail, findings = _section(case, "§1")
    if findings:
        return _of_nan(case, trail, findings)
    rest = _sections(case)
    found = rest.findings or (nothing_found(case, rest.answers),)
    return Walk(answers=(*trail, *rest.answers), findings=with_deleted(case, found))


def _of_nan(case: Case, trail: list[Answer], findings: list[Finding]) -> Walk:
    """Return the walk of a run that went NaN, with what led up to that."""
    before = case.history.before(nan.require_bad_loss(case).step)
    if "loss" in before.series:
        lead_up = _sections(replace(case, history=before, before_nan=True))
        errors = _damage(lead_up.findings)
        if errors:
            trail, findings = _section(_damaged(case, errors), "§1")
            earlier = errors[0][1]
            by_schedule = _is_schedule(case, earlier)
            findings = [after_earlier(findings[0], earlier, by_schedule=by_schedule)]
        trail += [replace(answer, asked_of=AskedOf.LEAD_UP) for answer in lead_up.answers]
        findings += [replace(f, asked_of=AskedOf.LEAD_UP) for f in lead_up.findings]
    return Walk(answers=tuple(trail), findings=with_deleted(case, _beside_errors(findings)))


def _damage(lead_up: tuple[Finding, ...]) -> list[tuple[int, Finding]]:
    """Return the errors before a NaN with the steps at which they began, the first one first."""
    errors = [
        (one.step, one)
        for one in lead_up
        if one.severity is Severity.ERROR and one.step is not None
    ]
    return sorted(errors, key=lambda error: error[0])


def _damaged(case: Case, errors: list[tuple[int, Finding]]) -> Case:
    """Return the case with what is known of the errors before its NaN."""
    sound = (step if one.began is None else one.began for step, one in errors)
    return replace(case, error_steps=tuple(step for step, _ in errors), damage_start=min(sound))


def _is_schedule(case: Case, earlier: Finding) -> bool:
    """Tell whether a schedule raised the rate until the loss climbed, and no planned warm-up did.

    It shows by a rate that turned up in the course of the run, or that rises beyond the warm-up
    that the manifest tells of.
    """
    if earlier.slug != "divergence-lr-rising" or earlier.step is None:
        return False
    told = case.manifest.warmup_steps
    return "turned" in earlier.evidence or (told is not None and earlier.step > told)


def _sections(case: Case) -> Walk:
    trail: list[Answer] = []
    findings: list[Finding] = []
    for section in ("§2", "§3", "§4"):
        more, found = _section(case, section)
        trail += more
        findings += found
        if found and case.stops_early:
            break
    findings.sort(key=lambda finding: (finding.severity.rank, finding.section))
    return Walk(answers=tuple(trail), findings=_beside_errors(findings))


def _beside_errors(findings: list[Finding]) -> tuple[Finding, ...]:
    """Return the findings, no warning of which tells to keep a run going that is to be set back."""
    if not any(finding.severity is Severity.ERROR for finding in findings):
        return tuple(findings)
    return tuple(
        replace(one, actions=one.actions[1:])
        if one.severity is Severity.WARNING and one.actions[0].kind is ActionKind.KEEP_GOING
        else one
        for one in findings
    )


def _section(case: Case, section: str) -> tuple[list[Answer], list[Finding]]:
    """Walk one section. §2 is walked for each spike, and the trail tells of the worst one."""
    first = SECTIONS[section]
    if section != "§2" or not case.spikes:
        return _from(case, first)
    # A log may hold thousands of spikes to the letter: each is followed to its leaf, and only the
    # worst of each kind is told of.
    after = follow(first, _ask(case, _BY_ID[first]))
    leaves = [_leaf(case.about(spike), after) for spike in case.spikes]
    order = sorted(range(len(leaves)), key=lambda i: _badness(case.spikes[i], leaves[i]))
    told: dict[str, Spike] = {leaves[order[0]]: case.spikes[order[0]]}
    for leaf, one in zip(leaves, case.spikes, strict=True):
        told.setdefault(leaf, one)
    walks = [_from(case.about(one), first) for one in told.values()]
    return walks[0][0], [finding for _, found in walks for finding in found]


def _badness(spike: Spike, leaf: str) -> tuple[int, bool, float]:
    """Put the worst first; of equally bad ones, those whose cause was logged can be mended."""
    return BY_SLUG[leaf].severity.rank, leaf == "spike-recovered", -spike.score


def _leaf(case: Case, place: str) -> str:
    """Return where the questions from one on lead to."""
    while place in _BY_ID:
        place = follow(place, _ask(case, _BY_ID[place]))
    return place


def _from(case: Case, start: str) -> tuple[list[Answer], list[Finding]]:
    """Ask from one question on until an edge leaves for a leaf, another section or the end."""
    answers: dict[str, Answer] = {}
    place = start
    while place in _BY_ID:
        question = _BY_ID[place]
        reply = _ask(case, question)
        answers[place] = _answer(case, question, reply)
        place = follow(place, reply)
    trail = list(answers.values())
    if place == END or place in SECTIONS:
        return trail, []
    return trail, [_finding(case, place, answers)]


def follow(question: str, reply: Reply) -> str:
    """Return where a reply leads."""
    return EDGES[question][taken(question, reply.verdict, reply.branch)]


def _ask(case: Case, question: Question) -> Reply:
    missing = [role for role in question.needs if not case.history.group(role)]
    if missing:
        return unknown(f"{' and '.join(missing)} was not logged")
    return case.answers.get(question.id, _ANSWERS[question.id])(case)


def _answer(case: Case, question: Question, reply: Reply) -> Answer:
    return Answer(
        question=question.id,
        asks=question.asked(case.limits),
        verdict=reply.verdict,
        because=reply.because,
        branch=reply.branch,
        measured=reply.measured,
        limits=case.limits.named(question.limits),
        steps=reply.steps,
    )


def _finding(case: Case, slug: str, answers: dict[str, Answer]) -> Finding:
    outcome = BY_SLUG[slug]
    advice = ADVICE[slug](case, answers)
    last = list(answers.values())[-1]
    return Finding(
        slug=slug,
        severity=advice.severity or outcome.severity,
        confidence=confidence_in(case, outcome.section, outcome.severity),
        section=outcome.section,
        question=last.question,
        title=advice.title or outcome.title,
        summary=advice.summary,
        actions=(advice.first, *advice.then),
        step=advice.step,
        reload=advice.reload,
        began=advice.began,
        back=advice.back,
        panels=() if case.focus is None else panels(case, case.focus),
        unit=case.unit,
        evidence={
            key: value for answer in answers.values() for key, value in answer.measured.items()
        },
    )
