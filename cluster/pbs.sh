#!/bin/bash
# One PBS allocation, from its first node:
#
#   qsub -l select=2:ncpus=16:ngpus=4 -l place=scatter:excl -- "$PWD/cluster/pbs.sh" herk A.zarr -o C.zarr
#
# After "--" OpenPBS and PBS Professional pass arguments to a script; in Torque write
# qsub -F "herk A.zarr -o C.zarr" cluster/pbs.sh. Options come before the command; --help
# lists them. Tested with stand-ins for PBS's commands only, never on a real PBS.
set -u

cluster=$(dirname "$0")
if [[ ! -r $cluster/common.sh ]]; then # this is a copy, and the original is nearby
    for cluster in "${PBS_O_WORKDIR-}"{,/*} ''; do
        # In a shared folder anybody may have put a copy beside a common.sh of their own.
        [[ ! -O $cluster || ! -O $cluster/common.sh ]] || ! cmp -s "$0" "$cluster/pbs.sh" || break
    done
fi
if [[ ! -r $cluster/common.sh ]]; then
    echo "pbs.sh: error: common.sh is not beside it; submit from your own folder of scripts, or from the one above" >&2
    exit 2
fi
# shellcheck source=cluster/common.sh
source "$cluster/common.sh"

script=pbs.sh
in_job PBS_JOBID "$@"
job=$PBS_JOBID
cd "$PBS_O_WORKDIR" || exit
told_everyone=true
patience=8 # kill_delay is 10 s by default

# The file has one line for each slot; pbsdsh takes the number of a node's first slot.
nodes=()
declare -A slot=()
mapfile -t slots <"$PBS_NODEFILE"
for i in "${!slots[@]}"; do
    [[ -v slot[${slots[i]}] ]] || nodes+=("${slots[i]}")
    slot[${slots[i]}]=${slot[${slots[i]}]:-$i}
done

launch() { exec pbsdsh -n "${slot[$1]}" -- "${@:2}"; }

run_job "$@"
