#!/bin/bash
# One machine, with its GPUs, without a batch system:
#
#   cluster/local_cuda.sh herk A.zarr -o C.zarr
#
# CUDA_VISIBLE_DEVICES chooses among the GPUs. Options: --help.
set -u
cluster=$(dirname "$(realpath "$0")")
# shellcheck source=cluster/common.sh
source "$cluster/common.sh"

detach=(setsid) # Ctrl-C is for twom-dist, which then puts things away
run_job "$@"
