"""All training losses are checked, not only the diagnosed one."""

import json

import numpy as np
import pytest

import stabdiag

STEPS = np.arange(400)
FALLING = 2 + 4 * np.exp(-STEPS / 60) + np.random.default_rng(3).normal(0, 0.02, 400)

NAMES = [
    *("aux_loss", "kl", "kl_loss", "kl_divergence", "reg_loss", "z_loss", "router_z_loss", "nll"),
    *("recon_loss", "loss_ce", "loss/mask", "train/bce", "commit_loss", "contrastive_loss", "mse"),
    *("loss_2", "total_loss", "mtp_loss", "lpips", "disc", "commit", "vq", "box", "dfl", "style"),
    *("grad_penalty", "weight_reg", "r1_penalty", "train/recon", "infonce"),
]


def findings_by_slug(name, values, **columns):
    report = stabdiag.diagnose({"step": STEPS, "loss": FALLING, name: values, **columns})
    return {finding.slug: finding for finding in report.findings}


def after(step, value):
    values = 0.3 * FALLING
    values[step:] = value
    return values


@pytest.mark.parametrize("records", [5, 12, 30])
def test_a_second_loss_that_jumps_near_the_end_is_a_warning(records):
    loss = after(400 - records, 40.0)
    finding = findings_by_slug("aux_loss", loss)["other-loss-rising"]
    assert finding.severity == "warning"
    assert "ended at 40" in finding.summary
    loss[2 - records :] = 0.6
    assert "other-loss-rising" not in findings_by_slug("aux_loss", loss)
    for others in (after(398, 40.0), after(400 - records, 2.0)):
        assert "other-loss-rising" not in findings_by_slug("aux_loss", others)


@pytest.mark.parametrize("name", NAMES)
def test_a_second_loss_that_goes_nan_is_a_warning(name):
    findings = findings_by_slug(name, after(200, np.nan))
    severities = {finding.severity.value for finding in findings.values()}
    assert severities & {"warning", "error"}


def losses_of_lines(path, name, texts):
    """Return the findings of JSON lines with a text for each value of another loss."""
    rows = zip(FALLING, texts, strict=False)
    lines = (f'{{"step": {n}, "loss": {a}, "{name}": {b}}}\n' for n, (a, b) in enumerate(rows))
    path.write_text("".join(lines))
    return {finding.slug: finding for finding in stabdiag.diagnose(path).findings}


@pytest.mark.parametrize("name", ["aux_loss", "kl_loss", "loss_ce", "l2_penalty", "elbo"])
def test_nulls_after_the_last_number_of_a_second_loss_are_a_warning(tmp_path, name):
    findings = losses_of_lines(tmp_path / "log", name, ["0.5"] * 200 + ["null"] * 200)
    assert findings["other-loss-nonfinite"].severity == "warning"
    for texts in (["null"] * 400, ["null", "0.5"] * 200, ["0.5", "null", "null"] * 133):
        assert "other-loss-nonfinite" not in losses_of_lines(tmp_path / "log", name, texts)


def losses_of_table(path, name, cells, further=(), *, heading="stage2"):
    """Return the findings of a table with a cell for each record of another loss."""
    names = ["step", "loss", name, *([heading] if further else [])]
    columns = [map(str, STEPS), map(str, FALLING), cells, *([further] if further else [])]
    path.write_text("\n".join(map(",".join, [names, *zip(*columns, strict=True)])))
    return {finding.slug: finding for finding in stabdiag.diagnose(path).findings}


@pytest.mark.parametrize("name", ["aux_loss", "kl", "loss_ce", "l2_penalty"])
@pytest.mark.parametrize("cell", ["", "None", "N/A", "-"])
def test_cells_without_a_value_to_the_end_of_a_table_are_a_warning(tmp_path, name, cell):
    path = tmp_path / "run.csv"
    finding = losses_of_table(path, name, ["0.5"] * 200 + [cell] * 200)["other-loss-nonfinite"]
    assert finding.severity == "warning"
    assert finding.step == 200
    for cells in ([cell] * 400, [cell, "0.5"] * 200, ["0.5", cell] * 100 + [cell] * 200):
        assert "other-loss-nonfinite" not in losses_of_table(path, name, cells)


