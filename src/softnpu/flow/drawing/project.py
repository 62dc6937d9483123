"""A UDF project on disk: its JSON file, and the Python part that we can run."""

from __future__ import annotations

from pathlib import Path

from softnpu.flow import codes
from softnpu.flow.drawing.function_config import function_config
from softnpu.flow.errors import DfException
from softnpu.flow.functions import work
from softnpu.flow.plan import UDF_LOADER


def read(path: str) -> work.Work:
    """The work that a compile_config_path describes."""
    config = function_config(path)
    workspace = Path(path).resolve().parent / config.workspace
    source = _python_part(workspace, Path(path).stem)
    if source is None:
        raise DfException(
            f"{path} describes a C++ project, which needs CANN's compiler and is not supported by softnpu. Put a Python "
            f"implementation into {workspace / 'src_python'}, or pass a class as py_func.",
            codes.FUNC_NOT_SUPPORT,
        )
    data = work.baggage()
    data["path"].insert(0, str(source.parent))
    data.update(module=source.stem, file=str(source), source=source.read_text(encoding="utf-8"))
    return work.Work(
        source.stem, config.functions, UDF_LOADER, data, config.resources, config.visible_device, config.output_num
    )


def _python_part(workspace: Path, stem: str) -> Path | None:
    """`src_python/<name of the JSON file>.py`, or the only module there is."""
    folder = workspace / "src_python"
    same = folder / f"{stem}.py"
    if same.is_file():
        return same
    files = sorted(folder.glob("*.py")) if folder.is_dir() else []
    return files[0] if len(files) == 1 else None
