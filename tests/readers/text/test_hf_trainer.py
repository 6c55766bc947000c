"""What the Hugging Face Trainer prints."""

import io

import numpy as np
import pytest

import stabdiag
from stabdiag.readers.registry import reader
from stabdiag.readers.source import Stream


class TestTrainer:
    @pytest.mark.parametrize(
        "echo", ["INFO - my.callbacks - ", "[INFO|2024-01-01] callbacks:9 >> "]
    )
    def test_logger_messages_are_not_records(self, values, echo):
        text = "".join(
            f"{echo}{{'loss': {n}.5000, 'epoch': 0.{n}}}\n{{'loss': {n}.5, 'epoch': 0.{n}}}\n"
            for n in range(1, 6)
        )
        assert values("hf-trainer-stdout", text)["loss"] == [1.5, 2.5, 3.5, 4.5, 5.5]
        alone = "".join(text.splitlines(keepends=True)[::2])
        assert values("hf-trainer-stdout", alone)["loss"] == [1.5, 2.5, 3.5, 4.5, 5.5]

    def test_an_evaluation_without_a_loss_is_read(self, values):
        text = "".join(
            f"{{'loss': {n}.5, 'epoch': 0.{n}}}\n{{'eval_accuracy': 0.{n}, 'epoch': 0.{n}}}\n"
            for n in range(1, 6)
        )
        read = values("hf-trainer-stdout", text)
        assert read["loss"][::2] == [1.5, 2.5, 3.5, 4.5, 5.5]
        assert read["eval_accuracy"][1::2] == [0.1, 0.2, 0.3, 0.4, 0.5]

    def test_a_run_that_begins_beyond_the_epochs_of_the_one_before_is_another(self, put):
        text = "".join(
            f"{{'loss': {4 - n / 100}, 'epoch': {round(every * n, 2)}}}\n"
            for every, count in ((0.005, 12), (0.08, 40))
            for n in range(1, count + 1)
        )
        history = stabdiag.read(put(text))
        assert (history.source.attempts, len(history.series["loss"])) == (2, 40)

    def test_bars_of_other_lengths_do_not_give_the_step(self, values):
        def bar(at, of):
            return f"\r {at:3d}%|███       | {at}/{of} [00:10<00:20,  4.9it/s]"

        text = bar(100, 100) + "\n"  # tokenizing
        for n in range(1, 5):
            text += f"\r      \r{{'loss': {n}.5, 'epoch': 0.{n}}}\n"
            text += bar(10 * n, 50) + bar(10 * n + 3, 50)
        text += (
            bar(3, 8) + f"\r     \r{{'eval_loss': 9.5, 'epoch': 0.4}}\n{bar(8, 8)}{bar(43, 50)}\n"
        )
        columns = values("hf-trainer-stdout", text)
        assert columns["global_step"] == [10, 20, 30, 40, 43]
        assert columns["loss"] == [1.5, 2.5, 3.5, 4.5, None]

    def test_bars_that_are_drawn_too_rarely_do_not_give_the_step(self, put):
        text = "".join(
            f"{{'loss': {9 - n}.5, 'epoch': {n}.25}}\n"
            + (f" 42%|████      | {n * 90}/900 [10:05<30:24,  4.49s/it]\n" if n % 2 else "")
            for n in range(8)
        )
        loss = stabdiag.read(put(text)).series["loss"]
        assert loss.steps.tolist() == list(range(8))
        assert loss.values.tolist() == [9.5 - n for n in range(8)]

    def test_a_missing_bar_is_interpolated(self, values):
        text = "".join(
            f"{{'loss': {n}.5, 'epoch': {n}.25}}\n"
            + (f" 42%|████      | {n * 10}/900 [10:05<30:24,  4.49s/it]\n" if n != 5 else "")
            for n in range(30)
        )
        assert values("hf-trainer-stdout", text)["global_step"][4:8] == [40, 60, 60, 70]

    def test_a_run_after_the_summary_is_a_new_run(self, put):
        def training(first, count, loss):
            return "".join(
                f"{{'loss': {loss - n / 10:.1f}, 'epoch': {first + n / 10:.1f}}}\n"
                for n in range(count)
            )

        summary = "{'train_runtime': 9.0, 'train_loss': 7.0, 'epoch': 2.0}\n"
        begun = training(0.1, 20, 5)
        later = stabdiag.read(put(begun + summary + training(2.5, 4, 5)))
        assert later.series["loss"].values.tolist() == [5.0, 4.9, 4.8, 4.7]
        resumed = stabdiag.read(put(begun + summary + training(2.1, 4, 3)))
        assert len(resumed.series["loss"].values) == 24
        flat = stabdiag.read(put(begun + summary + training(2.12, 4, 5)))
        assert len(flat.series["loss"].values) == 24

    def test_other_bars_do_not_count_as_left_out_if_epochs_give_the_step(self, put):
        text = "  Num Epochs = 2\n  Total optimization steps = 400\n"
        for step in range(10, 401, 10):
            text += f"{{'loss': '{9 - step / 400}', 'epoch': '{step / 200}'}}\n"
            text += self.bar(1, 1) + "\n" if step % 100 == 0 else ""  # a checkpoint is written
        history = stabdiag.read(put(text))
        assert history.series["loss"].steps.tolist() == list(range(10, 401, 10))
        assert not any("too seldom" in event.message for event in history.events)

    @staticmethod
    def bar(at, of):
        return f"\r {at:3d}%|███       | {at}/{of} [00:10<00:20,  4.9it/s]"

    @classmethod
    def trained(cls, upto, of, *, evaluated=0, redrawn=True):
        """A loss every tenth step between bars; after each an evaluation."""
        text = ""
        for step in range(1, upto + 1):
            text += cls.bar(step, of)
            if step % 10 == 0:
                text += f"\r    \n{{'loss': {9 - step / of:.3f}, 'epoch': {step / of:.2f}}}\n"
                text += cls.bar(step, of) if redrawn else ""
                text += "".join(cls.bar(at, 999) for at in range(2, evaluated))
                if evaluated:
                    text += "\n{'eval_loss': 5.0, 'epoch': 0.5}\n" + cls.bar(step, of)
        return text + cls.bar(upto, of) + "\n"

    @pytest.mark.parametrize(
        ("above", "options"),
        [
            ("mapped", {}),
            ("", {"evaluated": 99}),
            ("", {"evaluated": 99, "redrawn": False}),
            ("  Total optimization steps = 200\n", {"evaluated": 99}),
        ],
    )
    def test_the_training_bar_is_the_bar_next_to_the_losses(self, put, above, options):
        if above == "mapped":
            above = "".join(self.bar(at, 52002) for at in range(0, 52002, 50)) + "\n"
        history = stabdiag.read(put(above + self.trained(200, 200, **options)))
        assert history.series["loss"].steps.tolist() == list(range(10, 201, 10))
        assert not any("too seldom" in event.message for event in history.events)

    @pytest.mark.parametrize("first", [(300, 5000), (900, 5000)])
    def test_the_bars_of_runs_that_were_appended_count_to_different_totals(self, put, first):
        history = stabdiag.read(put(self.trained(*first) + self.trained(500, 2000)))
        assert history.source.attempts == 2
        assert history.series["loss"].steps.tolist() == list(range(10, 501, 10))

    def test_an_epoch_that_is_not_a_number(self, put):
        lines = [f"{{'loss': {9 - n}, 'epoch': inf}}\n{self.bar(n, 9)}\n" for n in range(1, 9)]
        assert stabdiag.read(put("".join(lines))).series["loss"].steps.tolist() == list(range(1, 9))