def test_an_evaluation_that_begins_is_no_stage(tmp_path):
    cells = ["0.5"] * 200 + ["None"] * 200
    further = [""] * 300 + ["0.7"] * 100
    path = tmp_path / "run.csv"
    findings = losses_of_table(path, "aux_loss", cells, further, heading="val_loss")
    assert findings["other-loss-nonfinite"].severity == "warning"


@pytest.mark.parametrize("stages", [("", "0.7"), ("1", "2"), ("warmup", "main")])
def test_a_loss_of_an_earlier_stage_may_end(tmp_path, stages):
    cells = ["0.5"] * 200 + [""] * 200
    further = [stage for stage in stages for _ in range(200)]
    assert "healthy" in losses_of_table(tmp_path / "run.csv", "aux_loss", cells, further)


LONG_TABLES = [
    [("loss", 0), ("ctc", 1)],
    [("ctc", 1), ("loss", 0)],
    [("loss", 0), ("aux_loss", 1), ("val_loss", 2)],
]


@pytest.mark.parametrize("measurements", LONG_TABLES)
@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize(
    ("end", "slug"),
    [("0.5", "healthy"), ("None", "other-loss-nonfinite"), ("nan", "other-loss-nonfinite")],
)
def test_a_long_table_may_list_its_losses_below_each_other(
    tmp_path, measurements, is_sorted, end, slug
):
    cells = [[*map(str, FALLING)], ["0.5"] * 200 + [end] * 200, [*map(str, 1.1 * FALLING)]]
    rows = [
        (step, f"{step},{name},{cells[at][step]}") for name, at in measurements for step in STEPS
    ]
    rows = sorted(rows, key=lambda row: row[0]) if is_sorted else rows
    path = tmp_path / "run.csv"
    path.write_text("\n".join(["step,tag,value", *(row for _, row in rows)]))
    assert stabdiag.diagnose(path).diagnosis.slug == slug


@pytest.mark.parametrize(
    "form",
    ["Epoch {n}\n  loss: {a}\n  {name}: {b}", "---\nstep: {n}\nloss: {a}\n{name}: {b}"],
)
@pytest.mark.parametrize("name", ["kl", "mse", "ctc", "penalty", "train/aux"])
def test_terms_on_lines_of_their_own_are_read(tmp_path, form, name):
    path = tmp_path / "run.log"
    for end, is_found in ((0.5, False), ("inf", True), ("None", True), (40.0, True)):
        terms = [0.5] * 200 + [end] * 200
        rows = enumerate(zip(FALLING, terms, strict=True))
        path.write_text("\n".join(form.format(n=n, name=name, a=a, b=b) for n, (a, b) in rows))
        slugs = {finding.slug for finding in stabdiag.diagnose(path).findings}
        assert bool(slugs & {"other-loss-nonfinite", "other-loss-rising"}) is is_found


@pytest.mark.parametrize("cell", ["None", "N/A", "-"])
def test_a_value_without_a_known_meaning_that_ends_in_words_is_a_warning(tmp_path, cell):
    findings = losses_of_table(tmp_path / "run.csv", "entropy", ["0.5"] * 200 + [cell] * 200)
    assert findings["other-loss-nonfinite"].severity == "warning"


def test_a_loss_that_each_record_writes_as_nan_is_a_warning(tmp_path):
    for name in ("mse", "loss1", "mlm"):
        assert "other-loss-nonfinite" in losses_of_lines(tmp_path / "log", name, ["NaN"] * 400)
    assert "other-loss-nonfinite" in losses_of_table(tmp_path / "run.csv", "kl", ["nan"] * 400)


