"""The walk: answer questions and follow edges to a leaf or to the end of each section."""

from __future__ import annotations

from dataclasses import replace

from stabdiag.model.edges import EDGES, END, OUTCOME_BY_SLUG, QUESTIONS, SECTIONS, Question, taken
from stabdiag.model.findings import (
    ActionKind,
    Answer,
    AnswerScope,
    Finding,
    Severity,
    without_repeats,
)
from stabdiag.model.frozen import frozen
from stabdiag.stats.shape import Spike
from stabdiag.tree import divergence, nan, precision, spike
from stabdiag.tree.advice.shared import with_fallback_checkpoint
from stabdiag.tree.case import Case, Reply, unknown
from stabdiag.tree.confidence import leaf_confidence
from stabdiag.tree.nothing_found import nothing_found
from stabdiag.tree.panels import panels

_ANSWERS = {**nan.ANSWERS, **spike.ANSWERS, **precision.ANSWERS, **divergence.ANSWERS}
_BY_ID = {question.id: question for question in QUESTIONS}


@frozen
class Walk:
    """The answers in the order of the walk, and the findings, worst first."""

    answers: tuple[Answer, ...]
    findings: tuple[Finding, ...]


def walk(case: Case) -> Walk:
    """Walk the whole tree.

    A NaN ends the walk, and the other sections then apply to the history before it. Otherwise all
    sections are walked. The worst finding comes first, and ties are ordered by section. Only the
    literal rules stop at the first section with a finding.
    """
    trail, findings = _section(case, "§1")
    if findings:
        return _of_nan(case, trail, findings)
    sections = _sections(case)
    all_findings = sections.findings or (nothing_found(case, sections.answers),)
    return Walk(
        answers=(*trail, *sections.answers), findings=with_fallback_checkpoint(case, all_findings)
    )


def _of_nan(case: Case, trail: list[Answer], findings: list[Finding]) -> Walk:
    """Return the walk of a run that went NaN, with the findings of the lead-up."""
    before = case.history.before(nan.require_bad_loss(case).step)
    if "loss" in before.series:
        lead_up = _sections(replace(case, history=before, before_nan=True))
        errors = _errors(lead_up.findings)
        if errors:
            from stabdiag.tree.advice.nan import after_earlier

            trail, findings = _section(_with_errors(case, errors), "§1")
            earlier = errors[0][1]
            by_schedule = _is_schedule(case, earlier)
            findings = [after_earlier(findings[0], earlier, by_schedule=by_schedule)]
        trail += [replace(answer, scope=AnswerScope.LEAD_UP) for answer in lead_up.answers]
        findings += [replace(finding, scope=AnswerScope.LEAD_UP) for finding in lead_up.findings]
    return Walk(
        answers=tuple(trail), findings=with_fallback_checkpoint(case, _without_keep_going(findings))
    )


def _errors(lead_up: tuple[Finding, ...]) -> list[tuple[int, Finding]]:
    """Return the errors before a NaN with their steps, in ascending order."""
    errors = [
        (finding.step, finding)
        for finding in lead_up
        if finding.severity is Severity.ERROR and finding.step is not None
    ]
    return sorted(errors, key=lambda error: error[0])


def _with_errors(case: Case, errors: list[tuple[int, Finding]]) -> Case:
    """Return the case with the errors before its NaN."""
    starts = (step if finding.began is None else finding.began for step, finding in errors)
    return replace(case, error_steps=tuple(step for step, _ in errors), damage_start=min(starts))


def _is_schedule(case: Case, earlier: Finding) -> bool:
    """Return True if a schedule, not a planned warm-up, raised the rate until the loss climbed.

    Then the rate started to rise during the run, or it rises beyond the warm-up of the manifest.
    """
    if earlier.slug != "divergence-lr-rising" or earlier.step is None:
        return False
    warmup = case.manifest.warmup_steps
    return "turning_step" in earlier.evidence or (warmup is not None and earlier.step > warmup)


