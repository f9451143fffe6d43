"""Published tables in the form of a study file: numbers of one paper, by cell and column."""

from orchestrator.schema.studies import Metric, Option, Published

RAY, HOROVOD = "ray-torch", "horovod-tensorflow"
COLUMNS = (("N5", 1), ("N5", 2), ("N9", 1), ("N9", 2))
NETWORKS = {"resnet50": "mnist", "mobilenet_v2": "fashion_mnist"}
DEY: dict[Metric, dict[tuple[str, str], tuple[float, ...]]] = {
    "seconds": {
        (RAY, "resnet50"): (4.0798, 2.789, 3.353, 1.848),
        (RAY, "mobilenet_v2"): (0.817, 0.654, 0.792, 0.808),
        (HOROVOD, "resnet50"): (4.132, 3.4474, 3, 3.7002),
        (HOROVOD, "mobilenet_v2"): (0.691, 0.6409, 0.614, 0.936),
    },
    "images_per_second": {
        (RAY, "resnet50"): (14706, 21513, 17894, 32467),
        (RAY, "mobilenet_v2"): (73739, 91743, 75757, 74257),
        (HOROVOD, "resnet50"): (14520, 17404, 17400, 16215),
        (HOROVOD, "mobilenet_v2"): (86830, 93618, 93618, 64102),
    },
    "top1": {
        (RAY, "resnet50"): (0.9883, 0.9922, 0.99, 0.99),
        (RAY, "mobilenet_v2"): (0.6951, 0.47, 0.5802, 0.7498),
        (HOROVOD, "resnet50"): (0.902, 0.904, 0.903, 0.903),
        (HOROVOD, "mobilenet_v2"): (0.729, 0.72, 0.722, 0.718),
    },
}


def dey(batch: int | None = 32) -> list[Published]:
    return [
        Published(cell=_cell(engine, model, ranks, batch), metric=metric, value=value, source="table 1", column=column)
        for metric, rows in DEY.items()
        for (engine, model), values in rows.items()
        for (column, ranks), value in zip(COLUMNS, values, strict=True)
    ]


def _cell(engine: str, model: str, ranks: int, batch: int | None) -> dict[str, Option]:
    cell: dict[str, Option] = {"engine": engine, "model": model, "dataset": NETWORKS[model], "ranks": ranks}
    return cell if batch is None else {**cell, "batch": batch}


def ghimire() -> list[Published]:
    """Keras printed "4s 9ms/step" for 500 // ranks steps."""
    printed = {1: ("4s 9ms", 4.5), 2: ("2s 11ms", 2.75), 4: ("1s 13ms", 1.625)}
    return [
        Published(cell={"model": "lenet", "ranks": ranks}, metric="seconds", value=value, source="table 2", text=text)
        for ranks, (text, value) in printed.items()
    ]