@pytest.mark.parametrize("count", [1, 3, 12])
def test_a_loss_that_is_nan_for_a_while_is_a_note(tmp_path, count):
    texts = ["0.5"] * 120 + ["NaN"] * count + ["0.5"] * (280 - count)
    findings = losses_of_lines(tmp_path / "log", "kl", texts)
    words = "and recovers" if count >= 3 else "in 1 of 400 records, first at step 120"
    assert words in findings["other-loss-nonfinite"].summary
    assert all(finding.severity in ("ok", "note") for finding in findings.values())


@pytest.mark.parametrize(
    ("bad", "is_note"), [([398, 399], True), ([90, 95, 250], True), (range(5, 400, 5), False)]
)
def test_records_of_another_kind_are_at_equal_distances(tmp_path, bad, is_note):
    texts = ["NaN" if n in bad else "0.5" for n in range(400)]
    findings = losses_of_lines(tmp_path / "log", "kl", texts)
    assert ("other-loss-nonfinite" in findings) is is_note


@pytest.mark.parametrize("form", ["step {n} loss {a} kl {b}", "Epoch {n} | kl {b} | loss {a}"])
def test_a_word_behind_a_name_without_a_sign_is_a_missing_value(tmp_path, form):
    path = tmp_path / "run.log"
    for words, is_reported in ((["None"] * 200, True), (["0.5"] * 200, False)):
        rows = enumerate(zip(FALLING, ["0.5"] * 200 + words, strict=True))
        path.write_text("\n".join(form.format(n=n, a=a, b=b) for n, (a, b) in rows))
        slugs = {finding.slug for finding in stabdiag.diagnose(path).findings}
        assert ("other-loss-nonfinite" in slugs) is is_reported


def test_a_dash_between_values_is_a_separator(tmp_path):
    path = tmp_path / "run.log"
    path.write_text("\n".join(f"step {n} kl - loss: {a}" for n, a in enumerate(FALLING)))
    assert stabdiag.diagnose(path).diagnosis.slug == "healthy"


@pytest.mark.parametrize("name", ["kl", "nll", "train/bce", "moe_aux"])
@pytest.mark.parametrize(
    "form",
    [
        "step {n} loss: {a} {name}: {b}",
        "step={n}, {name}={b}, loss={a}",
        "2026-01-02 03:04:05,678 - fit - INFO - step: {n} loss: {a} {name}: {b}",
    ],
)
@pytest.mark.parametrize("word", ["None", "N/A", "null", "n/a", "-", "--", "overflow"])
def test_words_for_no_value_of_a_printed_term_are_a_warning(tmp_path, name, form, word):
    terms = [0.5] * 200 + [word] * 200
    rows = enumerate(zip(FALLING, terms, strict=True))
    path = tmp_path / "run.log"
    path.write_text("\n".join(form.format(n=n, name=name, a=a, b=b) for n, (a, b) in rows))
    slugs = {finding.slug for finding in stabdiag.diagnose(path).findings}
    assert "other-loss-nonfinite" in slugs


@pytest.mark.parametrize("name", ["test_loss", "val/seen_loss", "eval_loss_ema"])
def test_a_second_evaluation_loss_that_goes_nan_is_a_warning(name):
    findings = findings_by_slug(name, after(200, np.nan), val_loss=FALLING + 0.1)
    assert findings["other-loss-nonfinite"].severity == "warning"
    assert "healthy" in findings_by_slug(name, FALLING, val_loss=FALLING + 0.1)


@pytest.mark.parametrize(
    "name", ["aux_loss", "loss_ce", "recon_loss", "loss_2", "kl_loss", "kl", "box", "recon"]
)
def test_a_second_loss_that_climbs_is_a_warning(name):
    climb = 0.3 * FALLING * np.where(STEPS > 200, np.exp((STEPS - 200) / 66), 1)
    finding = findings_by_slug(name, climb)["other-loss-rising"]
    assert finding.severity == "warning"
    assert finding.evidence["loss"] == name
    assert 200 < finding.step < 300


