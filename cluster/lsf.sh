#!/bin/bash
# One LSF allocation, from its first host:
#
#   bsub -n 32 -R "span[ptile=16]" -gpu "num=4" cluster/lsf.sh herk A.zarr -o C.zarr
#
# Options come before the command; --help lists them. Tested with a stand-in for blaunch
# only, never on a real LSF.
set -u
cluster=$(dirname "$(realpath "$0")")
# shellcheck source=cluster/common.sh
source "$cluster/common.sh"

in_job LSB_JOBID "$@"
job=$LSB_JOBID
((${LSB_JOBINDEX:-0} == 0)) || job+=-$LSB_JOBINDEX # a job of an array
told_everyone=true
patience=8 # JOB_TERMINATE_INTERVAL is 10 s by default

# The file has one line for each slot.
nodes=()
while read -r node; do
    [[ -v cpus[$node] ]] || nodes+=("$node")
    cpus[$node]=$((${cpus[$node]:-0} + 1))
done <"$LSB_DJOB_HOSTFILE"

launch() { exec blaunch -no-shell "$1" "${@:2}"; }

run_job "$@"