def by_epochs(steps, total, *, epochs=1, digits=2, every=0, late=0):
    """A log of the Trainer with epochs only, and an evaluation after every `every` steps."""
    text = f"  Num Epochs = {epochs}\n  Total optimization steps = {total:,}\n"
    for step in steps:
        epoch = round(step / total * epochs, digits)
        text += f"{{'loss': {9 - step / total}, 'epoch': {epoch}}}\n"
        if every and step % every == 0:
            epoch = round((step + late) / total * epochs, digits)
            text += f"{{'eval_loss': 3.0, 'epoch': {epoch}}}\n"
    return text


@pytest.mark.parametrize("first", [[], [1]])
@pytest.mark.parametrize("stride", [1, 10, 25])
def test_epochs_that_records_share(put, stride, first):
    steps = [*(first if stride > 1 else []), *range(stride, 10_001, stride)]
    history = stabdiag.read(put(by_epochs(steps, 10_000, epochs=2, every=1000)))
    assert history.series["loss"].steps.tolist() == steps
    assert history.series["eval_loss"].steps.tolist() == list(range(1000, 10_001, 1000))
    assert any("steps are estimated from epochs" in event.message for event in history.events)


def test_rounded_epochs_that_no_records_share(put):
    steps = list(range(10, 371, 10))
    history = stabdiag.read(put(by_epochs(steps, 370, every=100, late=5)))
    assert history.series["loss"].steps.tolist() == steps
    # Evaluations get their step from their own epoch, within its rounding.
    evaluated = history.series["eval_loss"].steps
    assert np.abs(evaluated - [105, 205, 305]).max() <= 2