def test_a_tenfold_climb_of_a_loss_that_fell_far_is_a_warning():
    climb = FALLING * np.where(STEPS > 200, 20 ** ((STEPS - 200) / 200), 1)
    falling = np.exp(-STEPS / 40)
    finding = findings_by_slug("aux_loss", 0.3 * climb * (1 + falling))["other-loss-rising"]
    assert finding.severity == "warning"
    assert "healthy" in findings_by_slug("aux_loss", 0.3 * climb * (1 + 9 * falling))


@pytest.mark.parametrize("name", ["aux_loss", "kl", "physics", "penalty"])
def test_a_small_climb_is_a_warning_unless_the_term_grew_from_its_start(name):
    climb = 0.3 * np.where(STEPS > 160, 3.6 ** ((STEPS - 160) / 240), 1)
    is_reported = "other-loss-rising" in findings_by_slug(name, climb)
    assert is_reported is (name != "penalty")
    growing = 0.002 + 0.3 * STEPS / 400
    assert "other-loss-rising" not in findings_by_slug(name, growing)


@pytest.mark.parametrize("name", ["penalty", "l2_reg", "entropy_reg", "critic", "gp"])
def test_a_regularizer_that_jumps_is_a_warning(name):
    jump = 0.3 * np.where(STEPS > 240, 12, 1)
    assert findings_by_slug(name, jump)["other-loss-rising"].severity == "warning"
    assert "other-loss-rising" not in findings_by_slug(name, 0.01 + (STEPS / 100) ** 2)
    assert "other-loss-rising" not in findings_by_slug(name, 0.3 * np.where(STEPS > 240, 3, 1))


def test_a_critic_next_to_a_policy_may_jump():
    jump = 0.3 * np.where(STEPS > 240, 12, 1)
    assert "other-loss-rising" not in findings_by_slug("critic", jump, policy_entropy=FALLING)


def test_a_climb_from_losses_that_round_to_zero_is_a_warning():
    climb = 0.3 * np.where(STEPS > 240, 12, 1) * (STEPS % 50 > 0)
    assert "other-loss-rising" in findings_by_slug("aux_loss", climb)


@pytest.mark.parametrize("name", ["vq/perplexity", "recon_psnr", "entropy", "entropy_loss"])
def test_what_may_rise_is_no_loss_that_climbs(name):
    climb = 0.3 * FALLING * np.where(STEPS > 200, np.exp((STEPS - 200) / 66), 1)
    assert "other-loss-rising" not in findings_by_slug(name, climb)


@pytest.mark.parametrize("name", ["reward", "policy_loss", "entropy"])
@pytest.mark.parametrize("divergence", ["kl", "kl_loss", "train/KL"])
def test_the_divergence_of_a_policy_may_climb(divergence, name):
    climb = 0.3 * FALLING * np.where(STEPS > 200, np.exp((STEPS - 200) / 66), 1)
    assert "other-loss-rising" not in findings_by_slug(divergence, climb, **{name: 0.1 * FALLING})


def test_a_learning_rate_that_goes_nan_is_a_warning():
    rate = np.where(STEPS < 300, 1e-3, np.nan)
    finding = findings_by_slug("lr", rate)["other-loss-nonfinite"]
    assert (finding.title, finding.step) == ("A logged value went NaN", 300)
    assert "healthy" in findings_by_slug("lr", np.where(STEPS % 10 == 0, 1e-3, np.nan))


def test_the_first_bad_step_and_the_number_are_named():
    finding = findings_by_slug("aux_loss", after(250, np.inf))["other-loss-nonfinite"]
    assert finding.step == 250
    assert finding.evidence == {"loss": "aux_loss", "not_finite": 150, "losses": 1}


