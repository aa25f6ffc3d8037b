#!/bin/bash
# Runs the workers of one node: worker.sh LOGS NODE. common.sh starts it on each node.
set -u
# shellcheck source=cluster/common.sh
source "${0%/*}/common.sh"
logs=$1 node=$2
hold_logs || fail "'$logs' $flaw"
# shellcheck source=/dev/null
source "$folder/settings.sh" && cd "$directory" && exec >"$folder/worker-$node.log" 2>&1 || exit
hold_certificates 1

gpus=0
[[ ${option[device]} == cpu ]] || gpus=$(count_gpus)
# On a GPU one task is launched while another is waited for.
threads=${option[threads]:-$((gpus > 0 ? 2 : 1))}
if ((gpus > 0)); then
    count=$gpus
elif [[ ${option[device]} == gpu ]]; then
    fail "--device gpu given, but the node $node has no GPU"
else
    # Slurm's and PBS's variables for the number of our cores on this node.
    count=${cpus[$node]:-${SLURM_CPUS_ON_NODE:-${NCPUS:-$(nproc)}}}
    count=${option[workers]:-$((count < threads ? 1 : count / threads))}
fi

bind=(--interface "${option[interface]}")
if [[ -z ${option[interface]} ]]; then
    host=${scheduler_address#*://}
    bind=(--host "$(address_towards "${host%:*}")") || fail "this node has no address towards the scheduler"
fi
limit=${option[memory-limit]:-auto}
if [[ $limit == auto && -n ${memory[$node]-} ]]; then
    limit=$((memory[$node] / count))MB # Slurm's MB are MiB: the difference is the nanny's
fi
# Signals are caught before there is anything to clean up.
told=''
trap 'told=${told:-$SECONDS}' TERM INT
trap : USR1
make_scratch 1

# wait_for_workers.py reads the name.
common=(
    "$scheduler_address" --protocol "$protocol" "${bind[@]}"
    --name "$node:$count" --nthreads "$threads" --memory-limit "$limit"
    --local-directory "$scratch" --death-timeout "${option[wait]}"
    --no-dashboard --dashboard-address 127.0.0.1:0
)
if ((gpus > 0)); then
    pool=(--rmm-pool-size "${option[pool-size]}" --set-rmm-allocator-for-libs cupy)
    [[ ${option[pool-size]} != 0 ]] || pool=()
    workers=(dask cuda worker "${common[@]}" "${pool[@]}"
        --device-memory-limit "${option[device-memory-limit]}")
else
    workers=(dask worker "${common[@]}" --nworkers "$count")
fi

# A signal that stops a step or a group of processes reaches dask, too; at a second one it
# would exit without cleaning up. So the script sends one only if dask still has a handler
# for it two seconds later: dask removes the handler at the first signal.
expects_sigterm() {
    local caught
    caught=$(sed -n 's/^SigCgt:\s*//p' "/proc/$1/status" 2>/dev/null)
    (((0x${caught:-0} >> (15 - 1)) & 1))
}
[[ -z $told ]] || { remove_scratch; exit 143; }
"${workers[@]}" &
worker=$! status=0
while alive "$worker"; do
    if [[ -z $told ]]; then
        wait "$worker" # ends at a signal, too
        status=$?
    else
        ((SECONDS < told + 2)) || ! expects_sigterm "$worker" || kill "$worker"
        pause
    fi
done
# Bash 5.3 returns the status of a process once, and 127 from then on.
wait "$worker" 2>/dev/null
last=$?
((last == 127)) || status=$last
remove_scratch
exit "$status"
