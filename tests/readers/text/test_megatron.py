"""What Megatron-LM and DeepSpeed print, and messages about overflows."""

import numpy as np
import pytest

import stabdiag
from tests.readers.text.printed import OVERFLOW, iteration, lm, step_line


class TestDeepSpeed:
    def test_overflows_belong_to_the_steps_before_the_next_report(self, values):
        columns = values(
            "deepspeed",
            f"{OVERFLOW} Rank 0 Skipping step. Attempted loss scale: 65536, but hysteresis is 2. "
            "Reducing hysteresis to 1\n"
            f"{OVERFLOW} Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768\n"
            f"{OVERFLOW} Rank 0 Skipping step. Attempted loss scale: 32768, reducing to 16384\n"
            + step_line(10, 3)
            + f"{OVERFLOW} Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768\n"
            + step_line(20, 4),
        )
        scale = columns["Attempted loss scale"]
        assert [pair for pair in zip(columns["step"], scale, strict=True) if pair[1]] == [
            *((0, 65536), (1, 65536), (2, 32768), (2, 32768), (3, 16384)),
            *((10, 65536), (11, 32768)),
        ]
        assert columns["skipped"].count(None) == 8
        assert [s for s, k in zip(columns["step"], columns["skipped_step"], strict=True) if k] == [
            *(1, 2, 3, 11)
        ]

    def test_loss_scale_is_diagnosed_without_a_loss(self, put):
        lines = []
        for step in range(0, 400, 10):
            old = max(2.0 ** (15 - step // 20), 1)
            lines.append(f"{OVERFLOW} Attempted loss scale: {old:g}, reducing to {old / 2:g}\n")
            lines.append(step_line(step + 10, step // 10 + 1))
        report = stabdiag.diagnose(put("".join(lines)))
        assert report.diagnosis.slug == "loss-scale-collapsed"
        assert "loss" not in report.history.series

    def test_overflows_between_losses_of_the_trainer_without_steps(self, tmp_path):
        path = tmp_path / "run.log"
        lines = [f"{{'loss': {2 - n / 100:.4f}, 'epoch': {n / 25:.2f}}}\n" for n in range(1, 51)]
        lines[20:20] = [
            f"{OVERFLOW} Rank 0 Skipping step. Attempted loss scale: {2**n}, "
            f"reducing to {2 ** (n - 1)}\n"
            for n in range(16, 0, -1)
        ]
        path.write_text("".join(lines))
        history = stabdiag.read(path)
        assert history.source.format == "hf-trainer-stdout"
        assert history.counts_records
        assert len(history.series["loss"]) == 50
        scales = set(history.series["loss_scale"].values.tolist())
        assert scales == {2.0**n for n in range(17)}
        assert stabdiag.diagnose(path).diagnosis.slug == "loss-scale-collapsed"


class TestMegatron:
    def test_a_skipped_interval_is_not_a_nan(self, put):
        lines = [iteration(10 * n, loss=lm(3 - n / 100)) for n in range(1, 41)]
        lines[9] = iteration(100, skipped=10)
        lines[19] = iteration(200, loss=lm(0.0), skipped=10)
        lines[24:29] = [iteration(10 * n, skipped=10) for n in range(25, 30)]
        loss = stabdiag.read(put("".join(lines))).series["loss"]
        assert np.isfinite(loss.values).all()
        assert not set(loss.steps.tolist()) & {100, 200, 250, 260, 270, 280, 290}

    def test_an_interval_skipped_in_part_has_a_loss_or_a_nan(self, put):
        lines = [
            iteration(10 * n, loss=lm(3 - n / 100), extra=" grad norm: 1.000 |")
            for n in range(1, 41)
        ]
        lines[30:] = [
            iteration(10 * n, skipped=3, extra=" grad norm: nan |") for n in range(31, 41)
        ]
        report = stabdiag.diagnose(put("".join(lines)))
        assert (report.diagnosis.slug, report.diagnosis.step) == ("nan-fp16-overflow", 310)

    @pytest.mark.parametrize("sign", ["grad norm: nan", "number of nan iterations:  10"])
    def test_a_loss_that_is_left_out_all_along_was_nan(self, put, sign):
        path = put("".join(iteration(n, extra=f"{sign} |") for n in (10, 20, 30)))
        loss = stabdiag.read(path).series["loss"]
        assert (loss.steps.tolist(), np.isnan(loss.values).all()) == ([10, 20, 30], True)
        assert "3 losses count as NaN" in stabdiag.read(path).events[0].message
        assert stabdiag.diagnose(path).diagnosis.slug.startswith("nan-")

    @pytest.mark.parametrize(("skipped", "sign"), [(10, "grad norm: nan"), (0, "grad norm: 0.5")])
    def test_a_loss_that_is_left_out_for_another_reason_was_not(self, put, skipped, sign):
        lines = (iteration(n, skipped=skipped, extra=f"{sign} |") for n in (10, 20, 30))
        assert "loss" not in stabdiag.read(put("".join(lines))).series

    def test_evaluations_and_arguments_are_read(self, read):
        columns = read(
            "megatron",
            "  fp16 ............................................ True\n"
            "  lr .............................................. 0.0003\n"
            "  tokenizer_type .................................. GPT2BPETokenizer\n"
            + iteration(1, loss=lm(3.0))
            + "  fp16 ............................................ False\n"
            " validation loss at iteration 1 | lm loss value: 3.5E+00 | lm loss PPL: 3.3E+01 | \n"
            " validation loss at the end of training for test data | lm loss value: 9.0E+00 | \n",
        )
        assert columns.config == {"fp16": True, "lr": 0.0003, "tokenizer_type": "GPT2BPETokenizer"}
        assert columns.load("lm loss value").values.tolist() == [3.5]

    def test_the_scale_of_deepspeed_precedes_a_placeholder(self, put):
        lines = []
        for n in range(1, 60):
            if n % 10 == 0:
                lines.append(f"{OVERFLOW} Attempted loss scale: 64, reducing to 32\n")
            lines.append(iteration(n, loss=lm(3 - n / 100)).replace("64.0", "-1.0"))
        scale = stabdiag.read(put("".join(lines))).series["loss_scale"]
        assert scale.column == "Attempted loss scale"
        assert scale.steps[:4].tolist() == [9, 10, 19, 20]
        assert scale.values[:4].tolist() == [64, 32, 64, 32]


class TestOverflowMessages:
    def test_overflows_are_read_next_to_any_loss(self, tmp_path):
        apex = "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to {scale}\n"
        path = tmp_path / "run.log"
        # Two ranks say the same.
        text = "step 10 loss 2.5\n" + apex.format(scale=512.0) * 2 + apex.format(scale=256.0)
        path.write_text(text + "step 20 loss 2.4\nstep 30 loss 2.3\n")
        history = stabdiag.read(path)
        assert history.series["loss_scale"].values.tolist() == [512, 256]
        assert history.series["skipped"].steps.tolist() == [11, 12]
        path.write_text("".join(apex.format(scale=2.0**n) for n in (9, 8, 7)))
        history = stabdiag.read(path)
        assert history.source.format == "alarms"
        assert history.series["loss_scale"].values.tolist() == [512, 256, 128]
        deepspeed = "OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 64, reducing to 32\n"
        path.write_text("step 10 loss 2.5\nstep 20 loss 2.4\n" + deepspeed)
        assert stabdiag.read(path).series["loss_scale"].values.tolist() == [64, 32]
        path.write_text(deepspeed.replace("OVERFLOW! Rank 0", "[Rank 0] Overflow detected."))
        assert stabdiag.read(path).series["loss_scale"].values.tolist() == [64]

    def test_a_scale_of_0_is_said_once_for_each_overflow(self, put):
        apex = "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 0.0\n"
        for text in (apex * 60, "".join(f"step {n} loss: 7.{n}\n{apex}" for n in range(10, 50))):
            diagnosis = stabdiag.diagnose(put(text)).diagnosis
            assert diagnosis.slug == "loss-scale-collapsed"
            assert "below 1 throughout, 0 at the lowest" in diagnosis.summary

    def test_a_step_that_a_hand_written_loop_skips_is_an_overflow(self, put):
        skipped = "  Non-finite grad norm, skipping step (consecutive: 1)\n"
        lines = [f"[step {n}] loss={4 - n / 100} scale=2.0e+03\n" for n in range(0, 100, 10)]
        history = stabdiag.read(put("".join(lines[:8]) + skipped * 2 + "".join(lines[8:])))
        assert history.series["skipped"].steps.tolist() == [71, 72]
        assert np.isinf(history.series["grad_norm"].values).all()

    def test_the_time_of_a_step_of_espnet_is_not_that_of_waiting_for_data(self, put):
        line = "1epoch:train:{n}-{n}batch: iter_time=0.1, loss=2.5, train_time=1.5\n"
        history = stabdiag.read(put("".join(line.format(n=n) for n in range(1, 5))))
        assert history.series["step_time"].values.tolist() == [1.5] * 4

    def test_a_gradient_of_espnet_that_is_nan_is_a_skipped_step(self, put):
        path = put(
            "(trainer:636) INFO: 1epoch:train:1-50batch: iter_time=0.1, loss_ctc=1.5, loss=65.129\n"
            + "(trainer:581) WARNING: The grad norm is nan. Skipping updating the model.\n" * 3
        )
        history = stabdiag.read(path)
        assert history.series["loss"].steps.tolist() == [50]
        assert history.series["grad_norm"].steps.tolist() == [51, 52, 53]
        assert history.series["skipped"].values.tolist() == [1, 1, 1]