def test_a_second_loss_of_words_is_not_finite(tmp_path):
    rows = [
        {"step": n, "loss": value, "recon_loss": "broken" if n > 250 else value}
        for n, value in enumerate(FALLING.tolist())
    ]
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    slugs = {finding.slug for finding in stabdiag.diagnose(path).findings}
    assert "other-loss-nonfinite" in slugs


def sparse(every):
    values = 0.3 * FALLING
    values[::every] = np.nan
    return values


@pytest.mark.parametrize(
    "values",
    [
        0.3 * FALLING,
        5 * (1 - np.exp(-STEPS / 40)) + 0.01,  # the KL of a VAE grows to a plateau
        sparse(10),  # NaN in the records of another kind
        np.where(STEPS % 10 == 0, FALLING, np.nan),  # logged every tenth step
        after(0, np.nan),
        0.01 + 0.001 * np.random.default_rng(1).random(400),
    ],
    ids=["falls", "grows to a plateau", "gaps", "rare", "never", "constant"],
)
def test_near_misses_are_not_reported(values):
    assert (
        not {"other-loss-nonfinite", "other-loss-rising"}
        & findings_by_slug("kl_loss", values).keys()
    )


def test_a_weight_that_is_logged_explains_a_climb():
    climb = 0.3 * np.where(STEPS > 200, np.exp((STEPS - 200) / 66), 1)
    weight = np.where(STEPS > 200, STEPS / 200, 1.0)
    assert "other-loss-rising" not in findings_by_slug("kl_loss", climb, kl_weight=weight)


def test_a_nan_in_the_diagnosed_loss_covers_the_others():
    loss = FALLING.copy()
    loss[250:] = np.nan
    report = stabdiag.diagnose({"step": STEPS, "loss": loss, "aux_loss": loss})
    assert report.diagnosis.slug == "nan-dtype-unknown"
    assert "other-loss-nonfinite" not in {finding.slug for finding in report.findings}


def test_a_loss_that_a_text_log_prints_only_as_nan(tmp_path):
    path = tmp_path / "run.log"
    path.write_text(
        "".join(
            f"[Epoch 0][Batch {n}], Speed: 31.8, CrossEntropy={value:.6f}, SmoothL1=nan\n"
            for n, value in enumerate(FALLING[::10])
        )
    )
    findings = {finding.slug: finding for finding in stabdiag.diagnose(path).findings}
    assert findings["other-loss-nonfinite"].evidence["loss"] == "SmoothL1"


@pytest.mark.parametrize("name", ["attention_sharpness", "pitch", "train/unknown_thing"])
def test_a_value_of_unknown_meaning_that_goes_nan_is_a_warning(name):
    finding = findings_by_slug(name, after(200, np.nan))["other-loss-nonfinite"]
    assert finding.title == "A logged value went NaN"
    assert finding.severity == "warning"
    assert (finding.step, finding.evidence["loss"]) == (200, name)


def test_a_wide_log_is_not_searched_for_values_that_go_nan():
    others = {f"sensor_{number}": STEPS for number in range(20)}
    assert "other-loss-nonfinite" not in findings_by_slug("pitch", after(200, np.nan), **others)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("pitch", sparse(10)),
        ("pitch", np.where((STEPS > 200) & (STEPS < 390), np.nan, 1.0)),  # finite at the end
        ("pitch", after(0, np.nan)),
        ("ep_rew_mean", after(200, np.nan)),  # no episode ended
        ("val/pitch", after(200, np.nan)),
        ("f1", after(200, np.nan)),
        ("loss_std", after(200, np.nan)),
    ],
)
def test_a_value_that_may_well_be_missing_is_not_reported(name, values):
    assert "other-loss-nonfinite" not in findings_by_slug(name, values)


@pytest.mark.parametrize("name", ["duration", "mask", "value", "acc/box", "num_obj", "box_count"])
def test_a_value_that_is_not_a_term_of_a_loss_may_climb(name):
    climb = 0.3 * FALLING * np.where(STEPS > 200, np.exp((STEPS - 200) / 66), 1)
    assert "other-loss-rising" not in findings_by_slug(name, climb)