@pytest.mark.parametrize(
    ("steps", "digits", "off"),
    [([*range(33, 600, 10)], 9, 0), ([*range(10, 3000, 10), *range(3000, 10_000, 37)], 2, 60)],
    ids=["in full", "shared, at no stride"],
)
def test_steps_from_rounded_epochs(put, steps, digits, off):
    actual = stabdiag.read(put(by_epochs(steps, 10_000, digits=digits))).series["loss"].steps
    assert len(actual) == len(steps)
    assert np.abs(actual - steps).max() <= off


class TestCounted:
    """The HF Trainer without bars: steps are counted, and are in the manifest's intervals."""

    @staticmethod
    def log(put, epochs, *, evaluated=(), losses=None):
        text = " 50%|█████     | 2/4 [00:02<00:02,  1.0s/it]\r100%|██████████| 4/4 [00:05<00:00]\n"
        for n, epoch in enumerate(epochs):
            loss = 4 - 2 * epoch if losses is None else losses[n]
            text += f"{{'loss': {loss}, 'learning_rate': 1e-05, 'epoch': {epoch}}}\n"
            if epoch in evaluated:
                text += f"{{'eval_loss': 3.0, 'epoch': {epoch}}}\n"
        return put(text)

    def test_evaluations_and_bars_of_the_model_count_for_nothing(self, put):
        path = self.log(put, [n / 100 for n in range(1, 41)], evaluated={0.1, 0.2})
        history = stabdiag.read(path)
        assert history.series["loss"].steps.tolist() == list(range(40))
        assert history.series["eval_loss"].steps.tolist() == [9, 19]
        assert not any("too seldom" in event.message for event in history.events)

    def test_the_manifest_gives_the_logging_interval(self, put):
        epochs = [n / 100 for n in range(1, 41)]
        losses = [2.0] * 30 + ["nan"] * 10
        path = self.log(put, epochs, losses=losses)
        report = stabdiag.diagnose(path, manifest={"logging_steps": 10, "save_steps": 100})
        assert report.diagnosis.step == 310
        assert "the checkpoint of step 300," in report.diagnosis.first_action

    def test_a_fraction_of_the_run_is_not_a_number_of_steps(self, put):
        path = self.log(put, [n / 100 for n in range(1, 41)])
        history = stabdiag.diagnose(path, manifest={"logging_steps": 0.05}).history
        assert history.series["loss"].steps.tolist() == list(range(40))

    def test_a_resume_goes_back_to_its_checkpoint(self, put):
        epochs = [n / 100 for n in (*range(1, 31), *range(21, 61))]
        path = self.log(put, epochs)
        report = stabdiag.diagnose(path, manifest={"logging_steps": 10})
        assert report.history.series["loss"].steps.tolist() == list(range(10, 601, 10))
        assert any("from step 300 to 210" in event.message for event in report.history.events)

    def test_runs_that_were_appended(self, put):
        epochs = [n / 100 for n in (*range(1, 31), *range(1, 41))]
        history = stabdiag.read(self.log(put, epochs))
        assert history.source.attempts == 2
        assert history.series["loss"].steps.tolist() == list(range(40))


