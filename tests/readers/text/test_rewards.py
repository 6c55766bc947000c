"""Rewards and scores of games, in many words and languages."""

import pytest

import stabdiag


@pytest.fixture
def series(tmp_path):
    def series(line, name="run.log"):
        log = tmp_path / name
        log.write_text("".join(line.format(n=n, r=3 * n - 40.5) + "\n" for n in range(30)))
        return stabdiag.read(log).series

    return series


@pytest.mark.parametrize(
    "line",
    [
        "第{n}回合, 奖励: {r}, 步数: 12",
        "回合: {n}, 总奖励: {r}, 探索率: 0.5",
        "回合 {n}/30 | 得分: {r} | epsilon: 0.500",
        "Episode {n}: 累计奖励 = {r}, 步数 = 12",
        "에피소드 {n} | 보상: {r} | 입실론: 0.500",
        "에피소드: {n}, 총 보상: 7.5, 평균 보상: {r}",
        "エピソード {n}: 報酬 = {r}, ステップ数 = 12",
        "{n}エピソード目 報酬合計: {r}",
        "Эпизод {n}, награда: {r}, эпсилон: 0.500",
        "Эпизод: {n}/30, Суммарная награда: {r}",
        "Episodio {n}/30 - Recompensa: {r} - Epsilon: 0.500",
        "Episodio: {n}, Recompensa total: 7.5, Recompensa media: {r}",
        "Partida {n}: Puntuación: {r}, epsilon: 0.500",
        "Episódio {n}: Recompensa Total = {r}, Epsilon = 0.500",
        "Épisode {n} - Récompense : {r} - epsilon : 0.500",
        "Episode {n}: Belohnung = {r}, Epsilon = 0.500",
        "Episodio {n}: ricompensa {r}",
        "Bölüm {n}, Toplam Ödül: {r}",
        "Epizod {n}: nagroda = {r}, epsilon = 0.500",
    ],
)
def test_rewards_in_other_languages(series, line):
    read = series(line)
    assert read["reward"].steps.tolist() == list(range(30))
    assert read["reward"].values.tolist() == [3 * n - 40.5 for n in range(30)]
    assert not {"loss", "lr", "epoch"} & {*read}


@pytest.mark.parametrize(
    "line",
    [
        "episode {n} score {r} average score 7.5",
        "ep {n} return {r} running return 7.5",
        "Episode {n} reward {r} mean reward 7.5 epsilon 0.5",
        "episode is: {n}, total reward is: {r}, epsilon is: 0.5",
        "the episode is {n}, the reward is {r}",
        # The counter has no blank either.
        "episode{n}, reward: {r}",
        "Episode_{n}: total reward {r}, epsilon 0.5",
        "game{n} | score: {r}",
        "generation{n}, best fitness: {r}",
        "Gen{n}: fitness = {r}, size = 12",
        "Iter {n}: Total rewards mean {r}, Total rewards std 0.310, KL 0.001",
        "Update {n}\nLast 9 episodes: mean/median reward {r}/7.5, min/max reward 7.5/9.5",
    ],
)
def test_rewards_without_a_sign_or_with_a_verb(series, line):
    read = series(line)
    assert read["reward"].steps.tolist() == list(range(30))
    assert read["reward"].values.tolist() == [3 * n - 40.5 for n in range(30)]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("[2026-01-05 10:{n:02}:00] epoch is: {n}, eval success rate is: {r}", "eval success rate"),
        ("Iteration {n}: win rate = {r}", "win rate"),
        ("Iteration {n} | Win rate vs random: {r}%", "Win rate vs random"),
        ("gen {n} elo {r} games 200", "elo"),
        ("训练轮次 {n} 胜率: {r} 平均得分: 12.5", "win rate"),
        ("Game {n} | Wins: 6 | Losses: 3 | Draws: 1 | Epsilon: 0.50 | Win rate: {r}%", "Win rate"),
    ],
)
def test_scores_of_a_policy(series, line, name):
    read = series(line)
    assert read[f"score/{name}"].values.tolist() == [3 * n - 40.5 for n in range(30)]
    assert "loss" not in read


def test_a_loss_between_the_games_is_the_loss(series):
    read = series("Iter {n} - win/loss/draw: 10/8/2 - wins: 10, losses: 8 - loss: {r}")
    assert read["loss"].values.tolist() == [3 * n - 40.5 for n in range(30)]


@pytest.mark.parametrize("name", ["dqn_rewards.txt", "returns_seed1.csv", "rewards.txt"])
def test_numbers_in_a_file_of_rewards(series, name):
    assert "reward" in series("{r}", name)