@pytest.mark.parametrize(
    ("name", "is_reported"),
    [("loss_mel", True), ("cycle_loss_A", True), ("loss_fm", False), ("loss_kl", False)],
)
def test_a_distance_to_the_data_may_not_climb_next_to_a_discriminator(name, is_reported):
    """A loss of features, or a divergence, rises as both networks learn."""
    rng = np.random.default_rng(4)
    noise = 1 + 0.05 * rng.standard_normal((2, 400))
    log = {"step": STEPS, "loss_disc": 2.4 * noise[0], "loss_gen": 2.1 * noise[1]}
    climb = 2 * FALLING * np.interp(STEPS, [0, 240, 340], [1, 1, 10])
    report = stabdiag.diagnose(log | {name: climb})
    slugs = {finding.slug for finding in report.findings}
    assert ("other-loss-rising" in slugs) == is_reported
    report = stabdiag.diagnose(log | {name: 2 * FALLING})
    assert "other-loss-rising" not in {finding.slug for finding in report.findings}


@pytest.mark.parametrize(("factor", "is_reported"), [(40, True), (4, False)])
@pytest.mark.parametrize("name", ["disc_loss", "loss_D"])
def test_a_discriminator_that_fails_is_a_warning(name, factor, is_reported):
    progress = np.clip((STEPS - 200) / 100, 0, 1)
    findings = findings_by_slug(name, 0.3 * FALLING * factor**progress)
    assert ("other-loss-rising" in findings) is is_reported


def trained_on_answers(bad, *names):
    rows = []
    for n, loss in enumerate(FALLING[::8].tolist()):
        row = {"loss": loss, "logits/chosen": -1.5, "rewards/margins": n / 60, "logps/rejected": -9}
        row |= {"eval_logits/chosen": None, "epoch": n / 50}
        rows.append(row | ({name: float("nan") for name in names} if bad(n) else {}))
    return rows


@pytest.mark.parametrize("name", ["logits/chosen", "rewards/margins", "logps/rejected"])
@pytest.mark.parametrize(
    ("bad", "severity", "words"),
    [
        (lambda n: True, "warning", "from step 0 on"),
        (lambda n: n > 30, "warning", "from step 31 on"),
        (lambda n: n in (4, 9), "note", "in 2 of 50 records, first at step 4"),
        (lambda n: n == 49, "note", "in 1 of 50 records, first at step 49"),
    ],
)
@pytest.mark.parametrize("write", [json.dumps, str])
def test_what_a_model_returns_for_answers_is_finite(tmp_path, name, bad, severity, words, write):
    path = tmp_path / "run.log"
    path.write_text("\n".join(map(write, trained_on_answers(bad, name))))
    diagnosis = stabdiag.diagnose(path).diagnosis
    assert (diagnosis.slug, diagnosis.severity) == ("other-loss-nonfinite", severity)
    assert repr(name) in diagnosis.summary
    assert words in diagnosis.summary


@pytest.mark.parametrize(("count", "severity"), [(2, "note"), (6, "warning")])
def test_a_short_paste_names_its_nan(tmp_path, count, severity):
    path = tmp_path / "run.log"
    rows = trained_on_answers(lambda n: True, "logits/rejected")
    path.write_text("\n".join(map(str, rows[:count])))
    findings = {finding.slug: finding for finding in stabdiag.diagnose(path).findings}
    assert findings["other-loss-nonfinite"].severity == severity


@pytest.mark.parametrize("name", ["eval_logits/chosen", "rewards/format/std", "logits", "chosen"])
def test_values_that_may_be_missing_are_not_reported(tmp_path, name):
    path = tmp_path / "run.log"
    path.write_text("\n".join(map(str, trained_on_answers(lambda n: n % 9 == 0, name))))
    slugs = {finding.slug for finding in stabdiag.diagnose(path).findings}
    assert "other-loss-nonfinite" not in slugs