@pytest.mark.parametrize("epoch", ["", ", 'epoch': nan", ", 'epoch': inf"])
def test_losses_without_an_epoch_next_to_an_evaluation_with_one(epoch):
    header = "  Total optimization steps = 100\n  Num Epochs = 3\n"
    losses = "".join(f"{{'loss': 2.{n}{epoch}}}\n" for n in (5, 4, 3))
    data = f"{header}{losses}{{'eval_loss': 2.1, 'epoch': 1.0}}\n".encode()
    columns = reader("hf-trainer-stdout").read(Stream("run.log", io.BytesIO(data)))
    assert columns.load("loss").values[:3].tolist() == [2.5, 2.4, 2.3]


def _dicts(*, without_loss, extra=None):
    """Return records as Python dicts; those in ``without_loss`` lack their loss."""
    lines = []
    for n in range(40):
        loss = {} if n in without_loss else {"loss": round(0.5 + 2 * 0.97**n, 4)}
        lines.append(str({**loss, "grad_norm": 1.25, "learning_rate": 1e-4, "epoch": n / 100}))
        if extra and n % 10 == 9:
            lines.append(str({**extra, "epoch": n / 100}))
    return "".join(f"{line}\n" for line in lines)


def test_records_that_lost_their_loss_for_good_are_nan(values):
    losses = values("hf-trainer-stdout", _dicts(without_loss=range(20, 40)))
    assert losses["loss"][:20] == [round(0.5 + 2 * 0.97**n, 4) for n in range(20)]
    assert len(losses["grad_norm"]) == 40


@pytest.mark.parametrize(
    ("without_loss", "extra", "slug"),
    [
        (range(20, 40), None, "nan-dtype-unknown"),
        ([20], None, "nan-dtype-unknown"),
        ([], {"learning_rate": 1e-4, "tokens": 1000}, "healthy"),
        ([], {"epochs": 3, "learning_rate": 1e-4}, "healthy"),
    ],
)
def test_dicts_without_a_loss(tmp_path, without_loss, extra, slug):
    log = tmp_path / "run.log"
    log.write_text(_dicts(without_loss=without_loss, extra=extra))
    report = stabdiag.diagnose(log)
    assert report.diagnosis.slug == slug
    assert report.history.series["loss"].steps[-1] == 39


TRAINED = (
    "***** train metrics *****\n  epoch = 2.0\n  train_loss = {}\n  train_runtime = 0:01:02.3\n"
)
EVALUATED = "***** eval metrics *****\n{}  eval_accuracy = 0.75\n  eval_loss   =    {}\n"


def _series(tmp_path, text):
    (tmp_path / "run.txt").write_text(text)
    series = stabdiag.read(tmp_path / "run.txt").series
    return {role: series[role].values.tolist() for role in series}


def test_a_post_may_have_only_the_summaries(tmp_path):
    both = TRAINED.format("0.625") + EVALUATED.format("  epoch = 2.0\n", "0.5")
    assert _series(tmp_path, f"I see:\n{both}\nIs it right?\n") == {
        "loss": [0.625],
        "eval_loss": [0.5],
        "eval_accuracy": [0.75],
    }


def test_evaluations_before_and_after_a_training_are_two_records(tmp_path):
    text = EVALUATED.format("", "2.5") + "then\n" + EVALUATED.format("  epoch = 2.0\n", "2.75")
    assert _series(tmp_path, text)["loss"] == [2.5, 2.75]


def test_the_summaries_of_a_log_with_records_are_not_read(values):
    text = _dicts(without_loss=()) + TRAINED.format("9.5") + EVALUATED.format("", "0.5")
    assert "train_loss" not in values("hf-trainer-stdout", text)


