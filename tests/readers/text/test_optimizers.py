"""What numerical optimizers print: a function, and the norm of its gradient."""

import math

import pytest

import stabdiag
from stabdiag.errors import LogError


@pytest.fixture
def series(tmp_path):
    def series(text):
        log = tmp_path / "run.log"
        log.write_text(text)
        return stabdiag.read(log).series

    return series


VALUES = [2.5, 1.75, 1.25, 1.0, 0.875]
NORMS = [0.5, 0.25, 0.125, 0.0625, 0.03125]

LINES = {
    "LIBLINEAR": "iter {n:2d} act 2.1e-01 pre 2.0e-01 delta 1.2e+01 f {f:.3e} |g| {g:.5e} CG   3",
    "its later versions": "iter {n:2d} f {f:.3e} |g| {g:.5e} CG   3 step_size 1.00e+00",
    "equals signs": "Iteration {n}: f(x) = {f}, |grad| = {g}",
    "a step in between": "iter {n} | fval: {f} | step: 0.1 | ||g||: {g}",
    "a cost": "Iteration {n}: cost = {f}, |grad f| = {g}",
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_a_function_next_to_the_norm_of_its_gradient_is_a_loss(series, line):
    text = "".join(
        line.format(n=n, f=f, g=g) + "\n"
        for n, (f, g) in enumerate(zip(VALUES, NORMS, strict=True))
    )
    read = series(text)
    assert read["loss"].steps.tolist() == [0, 1, 2, 3, 4]
    assert read["loss"].values.tolist() == VALUES
    assert read["grad_norm"].values.tolist() == NORMS


FORTRAN = "At iterate{n:5d}    f= {f:>12}    |proj g|=  1.25000D-01\n\n"


def test_fortran_writes_its_exponents_with_a_d(series):
    functions = ["2.50000D-01", "1.25000D-01", "6.25000D-02", "NaN"]
    text = "".join(FORTRAN.format(n=50 * n, f=f) for n, f in enumerate(functions))
    loss = series(f"RUNNING THE L-BFGS-B CODE\n\n N =  3021\n\n{text}")["loss"]
    assert loss.steps.tolist() == [0, 50, 100, 150]
    assert loss.values[:3].tolist() == [0.25, 0.125, 0.0625]
    assert math.isnan(loss.values[3])


TABLES = {
    "minFunc": (
        " Iteration   FunEvals     Step Length    Function Val        Opt Cond\n",
        "{n:10d} {n:10d}     1.00000e+00     {f:.5e}     {g:.5e}\n",
    ),
    "fminunc": (
        "                                                        First-order \n"
        " Iteration  Func-count       f(x)        Step-size       optimality\n",
        "{n:6d} {n:11d}        {f:8.6f}            1         {g:9.6f}\n",
    ),
    "fmincon": (
        "                                            First-order      Norm of\n"
        " Iter F-count            f(x)  Feasibility   optimality         step\n",
        "{n:5d} {n:7d}    {f:.6e}    0.000e+00    {g:.3e}    1.250e-01\n",
    ),
    "Optim.jl": (
        "Iter     Function value   Gradient norm \n",
        "{n:6d}     {f:.6e}     {g:.6e}\n * time: 0.00021\n",
    ),
}


@pytest.mark.parametrize(("heading", "row"), TABLES.values(), ids=TABLES)
def test_the_column_of_a_function_is_a_loss(series, heading, row):
    rows = "".join(
        row.format(n=n, f=f, g=g) for n, (f, g) in enumerate(zip(VALUES, NORMS, strict=True))
    )
    assert series(heading + rows)["loss"].values.tolist() == VALUES


def test_a_table_of_a_function_without_iterations_is_not_a_log(series):
    rows = "".join(f"    {n}.0    {f}\n" for n, f in enumerate(VALUES))
    with pytest.raises(LogError):
        series(f"      x      f(x)\n{rows}")


STAN = (
    "    Iter      log prob        ||dx||      ||grad||       alpha      alpha0  # evals  Notes \n"
)
STAN_ROW = (
    "{n:8d}  {f:12.6g}           nan  {g:12.6g}         0.5           1      {n:3d}  {note}\n"
)


def stan(values):
    rows = (
        STAN_ROW.format(
            n=10 * n, f=f, g=4 / (n + 1), note="LS failed, Hessian reset" * (n % 3 == 2)
        )
        for n, f in enumerate(values)
    )
    return "initial log joint probability = -950\n" + STAN + "".join(rows)


@pytest.mark.parametrize("start", [-900.0, 1500.0])
def test_the_log_of_a_probability_density_rises(series, start):
    read = series(stan([start + 10 * n for n in range(5)]))
    assert read["loss"].steps.tolist() == [0, 10, 20, 30, 40]
    assert read["loss"].values.tolist() == [-start - 10 * n for n in range(5)]
    assert read["grad_norm"].values.tolist() == [4, 2, 1.33333, 1, 0.8]


PROBABILITY_TABLES = {
    "an EM algorithm": ("iteration      loglik      change\n", "{n:9d}  {f:10.3f}    {g:8.4f}\n"),
    "variational": (
        "   iter             ELBO   delta_ELBO_mean\n",
        "{n:7d}  {f:15.3f}  {g:16.3f}\n",
    ),
    "bars": ("| Iteration | Log-likelihood | Change |\n|---|---|---|\n", "| {n} | {f} | {g} |\n"),
}


@pytest.mark.parametrize(("heading", "row"), PROBABILITY_TABLES.values(), ids=PROBABILITY_TABLES)
def test_a_likelihood_in_a_table_is_negated(series, heading, row):
    rows = "".join(row.format(n=n, f=n * 10 - 500.0, g=9.5) for n in range(6))
    loss = series(f"Fitting the model.\n\n{heading}{rows}\nDone.\n")["loss"]
    assert loss.values.tolist() == [500, 490, 480, 470, 460, 450]


NO_PROBABILITY_TABLES = {
    "a bound above zero that rises": "Iter     loglik    change\n",
    "a sampler": "Iter   log prob    accept\n",
}


@pytest.mark.parametrize("heading", NO_PROBABILITY_TABLES.values(), ids=NO_PROBABILITY_TABLES)
def test_another_table_with_a_probability_is_not_a_log(series, heading):
    rows = "".join(f"{n:4d}  {n * 10 + 100.5:9.3f}  {9.5 / (n + 1):8.4f}\n" for n in range(6))
    with pytest.raises(LogError):
        series(f"Fitting the model.\n\n{heading}{rows}\nDone.\n")


CMA = "Iterat #Fevals   function value  axis ratio  sigma  min&max std  t[m:s]\n"
CMA_ROW = "{n:5d}{e:7d} {f:.15e} 1.4e+00 2.70e-01  3e-01  3e-01 0:00.{n}\n"


def cma(values):
    rows = (CMA_ROW.format(n=n, e=12 * n, f=f) for n, f in enumerate(values, start=1))
    return "(6_w,12)-aCMA-ES (mu_w=3.7,w_1=40%) in dimension 9 (seed=1)\n" + CMA + "".join(rows)


@pytest.mark.parametrize("note", ["", "Gen 3 | Distance: 7 km\n"])
def test_the_function_of_an_evolution_strategy_is_the_loss(series, note):
    loss = series(cma(VALUES).replace("\n    4", f"\n{note}    4"))["loss"]
    assert loss.steps.tolist() == [1, 2, 3, 4, 5]
    assert loss.values.tolist() == VALUES


def test_restarts_of_an_evolution_strategy_are_runs(series):
    restarts = "".join(f"== Restart {k} ==\n" + cma([k + v for v in VALUES]) for k in (1, 2, 3))
    assert series(restarts)["loss"].values.tolist() == [3 + v for v in VALUES]


TRIALS = {
    "a trial": "Trial {n} finished with value: {v} and parameters: {{'x': {v}}}. Best is trial"
    " 1 with value: {b}.",
    "earlier": "Finished trial#{n} with value: {v} with parameters: {{'x': {v}}}. Best is trial#1"
    " with value: {b}.",
    "the first form": "Finished trial#{n} resulted in value: {v}. Current best value is {b} with"
    " parameters: {{'x': {v}, 'k': 3}}.",
}


@pytest.mark.parametrize("line", TRIALS.values(), ids=TRIALS)
@pytest.mark.parametrize(("role", "choose"), [("loss", min), ("reward", max)])
def test_the_best_value_of_a_search_shows_its_direction(tmp_path, line, role, choose):
    values = [0.5, 0.75, 0.25, 0.625, 0.875, 0.125, 0.375]
    bests = [choose(values[: n + 1]) for n in range(len(values))]
    log = tmp_path / "search.log"
    log.write_text(
        "".join(
            f"[I 2023-04-05 10:00:0{n},123] " + line.format(n=n, v=v, b=b) + "\n"
            for n, (v, b) in enumerate(zip(values, bests, strict=True))
        )
    )
    report = stabdiag.diagnose(log)
    assert report.history.series[role].values.tolist() == bests
    assert report.diagnosis.slug == "insufficient-data"


def test_the_minimum_of_a_search_is_read_with_its_iteration(put):
    text = "".join(
        f"Iteration No: {n} started. Evaluating function at random point.\n"
        f"Iteration No: {n} ended. Evaluation done at random point.\n"
        f"Time taken: {n / 8}\nFunction value obtained: {3 + n % 3}.5\n"
        f"Current minimum: {2 - n / 10:.4f}\n"
        for n in range(1, 13)
    )
    series = stabdiag.diagnose(put(text)).history.series
    assert series["loss"].column == "best_fitness"
    assert series["loss"].steps.tolist() == [*range(1, 13)]


@pytest.mark.parametrize("last", ["falling", "NAN", "nan"])
@pytest.mark.parametrize("runs", [1, 2, 3])
def test_the_rows_of_several_evolutions(put, runs, last):
    heading = "n_gen  |  n_eval  |     f_avg     |     f_min\n" + "=" * 44 + "\n"
    rows = [
        f"{n:6d} | {100 * n:8d} |  {18 * 0.8**n + 2:.10E} |  {2 * 0.8**n + 0.3:.10E}\n"
        for n in range(1, 16)
    ]
    lost = [f"{n:6d} | {100 * n:8d} |  {last} |  {last}\n" for n in range(10, 16)]
    ending = rows if last == "falling" else [*rows[:9], *lost]
    text = heading + heading.join(map("".join, [*[rows] * (runs - 1), ending]))
    report = stabdiag.diagnose(put(text))
    assert report.history.source.attempts == runs
    assert report.diagnosis.slug == ("healthy" if last == "falling" else "nan-dtype-unknown")
