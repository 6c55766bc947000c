"""Checkpoints next to a log: their names give their steps, and the advice names one."""

import json
from pathlib import PurePosixPath

import pytest

import stabdiag
from stabdiag.sources.sidecars import find_checkpoints, list_names

NAN = [{"step": n, "loss": 2.0 - 0.001 * n if n < 190 else float("nan")} for n in range(1, 240)]


@pytest.mark.parametrize(
    ("names", "result"),
    [
        (["checkpoint-94/", "checkpoint-188/"], {"step": (94, 188), "epoch": (94, 188)}),
        (["checkpoints/epoch=3-step=120.ckpt"], {"step": (120,), "epoch": (3,)}),
        (["ckpt_100.pt", "ckpt_200.pt"], {"step": (100, 200), "epoch": (100, 200)}),
        (["checkpoint3.pt", "checkpoint4.pt", "checkpoint_best.pt"], {"epoch": (3, 4)}),
        (["checkpoint_3_1200.pt"], {"step": (1200,), "epoch": (3,)}),
        (["iter_0000500/", "latest_checkpointed_iteration.txt"], {"step": (500,)}),
        (["global_step500/", "latest"], {"step": (500,)}),
        (["ckpts/step500-unsharded/"], {"step": (500,)}),
        (["ep1-ba500-rank0.pt"], {"step": (500,), "epoch": (1,)}),
        (["epoch_3.pth", "epoch_12.pth"], {"epoch": (3, 12)}),
        (["model-val_loss=1.25-step=500.ckpt"], {"step": (500,)}),
        (["weights.03-1.23.hdf5", "ckpt.pt"], {}),
        # Pictures, logs, runs and what is still being written.
        (["step_100.png", "step_100.json", "runs_5/", "tmp-checkpoint-500/", "5/"], {}),
        ([f"step_{n}.pt" for n in range(1001)], {}),
    ],
    ids=lambda checkpoint: str(checkpoint)[:40],
)
def test_checkpoint_names_give_steps(tmp_path, names, result):
    for name in names:
        path = tmp_path / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.write_bytes(b"")
    folders = [PurePosixPath(tmp_path / "no"), PurePosixPath(tmp_path)]
    assert find_checkpoints(folders, list_names) == result


@pytest.mark.parametrize(
    ("log", "names", "settings", "checkpoint"),
    [
        ("run/trainer_state.json", ["run/checkpoint-94", "run/checkpoint-188"], {}, 188),
        # One of the folders contains the log.
        ("run/checkpoint-239/trainer_state.json", ["run/checkpoint-94"], {}, 94),
        ("run/trainer_state.json", ["run/checkpoint-190", "run/checkpoint-200"], {}, 0),
        ("run/trainer_state.json", ["run/epoch_1", "run/epoch_2"], {}, None),
        ("run/trainer_state.json", ["run/checkpoint-94"], {"checkpoint_every": 60}, 180),
        ("run/trainer_state.json", ["run/checkpoint-94"], {"checkpoints": "50,150"}, 150),
        # The default of the HF Trainer gives no cadence.
        ("run/trainer_state.json", [], {}, None),
    ],
    ids=["of steps", "above", "too late", "of epochs", "by hand", "named by hand", "none"],
)
def test_the_checkpoint_to_reload(tmp_path, log, names, settings, checkpoint):
    for name in names:
        (tmp_path / name).mkdir(parents=True)
    path = tmp_path / log
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(json.dumps({"log_history": NAN, "save_steps": 500}))
    report = stabdiag.diagnose(path, settings=settings)
    first = report.diagnosis.actions[0]
    assert first.checkpoint == checkpoint
    stabdiag.convert(path, tmp_path / "kept.parquet", settings=settings)
    assert stabdiag.diagnose(tmp_path / "kept.parquet").diagnosis.actions[0] == first


def test_checkpoint_numbers_next_to_epochs_are_epochs_where_possible(tmp_path):
    rows = [{"epoch": n, "loss": 2.0 if n < 8 else float("nan")} for n in range(12)]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    for name in ("model_5.pt", "model_7000.pt"):
        (tmp_path / name).write_bytes(b"")
    assert stabdiag.diagnose(path).manifest.checkpoints == (5,)
