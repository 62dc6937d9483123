"""What npu_native_functions.yaml may say, and what is said about mistakes: file, line, key, what to do. And what is generated."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from torch_npu import adapt

from tests.paths import NATIVE, PROGRAMS

HEAD = "backend: NPU\ncpp_namespace: at_npu::native\n"
SEED = PROGRAMS / "operator_guide"


def _file(folder: Path, text: str) -> Path:
    path = folder / "npu_native_functions.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", 1, "must be a mapping"),
        ("- a\n", 1, "must be a mapping"),
        ("backend: NPU\n", 1, "cpp_namespace: the key is missing; write `cpp_namespace: at_npu::native`"),
        ("backend: XLA\ncpp_namespace: a\n", 1, "backend: must be NPU, not XLA"),
        ("backend: NPU\ncpp_namespace: a b\n", 2, "cpp_namespace: 'a b' is no namespace of C++"),
        (HEAD + "suported:\n  - add.Tensor\n", 3, "suported: unknown key; did you mean supported?"),
        (HEAD + "supported: [add.Tensor\n", 4, "this is no YAML"),
        (HEAD + "supported:\n  - add.Tensor\nsupported:\n", 5, "supported: the key is here for the second time"),
        (HEAD + "supported:\n  add.Tensor\n  add_.Tensor\n", 4, "supported: must be a list: begin each operator with '- '"),
        (HEAD + "supported:\n  - add.Tensor\n  - add.Scaler\n", 5, "has no operator aten::add.Scaler; did you mean add.Scalar?"),
        (HEAD + "supported:\n  - add.Tensor\n\n  - add.Tensor\n", 6, "supported: add.Tensor is in line 4 already"),
        (HEAD + "autograd:\n  - maxpool2d\n", 4, "has no operator aten::maxpool2d; did you mean max_pool2d?"),
        (HEAD + "custom:\n  - npu_x\n", 4, "custom: 'npu_x' needs its schema"),
        (HEAD + "custom:\n  - variants: method\n", 4, "custom: an entry needs the key func"),
        (HEAD + "custom:\n  - func: npu_x(Tensr self) -> Tensor\n", 4, "is no schema"),
        (HEAD + "custom:\n  - func: npu_x(Tensor a, ...) -> Tensor\n", 4, "leaves arguments out; write the whole schema"),
        (HEAD + "custom:\n  - func: aten::x(Tensor a) -> Tensor\n", 4, "names a namespace; custom operators are in npu"),
        (HEAD + "custom:\n  - func: npu_fast_gelu(Tensor self, int n) -> Tensor\n", 4, "has npu_fast_gelu with another schema"),
        (HEAD + "custom:\n  - func: npu_x(Tensor a) -> Tensor\n    variants: metod\n", 5, "variants: 'metod' is none of function, method"),
        (HEAD + "custom:\n  - func: npu_x(Tensor a) -> Tensor\n    device_check: no\n", 5, "device_check: 'False' is none of"),
        (HEAD + "custom:\n  - func: npu_x(Tensor a) -> Tensor\n    tags: pt2_compliant\n", 5, "tags: torch has no tag 'pt2_compliant'; did you mean"),
        (HEAD + "custom:\n  - func: npu_x(Tensor a) -> Tensor\n    dispatch: f\n", 5, "dispatch: must be a mapping"),
        (HEAD + "custom:\n  - func: npu_x(Tensor a) -> Tensor\n    dispatch:\n      NPUU: f\n", 6, "'NPUU' is no dispatch key here; did you mean NPU?"),
        (HEAD + "custom:\n  - func: npu_x(Tensor a) -> Tensor\n    variant: method\n", 5, "variant: unknown key; did you mean variants?"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line(text: str, line: int, said: str, tmp_path: Path) -> None:
    path = _file(tmp_path, text)
    with pytest.raises(adapt.AdaptError) as caught:
        adapt.read(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:{line}: "), message
    assert said in message, message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(adapt.AdaptError, match="cannot be read"):
        adapt.read(tmp_path / "none.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(adapt.AdaptError, match="cannot be read"):
        adapt.read(tmp_path / "bytes.yaml")


def test_without_pyyaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(adapt.AdaptError, match="pip install pyyaml"):
        adapt.read(_file(tmp_path, HEAD))


def test_the_guide_s_file_after_its_slips() -> None:
    text = (SEED / "guide.yaml").read_text()
    for line, said, wrong, right in (
        (11, "aten::_convolution_nogroup", "  - _convolution_nogroup\n", ""),
        (15, "did you mean max_pool2d?", "  - maxpool2d\n", "  - max_pool2d\n"),
        (
            26,
            "leaves arguments out",
            "Tensor? bias, ...)",
            "Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups)",
        ),
    ):
        with pytest.raises(adapt.AdaptError, match=rf"guide.yaml:{line}: .*" + re.escape(said)):
            _read_text(text)
        text = text.replace(wrong, right)
    functions = _read_text(text)
    sections = {one.section for one in functions.entries}
    assert sections == {"supported", "autograd", "custom", "custom_autograd"} and len(functions.entries) == 16
    assert next(one for one in functions.entries if one.name == "npu_dtype_cast_").variants == ("method",)


def _read_text(text: str) -> adapt.Functions:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "guide.yaml"
        path.write_text(text)
        return adapt.read(path)


def test_what_is_generated(tmp_path: Path) -> None:
    text = (
        HEAD + "supported:\n  - add.Tensor\n  - add.out\n  - max_pool2d_with_indices\n"
        "custom:\n  - func: npu_y(Tensor self, Tensor? w=None, *, float eps=1e-5) -> (Tensor, Tensor)\n    exposed: False\n"
        "custom_autograd:\n  - func: npu_z(Tensor self, SymInt[] sizes) -> Tensor\n    device_check: NoCheck\nsymint:\n  - npu_z\n"
    )
    paths = {path.name: path for path in adapt.generate(_file(tmp_path, text), tmp_path / "out")}
    assert paths["NPUNativeFunctions.h"] == tmp_path / "out/torch_npu/csrc/aten/NPUNativeFunctions.h"
    header = paths["NPUNativeFunctions.h"].read_text()
    assert "namespace at_npu {\nnamespace native {\nstruct NPUNativeFunctions {" in header
    assert (
        "static at::Tensor add(const at::Tensor & self, const at::Tensor & other, const at::Scalar & alpha);" in header
    )
    assert (
        "static at::Tensor & add_out(const at::Tensor & self, const at::Tensor & other, const at::Scalar & alpha, at::Tensor & out);"
        in header
    )
    assert "npu_z(const at::Tensor & self, c10::SymIntArrayRef sizes)" in header
    source = paths["RegisterNPU.cpp"].read_text()
    assert 'm.def(R"(npu_y(Tensor self, Tensor? w=None, *, float eps=1e-5) -> (Tensor, Tensor))");' in source
    assert "TORCH_LIBRARY_IMPL(npu, AutogradPrivateUse1, m)" in source and 'm.impl("add.out"' in source
    assert source.count("check_and_update_common_device(common, self") == 1
    assert "'npu_y', 'npu_z'" in paths["custom_ops.py"].read_text()
    assert "public_npu_functions = ['npu_z']" in paths["exposed_api.py"].read_text()


def test_generating_again_touches_nothing(tmp_path: Path) -> None:
    source = _file(tmp_path, HEAD + "supported:\n  - add.Tensor\n")
    times = [path.stat().st_mtime_ns for path in adapt.generate(source, tmp_path / "out")]
    assert [path.stat().st_mtime_ns for path in adapt.generate(source, tmp_path / "out")] == times
    old = adapt.generate(source, tmp_path / "old", "1.8")[0].read_text()
    assert "at::Scalar alpha);" in old
    with pytest.raises(ValueError, match=r"signatures must be one of now, 1\.8"):
        adapt.generate(source, tmp_path / "out", "1.5")


def test_the_script(tmp_path: Path) -> None:
    _file(tmp_path, HEAD + "supported:\n  - add.Tensor\n")
    words = ["bash", str(NATIVE / "torchnpugen" / "generate_code.sh"), sys.executable, str(tmp_path)]
    environment = {"PYTHONPATH": str(NATIVE), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "generated" / "RegisterNPU.cpp").is_file()


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(str(NATIVE))
    from torchnpugen.gen_backend_stubs import main

    source, output = _file(tmp_path, HEAD + "supported:\n  - add.Tensor\n"), tmp_path / "out"
    words = ["--source_yaml", str(source), "--output_dir", str(output)]
    assert main([*words, "--dry_run"]) == 0 and capsys.readouterr().out == "1 operators\n" and not output.exists()
    source.write_text(HEAD + "supported:\n  - ad.Tensor\n")
    assert main(words) == 1 and not output.exists()
    assert capsys.readouterr().err.startswith(f"ERROR: {source}:4: supported:")
