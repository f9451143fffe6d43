"""Page of a run for a browser, with the picture embedded: it needs no other file and no network."""

from datetime import timedelta
from html import escape

from orchestrator.bottleneck import explain
from orchestrator.schema import Results, accuracy

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem;
  color: #222; background: #fff; color-scheme: light }}
h1, td {{ overflow-wrap: anywhere }}
.picture {{ overflow-x: auto }}
svg {{ width: 100%; height: auto }}
th {{ text-align: left; font-weight: 600; padding-right: 2rem; vertical-align: top; white-space: nowrap }}
@media screen and (max-width: 50rem) {{
  svg {{ min-width: 50rem }}
  th {{ padding-right: 1rem; white-space: normal }}
}}
</style>
</head>
<body>
<h1>{title}</h1>
<div class="picture" role="region" aria-label="Curves of the run" tabindex="0">{picture}</div>
<table>
{rows}
</table>
</body>
</html>
"""


def text(results: Results, svg: str, top1: float | None = None) -> str:
    """Return the page of a run.

    Args:
        results: Results of the run.
        svg: Picture as matplotlib writes it.
        top1: Accuracy (0 to 1) whose time is asked for, None for none.

    Returns:
        The page.
    """
    shown = facts(results) | ({"time to accuracy": accuracy.describe(results, top1)} if top1 else {})
    rows = "\n".join(f"<tr><th>{escape(name)}</th><td>{escape(fact)}</td></tr>" for name, fact in shown.items())
    return PAGE.format(title=escape(results.run), picture=svg[svg.index("<svg") :].rstrip(), rows=rows)


def facts(results: Results) -> dict[str, str]:
    """Return the facts of a run that has at least one epoch, by name."""
    config, best = results.config, max(results.epochs, key=lambda epoch: epoch.test.top1)
    images = max(epoch.train.images for epoch in results.epochs)  # the last epoch may have ended early
    return {
        "model": f"{config.model}, {results.parameters:,} parameters, images of {config.image_size} pixels",
        "data": f"{config.dataset}: {images:,} training images per epoch, {best.test.images:,} test images",
        "ranks": f"{results.world.size} on {', '.join(dict.fromkeys(results.world.hosts))}",
        "batch": f"{results.effective_batch_size // results.world.size} images per rank and step, "
        f"{results.effective_batch_size} together",
        "learning rate": f"up to {results.peak_learning_rate:g}, schedule {config.schedule}",
        "arithmetic": config.precision,
        "seed": str(config.seed),
        "best": f"test top-1 {best.test.top1:.2%}, top-5 {best.test.top5:.2%}, in epoch {best.epoch}",
        "time": f"{_time(results)}, {_epochs(results, images)}, ended by {results.ended or 'nothing yet'}",
        **({"speed": str(explanation)} if (explanation := explain(results)) else {}),
        "versions": ", ".join(f"{name} {version}" for name, version in results.versions.items()),
    }


def _epochs(results: Results, images: int) -> str:
    """Return the number of epochs, whose training takes ``images`` images each unless the run ended within one."""
    part = results.ended not in (None, "epochs") and results.epochs[-1].train.images < images
    whole = len(results.epochs) - part
    return f"{whole} epoch{'s' * (whole != 1)}{' and a part of the next' * part}"


def headline(results: Results) -> str:
    """Return the main facts in one line, for the space below a picture."""
    nodes = len(set(results.world.hosts))
    batch = results.effective_batch_size // results.world.size
    counted = f"{results.world.size} rank{'s' * (results.world.size > 1)} on {nodes} node{'s' * (nodes > 1)}"
    return f"{counted}, {batch} images per rank and step, {results.config.precision}, {_time(results)}  ({results.run})"


def _time(results: Results) -> str:
    """Return the time of training and tests as h:mm:ss."""
    return str(timedelta(seconds=round(sum(epoch.seconds + epoch.test_seconds for epoch in results.epochs))))
