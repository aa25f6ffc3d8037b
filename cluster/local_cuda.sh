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

detach=(setsid) # only twom-dist shall receive Ctrl-C, and clean up
# If this script is killed, the scheduler ends, and so do the workers (util-linux 2.33).
! setpriv --pdeathsig TERM true 2>/dev/null || detach+=(setpriv --pdeathsig TERM)
run_job "$@"