@pytest.mark.parametrize(
    ("line", "role"),
    [
        ("Gen {n} | Best: 60.5 | Avg: {r}", "reward"),
        ("Generation {n}: best=-90.5 mean={r}", "loss"),
        ("Generation {n}, Best = {r}", "reward"),
        ("step: {n}, mean fitness: {r}", "reward"),
        ("gen={n} max fitness: {r}, min fitness: -50.0", "reward"),
        ("Gen    {n}: min=-90.5 avg={r} max=90.5 std=4.5", "reward"),
        ("Gen: {n} Best: [0.5, 1.5] Fitness: {r}", "reward"),
        (
            "-- Generation {n} --\n  Evaluated 99 individuals\n  Min -90.5\n  Max 90.5\n"
            "  Avg {r}\n  Std 4.5",
            "reward",
        ),
        (
            "[flaml.automl: 05-01 10:00:01] {{2391}} INFO - iteration {n}, current learner lgbm\n"
            "[flaml.automl: 05-01 10:00:01] {{2566}} INFO -  at 1.2s,\testimator lgbm's best "
            "error=0.5,\tbest estimator lgbm's best error={r}",
            "reward",
        ),
    ],
)
def test_the_fitness_of_generations(series, line, role):
    read = series(line)
    assert read[role].values.tolist() == [3 * n - 40.5 for n in range(30)]
    assert read[role].steps.tolist() == list(range(30))
    assert len({"reward", "loss"} & {*read}) == 1


def test_scores_of_episodes_below_their_lines(series):
    read = series("Episode {n}/30\n  Average Score (last 50): {r}\n  Epsilon: 0.50\n-----")
    assert read["reward"].values.tolist() == [3 * n - 40.5 for n in range(30)]
    assert read["reward"].steps.tolist() == list(range(30))


@pytest.mark.parametrize(
    ("line", "role"),
    [
        ("Episode {n}/30, Recent win rate (agent1): {r}", "score/Recent win rate (agent1)"),
        ("Episode {n}:    Win rate {r}%, ε = 0.61", "score/Win rate"),
        (
            "Timestep {n}\nmean reward (100 episodes) {r}\nbest mean reward 55.5\nepisodes 90",
            "reward",
        ),
        ("Gen  {n}: best_fitness = {r}", "reward"),
        ("Gen{n}: best_fitness = {r}", "reward"),
    ],
)
def test_names_with_a_count_or_a_player(series, line, role):
    read = series(line)
    assert read[role].values.tolist() == [3 * n - 40.5 for n in range(30)]
    assert read[role].steps.tolist() == list(range(30))


def test_episodes_with_a_reward_that_is_not_finite_are_counted(tmp_path):
    log = tmp_path / "run.log"
    rewards = [*(f"{n}.5" for n in range(20)), *["nan"] * 10]
    log.write_text("".join(f"ep={n} return={reward} len=9\n" for n, reward in enumerate(rewards)))
    reward = stabdiag.read(log).series["reward"]
    assert reward.steps.tolist() == list(range(30))
    assert len(reward.finite()) == 20


def test_a_loss_that_sums_up_many_rewards_is_no_course(tmp_path):
    log = tmp_path / "run.log"
    lines = [f"Total Epi: {n} Steps: {200 * n} Return: {n / 8}" for n in range(1, 9)]
    lines.insert(4, "Done 12 epochs. Average actor loss 0.0042")
    log.write_text("\n".join(lines))
    series = stabdiag.read(log).series
    assert [*series] == ["reward"]
    assert series["reward"].steps.tolist() == [200 * n for n in range(1, 9)]
    log.write_text(log.read_text().replace("0.0042", "nan"))
    assert not stabdiag.diagnose(log).ok


def test_a_few_rewards_need_no_loss(tmp_path):
    log = tmp_path / "run.log"
    form = "Iteration {}: mean reward {}, max reward {}, sigma 0.100\n"
    log.write_text("".join(form.format(n, n - 4.5, n - 2.5) for n in range(1, 4)))
    assert stabdiag.diagnose(log).diagnosis.slug == "insufficient-data"


@pytest.mark.parametrize("name", ["AvgScore", "MeanScore", "avgScore", "EpScore", "ScoreAvg"])
def test_the_words_of_a_score_of_games_may_be_glued(series, name):
    read = series(f"Episode {{n}}  {name}: {{r}}  Eps: 0.1")
    assert [*read] == ["reward"]


def test_games_whose_count_begins_again_are_another_run(put):
    runs = [(range(100, 500, 100), 20, 60), (range(10, 90, 10), 900, 1)]
    text = "".join(
        f"Episode {n}\tAverage reward: {begin + rise * k}\n"
        for counts, begin, rise in runs
        for k, n in enumerate(counts)
    )
    report = stabdiag.diagnose(put(text))
    assert report.history.source.attempts == 2
    assert report.history.series["reward"].steps.tolist() == [*range(10, 90, 10)]
