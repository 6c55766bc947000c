"""Lines as frameworks print them."""

OVERFLOW = "[2026-01-05 10:00:00,1] [INFO] [loss_scaler.py:181:update_scale] [deepspeed] OVERFLOW!"
RULE = "|---|:--:|\n"
HEADING = "epoch     train_loss  valid_loss  time    \n"
FASTAI = HEADING + "0         2.5         1.5         00:00\n" * 2


def log(line, count=60):
    """Return a line for each step, with a falling loss."""
    return "".join(line.format(n=n, loss=4 - n / 100) + "\n" for n in range(1, count + 1))


def step_line(step, skipped):
    return f"[Rank 0] step={step}, skipped={skipped}, lr=[0.001, 0.001], mom=[(0.9, 0.95)]\n"


def iteration(step, *, loss="", skipped=0, extra=""):
    return (
        f" iteration {step:8d}/{1000:8d} | learning rate: 1.0E-04 |{loss} loss scale: 64.0 |{extra}"
        f" number of skipped iterations: {skipped:3d} | number of nan iterations:   0 |\n"
    )


def lm(value):
    return f" lm loss: {value:.6E} |"


def yolo_heading(*losses):
    names = "".join(f"{name:>10}" for name in ("Epoch", "gpu_mem", *losses))
    return f"{names}    labels  img_size\n"


def yolo_bar(epoch, *losses, end="\n"):
    cells = "".join(f"{value:10.4g}" for value in losses)
    return f"{epoch:>8}/149     5.05G{cells}        17       640: 50%|█████     | 5/10{end}"


def boxed(*rows, end="\n"):
    """A table of Baselines."""
    rule = "-" * 30 + end
    return rule + "".join(f"| {a:<14} | {b:<9} |{end}" for a, b in rows) + rule