def test_a_summary_that_is_nan_is_reported(tmp_path):
    (tmp_path / "run.txt").write_text(EVALUATED.format("  epoch = 2.0\n", "nan"))
    assert stabdiag.diagnose(tmp_path / "run.txt").diagnosis.slug == "nan-dtype-unknown"


@pytest.mark.parametrize("name", ["objective/rlhf_reward", "reward"])
def test_a_policy_counts_its_episodes(tmp_path, name):
    lines = (
        f"{{'{name}': {n / 9:.4f}, 'loss/policy_avg': -0.02, 'loss/value_avg': {1 / n:.4f}, "
        f"'lr': 1e-06, 'episode': {64 * n}, 'epoch': {n / 50:.2f}}}"
        for n in range(1, 31)
    )
    (tmp_path / "run.txt").write_text("\n".join(lines))
    history = stabdiag.read(tmp_path / "run.txt")
    assert history.unit == "episode"
    assert history.series["loss"].steps.tolist() == [*range(64, 1984, 64)]


class TestTheLossOfASubclass:
    LINES = tuple(
        f"{{'embedding_loss': {2.5 - n / 10:.1f}, 'learning_rate': 0.001, 'epoch': 0.{n + 10}}}\n"
        for n in range(8)
    )
    EVALUATION = "{'eval_loss': 2.3, 'eval_bleu': 0.5, 'eval_runtime': 4.0, 'epoch': 0.13}\n"

    @pytest.mark.parametrize("name", ["embedding_loss", "Total_loss", "lm_loss", "train_loss"])
    def test_is_read_next_to_evaluations(self, put, name):
        text = "".join((*self.LINES[:4], self.EVALUATION, *self.LINES[4:]))
        history = stabdiag.read(put(text.replace("embedding_loss", name)))
        loss = history.series["loss"]
        assert loss.values.tolist() == [round(2.5 - n / 10, 1) for n in range(8)]
        assert np.diff(loss.steps).tolist() == [1] * 7
        assert history.series["eval_loss"].values.tolist() == [2.3]

    def test_has_an_evaluation_of_its_own(self, put):
        evaluation = self.EVALUATION.replace("eval_loss", "eval_embedding_loss")
        history = stabdiag.read(put("".join((*self.LINES[:4], evaluation, *self.LINES[4:]))))
        assert len(history.series["loss"].values) == 8
        assert history.series["eval_loss"].values.tolist() == [2.3]

    def test_is_not_the_mean_in_the_summary(self, put):
        summary = "{'train_runtime': 9.0, 'train_loss': 7.0, 'epoch': 0.2}\n"
        history = stabdiag.read(put("".join((*self.LINES, self.EVALUATION, summary))))
        assert 7.0 not in history.series["loss"].values


def test_the_dicts_of_another_programs_evaluations_are_not_the_log(tmp_path):
    (tmp_path / "run.log").write_text(
        "".join(
            f"INFO - {{'valid/recall@5': 0.{n}5, 'valid/loss': {9 - n / 8}, 'epoch': {n}}}\n"
            f"INFO - epoch {n + 1} train loss {6 - n / 4}\n"
            for n in range(1, 5)
        )
    )
    series = stabdiag.read(tmp_path / "run.log").series
    assert series["loss"].values.tolist() == [5.75, 5.5, 5.25, 5.0]
    assert series["eval_loss"].values.tolist() == [8.875, 8.75, 8.625, 8.5]


@pytest.mark.parametrize("runs", [2, 3])
@pytest.mark.parametrize("epochs", [3, 12, 30])
def test_a_run_of_whole_epochs_follows_another_one(put, runs, epochs):
    dicts = "{{'loss': {loss:.4f}, 'epoch': {n}.0}}\n{{'eval_loss': {loss:.3f}, 'epoch': {n}.0}}\n"
    text = "".join(
        dicts.format(loss=2 / n + k / 50, n=n) for k in range(runs) for n in range(1, epochs + 1)
    )
    report = stabdiag.diagnose(put(text))
    assert len(report.history.series["loss"].values) == epochs
    assert report.diagnosis.severity.value in ("ok", "note")
