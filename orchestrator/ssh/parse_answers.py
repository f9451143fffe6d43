"""Parse answers of nodes, which may be compromised, damaged or of another version."""

from typing import TypeVar

from pydantic import BaseModel

from orchestrator.errors import ContractError
from orchestrator.schema import bounded_files
from orchestrator.ssh.session import Session

Shape = TypeVar("Shape", bound=BaseModel)

REMEDY = "repair or remove that file on the node"


def parsed(shape: type[Shape], text: str, session: Session, name: str, remedy: str = REMEDY) -> Shape:
    """Parse JSON text, bounded in size and depth, as the model ``shape``.

    Args:
        shape: Pydantic model.
        text: Answer of the node.
        session: Connection to the node, which the error names.
        name: File on the node, or subject of the request.
        remedy: Hint of the error.

    Returns:
        The parsed model.

    Raises:
        ContractError: The text is not such JSON. It names the node, the file, each wrong key and its value.
    """
    source = f"{session.node}: {name}"
    try:
        if len(text) > bounded_files.LIMIT:
            raise bounded_files.Unreadable(source, f"larger than {bounded_files.LIMIT:,} characters")
        return bounded_files.load_model(text, shape, source)
    except bounded_files.Unreadable as error:
        raise ContractError(str(error), remedy) from None
