"""Page of a run for a browser, with the picture embedded: it needs no other file and no network."""

from datetime import timedelta
from html import escape

from orchestrator.bottleneck import explain
from orchestrator.schema import Results

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #222 }}
svg {{ width: 100%; height: auto }}
th {{ text-align: left; font-weight: 600; padding-right: 2rem; vertical-align: top; white-space: nowrap }}
</style>
</head>
<body>
<h1>{title}</h1>
{picture}
<table>
{rows}
</table>
</body>
</html>
"""


def text(found: Results, svg: str) -> str:
    """Return the page; ``svg`` is the picture as matplotlib writes it."""
    rows = "\n".join(f"<tr><th>{escape(name)}</th><td>{escape(said)}</td></tr>" for name, said in facts(found).items())
    return PAGE.format(title=escape(found.run), picture=svg[svg.index("<svg") :].rstrip(), rows=rows)


def facts(found: Results) -> dict[str, str]:
    """Return the facts of a run that has at least one epoch, by name."""
    config, best = found.config, max(found.epochs, key=lambda epoch: epoch.test.top1)
    return {
        "model": f"{config.model}, {found.parameters:,} parameters, images of {config.image_size} pixels",
        "data": f"{config.dataset}: {best.train.images:,} training images per epoch, {best.test.images:,} test images",
        "ranks": f"{found.world.size} on {', '.join(dict.fromkeys(found.world.hosts))}",
        "batch": f"{found.effective_batch_size // found.world.size} images per rank and step, "
        f"{found.effective_batch_size} together",
        "learning rate": f"up to {found.peak_learning_rate:g}, schedule {config.schedule}",
        "arithmetic": config.precision,
        "seed": str(config.seed),
        "best": f"test top-1 {best.test.top1:.2%}, top-5 {best.test.top5:.2%}, in epoch {best.epoch}",
        "time": f"{_time(found)}, {len(found.epochs)} epochs, ended by {found.ended or 'nothing yet'}",
        **({"speed": str(explanation)} if (explanation := explain(found)) else {}),
        "versions": ", ".join(f"{name} {version}" for name, version in found.versions.items()),
    }


def headline(found: Results) -> str:
    """Return the main facts in one line, for the space below a picture."""
    nodes = len(set(found.world.hosts))
    batch = found.effective_batch_size // found.world.size
    counted = f"{found.world.size} rank{'s' * (found.world.size > 1)} on {nodes} node{'s' * (nodes > 1)}"
    return f"{counted}, {batch} images per rank and step, {found.config.precision}, {_time(found)}  ({found.run})"


def _time(found: Results) -> str:
    """Return the time of training and tests as h:mm:ss."""
    return str(timedelta(seconds=round(sum(epoch.seconds + epoch.test_seconds for epoch in found.epochs))))
