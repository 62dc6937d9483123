#!/bin/bash
# Generates the code of an adapter: generate_code.sh [python] [folder with npu_native_functions.yaml] [output folder]
set -euo pipefail
python="${1:-python3}"
folder="${2:-$PWD}"
output="${3:-$folder/generated}"
exec "$python" -m torchnpugen.gen_backend_stubs --source_yaml "$folder/npu_native_functions.yaml" --output_dir "$output"
