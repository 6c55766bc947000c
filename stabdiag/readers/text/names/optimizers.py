"""Replace what numerical optimizers print by the names of a loss and of a gradient norm.

L-BFGS, LIBLINEAR and the optimizers of MATLAB and Julia call the loss a function: ``f`` next to the
norm ``|g|`` of its gradient, or a column ``f(x)`` or ``Function value`` next to the iteration.
"""

from __future__ import annotations

import re
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.lines.grammar import NUMBER_PATTERN, Normalization

# |g|, |proj g|, ||g||, |grad f|, ||gradient||
_GRADIENT_NORM: Final = rb"\|{1,2}(?:proj )?g(?:rad(?:ient)?)?(?: f)?\|{1,2}"
_GRADIENT_NORMS: Final = tuple(
    b"%b%b%b" % (bar, name, bar)
    for name in (b"g", b"grad", b"gradient", b"grad f")
    for bar in (b"|", b"||")
)

OPTIMIZERS: Final = (
    # L-BFGS-B in Fortran: At iterate   50    f=  1.22321D-01    |proj g|=  1.12210D-02
    Normalization(
        (b"At iterate ", b"|proj g|="), rb"(?m)^At iterate(?= {1,8}\d{1,9} {1,8}f=)", b"iteration"
    ),
    Normalization((b"|proj g|=",), rb"(?<==)( {1,12}-?\d\.\d{1,20})D(?=[-+]\d)", rb"\1E"),
    # LIBLINEAR: iter  8 act 2.6e-02 pre 2.6e-02 delta 1.4e-03 f 8.4e+03 |g| 3.7e+01 CG   2
    *(
        Normalization(
            (norm,),
            rb"(?<![\w|.])(?:f(?:\(x\)|val|x)?|F|obj|cost)(?: ?[=:])?[ \t]{1,12}"
            rb"(?=%b[^\n]{0,80}?%b(?: ?[=:])?[ \t]{1,12}%b)"
            % (NUMBER_PATTERN, _GRADIENT_NORM, NUMBER_PATTERN),
            b"loss: ",
        )
        for norm in (*_GRADIENT_NORMS, b"|proj g|")
    ),
    *(
        Normalization(
            (norm,),
            rb"(?<![\w|])%b(?: ?[=:])?[ \t]{1,12}(?=%b)" % (_GRADIENT_NORM, NUMBER_PATTERN),
            b"grad_norm: ",
        )
        for norm in (*_GRADIENT_NORMS, b"|proj g|")
    ),
)

# Optuna: Trial 8 finished with value: 2.5 and parameters: {'x': 1.5}. Best is trial 3 with value:
# 1.25. Its first versions: Finished trial#8 resulted in value: 2.5. Current best value is 1.25 with
# parameters: {'x': 1.5}. The last line of a paste may be cut.
_TRIALS: Final = tuple(
    Normalization(
        (b"inished", b" value: "),
        rb"%b(\d{1,9}) ?(?:finished )?%b value: (%b)[^\n]{0,2000}?%b(%b)[^\n]{0,2000}"
        % (begin, values, NUMBER_PATTERN, best, NUMBER_PATTERN),
        rb"trial \1 trial_value: \2 best_fitness: \3",
    )
    for begin, values, best in (
        (b"Trial ", b"with", rb"Best is trial \d{1,9} with value: "),
        (b"Finished trial#", b"with", rb"Best is trial#\d{1,9} with value: "),
        (b"Finished trial#", b"resulted in", b"Current best value is "),
    )
)
SEARCHES: Final = (
    *_TRIALS,
    # scikit-optimize: Iteration No: 3 ended. Search finished for the next optimal point.
    # Time taken: 1.2
    # Function value obtained: 2.5
    # Current minimum: 1.25
    Normalization(
        (b"Iteration No: ", b"Function value obtained: ", b"Current minimum: "),
        rb"(?m)^Iteration No: (\d{1,9}) ended\.[^\n]{0,200}\n[^\n]{0,200}\n"
        rb"Function value obtained: (%b)\nCurrent minimum: (%b)" % (NUMBER_PATTERN, NUMBER_PATTERN),
        rb"trial \1 trial_value: \2 best_fitness: \3",
    ),
    # FLAML, below iteration 3: at 1.2s, estimator lgbm's best error=0.5, best estimator lgbm's best
    # error=0.5
    Normalization(
        (b" - iteration ", b"'s best error="),
        rb"estimator \w{1,40}'s best error=%b,[ \t]{0,4}best estimator \w{1,40}'s best error="
        % NUMBER_PATTERN,
        b"best_fitness=",
    ),
)