def _sections(case: Case) -> Walk:
    trail: list[Answer] = []
    findings: list[Finding] = []
    for section in ("§2", "§3", "§4"):
        section_trail, section_findings = _section(case, section)
        trail += section_trail
        findings += section_findings
        if section_findings and case.stops_early:
            break
    findings.sort(key=lambda finding: (finding.severity.rank, finding.section))
    return Walk(answers=tuple(trail), findings=_without_keep_going(findings))


def _without_keep_going(findings: list[Finding]) -> tuple[Finding, ...]:
    """Return the findings; next to an error, no warning advises to keep the run going."""
    if not any(finding.severity is Severity.ERROR for finding in findings):
        return tuple(findings)
    return tuple(
        replace(finding, actions=finding.actions[1:])
        if finding.severity is Severity.WARNING and finding.actions[0].kind is ActionKind.KEEP_GOING
        else finding
        for finding in findings
    )


def _section(case: Case, section: str) -> tuple[list[Answer], list[Finding]]:
    """Walk one section. §2 is walked for each spike; the trail shows the worst one."""
    first = SECTIONS[section]
    if section != "§2" or not case.spikes:
        return _walk_edges(case, first)
    # A log may contain thousands of literal spikes. Each is followed to its leaf, and the worst of
    # each kind is reported.
    after = follow(first, _ask(case, _BY_ID[first]))
    leaves = [_leaf(case.about(spike), after) for spike in case.spikes]
    order = sorted(range(len(leaves)), key=lambda i: _badness(case.spikes[i], leaves[i]))
    reported: dict[str, Spike] = {leaves[order[0]]: case.spikes[order[0]]}
    for leaf, candidate in zip(leaves, case.spikes, strict=True):
        reported.setdefault(leaf, candidate)
    walks = [_walk_edges(case.about(spike), first) for spike in reported.values()]
    return walks[0][0], [finding for _, findings in walks for finding in findings]


def _badness(spike: Spike, leaf: str) -> tuple[int, bool, float]:
    """Return a sort key: the worst first, and among equals those with a logged cause."""
    return OUTCOME_BY_SLUG[leaf].severity.rank, leaf == "spike-recovered", -spike.score


def _leaf(case: Case, node: str) -> str:
    """Return the leaf that is reached from a node."""
    while node in _BY_ID:
        node = follow(node, _ask(case, _BY_ID[node]))
    return node


def _walk_edges(case: Case, start: str) -> tuple[list[Answer], list[Finding]]:
    """Answer questions from ``start`` on until a leaf, another section or the end."""
    answers: dict[str, Answer] = {}
    node = start
    while node in _BY_ID:
        question = _BY_ID[node]
        reply = _ask(case, question)
        answers[node] = _answer(case, question, reply)
        node = follow(node, reply)
    trail = list(answers.values())
    if node == END or node in SECTIONS:
        return trail, []
    return trail, [_finding(case, node, answers)]


def follow(question: str, reply: Reply) -> str:
    """Return the node that a reply leads to."""
    return EDGES[question][taken(question, reply.verdict, reply.branch)]


def _ask(case: Case, question: Question) -> Reply:
    missing = [role for role in question.needs if not case.history.group(role)]
    if missing:
        return unknown(f"{' and '.join(missing)} was not logged")
    return case.answers.get(question.id, _ANSWERS[question.id])(case)


def _answer(case: Case, question: Question, reply: Reply) -> Answer:
    return Answer(
        question=question.id,
        asks=question.text(case.limits),
        verdict=reply.verdict,
        because=reply.because,
        branch=reply.branch,
        measured=reply.measured,
        limits=case.limits.named(question.limits),
        steps=reply.steps,
    )


def _finding(case: Case, slug: str, answers: dict[str, Answer]) -> Finding:
    outcome = OUTCOME_BY_SLUG[slug]
    # Imported here, because a run without findings needs no advice.
    from stabdiag.tree.advice.leaves import ADVICE

    advice = ADVICE[slug](case, answers)
    last = list(answers.values())[-1]
    return Finding(
        slug=slug,
        severity=advice.severity or outcome.severity,
        confidence=leaf_confidence(case, outcome.section, outcome.severity),
        section=outcome.section,
        question=last.question,
        title=advice.title or outcome.title,
        summary=advice.summary,
        actions=without_repeats((advice.first, *advice.next_actions)),
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
