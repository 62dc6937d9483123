#!/bin/sh
# Builds torch_npu with the address sanitizer in a temporary folder and runs a short program there: no bad access may show.
#   scripts/asan_torch.sh [FOLDER]     FOLDER is kept and used again: only changed files are compiled anew
# Leaks are not looked for: the interpreter and torch keep memory until the process ends.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-$root/.venv/bin/python}
source=${SOURCE:-$root/native/torch}
if [ $# -gt 0 ]; then
  folder=$1
  mkdir -p "$folder"
else
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
fi
mkdir -p "$folder/torch"
for part in csrc torch_npu; do
  (cd "$source" && find "$part" -name '*.so' -prune -o -name '__pycache__' -prune -o -type f -print) | while read -r file; do
    mkdir -p "$folder/torch/$(dirname "$file")"
    cmp -s "$source/$file" "$folder/torch/$file" || cp "$source/$file" "$folder/torch/$file"
  done
done
cp "$source/setup.py" "$source/pyproject.toml" "$folder/torch/"

cd "$folder/torch"
CFLAGS="-fsanitize=address -fno-omit-frame-pointer -O1" LDFLAGS="-fsanitize=address" MAX_JOBS=${MAX_JOBS:-2} \
  "$python" setup.py -q build_ext --inplace > "$folder/build.log" 2>&1 || { tail -n 40 "$folder/build.log"; exit 1; }

LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libstdc++.so.6)" ASAN_OPTIONS=detect_leaks=0:halt_on_error=1 \
  PYTHONMALLOC=malloc TORCH_DEVICE_BACKEND_AUTOLOAD=0 PYTHONPATH="$folder/torch" "$python" "$root/tests/robustness/torch_short.py"