# The heading of a table: Iteration   FunEvals     Step Length    Function Val        Opt Cond
_ITERATION_NAMES: Final = rb"^[ \t|]{0,80}(?:#[ \t]{0,4})?[Ii]ter(?:ation)?s?[ \t|][^\n]{0,120}?"
_FUNCTION: Final = (
    rb"(?<=[ \t|])(?:(?:[Bb]est |[Mm]in )?f\(x\)|(?:Func(?:tion)?|[Oo]bj(?:ective)?)[ _-]?"
    rb"[Vv]al(?:ue)?|[Ff][Vv]al)(?=[ \t|\n])"
)
_FUNCTION_HEADING: Final = lazy_pattern(rb"(%b)(%b)" % (_ITERATION_NAMES, _FUNCTION), re.MULTILINE)
_FUNCTION_WORDS: Final = (b"(x)", b"al")
# MATLAB's two names with a blank between them are two cells:  Iter F-count            f(x)
_TWO_COUNTS: Final = lazy_pattern(rb"[ \t](Iter )(?=F-count)")

# pycma puts one blank between two names:  Iterat #Fevals   function value  axis ratio  sigma
# min&max std  t[m:s]. Its first version has minstd and maxstd.
_CMA_HEADING: Final = lazy_pattern(
    rb"^([ \t]{0,40})Iterat #Fevals {1,8}function value {1,8}axis ratio {1,8}sigma {1,8}"
    rb"(?:min&max std|minstd maxstd)(?: {1,8}(t\[m:s\]|min:sec))?",
    re.MULTILINE,
)
_CMA_WORD: Final = b"#Fevals"
_CMA_NAMES: Final = b"Iter  Fevals  Loss  axis_ratio  sigma  min_std  max_std"

# The heading of a function that is maximized: Iter      log prob        ||dx||      ||grad||
_PROBABILITY_HEADING: Final = lazy_pattern(
    rb"(%b(?<=[ \t|]{2}))(log[ _-]?prob(?:ability)?|[Ll]og[ _-]?[Ll]ik(?:elihood)?|ELBO)"
    rb"(?=[ \t]?[ \t|\n])([^\n]{0,200})" % _ITERATION_NAMES,
    re.MULTILINE,
)
_PROBABILITY_WORDS: Final = (
    b"prob",
    b"ikelihood",
    b"oglik",
    b"og-lik",
    b"og_lik",
    b"ogLik",
    b"ELBO",
)
# The heading of a table with a loss, or of a sampler.
_NO_OPTIMIZER: Final = lazy_pattern(rb"(?i)loss|perplexity|nll|accept|sampl|leapfrog|tree")
# Stan's norms of the step and of the gradient, and names that are not words.
_NORMS: Final = ((b" ||grad||", b"grad_norm"), (b"||dx||", b"    dx"), (b"# evals", b"  evals"))


def name_function(data: bytes) -> bytes:
    """Return a text whose headings of iterations name the column of a function a loss.

    All columns stay where they are, except in the heading of pycma.
    """
    if any(word in data for word in _PROBABILITY_WORDS):
        data = _PROBABILITY_HEADING.sub(_with_bound, data)
    if _CMA_WORD in data:
        data = _CMA_HEADING.sub(_of_cma, data)
    if b"ter" not in data or not any(word in data for word in _FUNCTION_WORDS):
        return data
    return _FUNCTION_HEADING.sub(_with_loss, data)


def _of_cma(heading: re.Match[bytes]) -> bytes:
    return heading[1] + _CMA_NAMES + (b"  time" if heading[2] else b"")


def heading_of_probability(data: bytes) -> bool | None:
    """Return True if a heading names a probability, which rises, as Stan prints it.

    Return None if only the values can show it, and False for any other text.
    """
    if not any(word in data for word in _PROBABILITY_WORDS):
        return False
    headings = [match for match in _PROBABILITY_HEADING.finditer(data) if _is_bound(match)]
    if not headings:
        return False
    return True if all(_NORMS[0][0] in match[3] for match in headings) else None


def _is_bound(heading: re.Match[bytes]) -> bool:
    return _NO_OPTIMIZER.search(heading[0]) is None


def _with_bound(heading: re.Match[bytes]) -> bytes:
    if not _is_bound(heading):
        return heading[0]
    others = heading[3]
    for name, replacement in _NORMS:
        others = others.replace(name, replacement)
    return heading[1] + b"Loss".rjust(len(heading[2])) + others


def _with_loss(heading: re.Match[bytes]) -> bytes:
    return _TWO_COUNTS.sub(rb"\1 ", heading[1]) + b"Loss".rjust(len(heading[2]))
