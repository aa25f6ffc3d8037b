# shellcheck shell=bash
# Functions that the scripts in this folder share. They start a dask scheduler and workers
# on every node of one allocation, run one command of twom-dist, and stop everything.
# Needs bash 4.4 and python3.
#
# A script that sources this file sets some of the variables below, replaces some of the
# functions under "what a batch system may know better", and calls `run_job "$@"`.

cluster=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
# shellcheck source=cluster/folders.sh
source "$cluster/folders.sh"
script=${0##*/}              # for messages
job=local-$$                 # name of the log folder
nodes=(localhost)            # this machine first
declare -A cpus=() memory=() # by node, if the batch system tells
detach=()                    # prefix of commands that must not receive Ctrl-C
probe_gpus=true              # ask nvidia-smi if CUDA_VISIBLE_DEVICES is unset
told_everyone=false          # true if SIGTERM reaches all processes of a job
patience=60                  # seconds between SIGTERM and SIGKILL

# Printed by --help, from here
# SCRIPT [OPTION VALUE]... COMMAND [ARGUMENT]...
#
# Runs `twom-dist COMMAND ARGUMENT...` on dask workers, on this machine or on all nodes of
# this allocation.
#
#   --device auto|gpu|cpu     start workers on GPUs if the node has any (auto), on GPUs
#                             or not at all (gpu), on cores (cpu)             [auto]
#   --workers N               worker processes on a node without GPUs  [one per core]
#   --threads N               threads per worker process            [2 on a GPU, or 1]
#   --memory-limit BYTES      memory limit of each worker, e.g. 16GiB  [equal shares]
#   --pool-size SIZE          memory pool on each GPU: a share, or bytes; 0: none [0.9]
#   --device-memory-limit SIZE  GPU memory that outputs of tasks may take before dask
#                             moves them to the host: 0.72 of the pool, since tasks
#                             need the rest                                   [0.65]
#   --interface NAME          network interface, e.g. ib0   [the one to the other nodes]
#   --protocol NAME           tls, or tcp or ucx without encryption               [tls]
#   --tls-ca-file FILE        CA certificate: admit only processes with a certificate of
#                             this authority     [temporary credentials for the job]
#   --tls-cert FILE           certificate of scheduler, workers and client (PEM)
#   --tls-key FILE            key of the certificate                 [in the same file]
#   --dashboard ADDRESS:PORT  address of dask's dashboard                         [off]
#   --scratch FOLDER          folder on each node for spilled data       [$TMPDIR, /tmp]
#   --logs FOLDER             folder for logs                          [twom-logs/JOB]
#   --wait SECONDS            time limit for the scheduler, and again for workers  [60]
#   --venv FOLDER             virtual environment with twom-dist   [programs on PATH]
# to here
declare -A option=([device]=auto [pool-size]=0.9 [device-memory-limit]=0.65 [wait]=60)
for name in workers threads memory-limit interface protocol tls-{ca-file,cert,key} dashboard \
    scratch logs venv; do
    option[$name]=''
done

# Python must not import modules from folders that others can write to: neither from the
# current one, nor from that of the workers that multiprocessing starts.
export PYTHONSAFEPATH=1
# Under Python 3.11 dask's profiler may stop a process for ever (dask/distributed #8616).
export DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED=${DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED:-False}
arguments=() launchers=() # the command; the processes that start workers on the nodes
scheduler='' child='' stopping='' forward=true

say() { echo "$script: $*" >&2; }
fail() { say "error: $1"; exit "${2:-1}"; }
refuse() { fail "$1" 2; } # before any work, with twom-dist's own status
alive() { [[ -n $1 ]] && kill -0 "$1" 2>/dev/null; }
pause() { sleep 0.2 & wait $!; } # a signal ends `wait`, but not `sleep`
has_module() { python3 -c "import importlib.util as i, sys; sys.exit(not i.find_spec('$1'))"; }
last_line() { # LOG...: the last line of the last log that is not empty
    local name
    for name; do cat "$folder/$name.log"; done 2>/dev/null | grep '[^ ]' | tail -n 1
}

# --- what a batch system may know better ----------------------------------------------

launch() { exec "${detach[@]}" "${@:2}"; } # runs a command on the node $1
end_workers() { end $((patience / 4 + 1)) "${launchers[@]}"; }
address_of() { echo "$1"; } # prints the address by which others reach the node $1
count_gpus() {              # prints the number of GPUs that this process may use
    case ${CUDA_VISIBLE_DEVICES-unset} in
        unset) if $probe_gpus; then nvidia-smi -L 2>/dev/null | grep -c '^GPU'; else echo 0; fi ;;
        '' | -1 | NoDevFiles) echo 0 ;; # Slurm writes NoDevFiles for none
        *) tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES" | wc -l ;;
    esac
}

# --- before anything is started -------------------------------------------------------

parse() {
    local name value
    while [[ ${1-} == -* ]]; do
        name=${1#--} value=${2-}
        if [[ $1 == -h || $1 == --help ]]; then
            sed -n '/^# Printed/,/^# to here/ { /^# Printed/d; /^# to here/d; s/^# \{0,1\}//p; }' \
                "${BASH_SOURCE[0]}" | sed "s/^SCRIPT/$script/"
            exit 0
        elif [[ $name == *=* ]]; then
            value=${name#*=} name=${name%%=*}
        elif (($# < 2)); then
            refuse "$1 takes a value; see --help"
        else
            shift
        fi
        [[ -v option[$name] ]] || refuse "--$name does not exist; see --help"
        option[$name]=$value
        shift
    done
    (($# > 0)) || refuse "no command given, such as: herk A.zarr -o C.zarr"
    arguments=("$@")
    for name; do
        [[ $name =~ ^--([a-z-]+)(=|$) ]] || continue
        name=${BASH_REMATCH[1]}
        [[ ! -v option[$name] ]] ||
            refuse "--$name is an option of this script: write it before '$1'"
    done
}

in_job() { # VARIABLE ARGUMENT...: outside a job only --help works
    [[ ! -v $1 ]] || return 0
    parse "${@:2}"
    refuse "this is not a batch job, since $1 is not set; submit the script"
}

check() {
    local name help
    [[ ${option[device]} =~ ^(auto|gpu|cpu)$ ]] ||
        refuse "--device ${option[device]} given; allowed are auto, gpu, cpu"
    if [[ -n ${option[dashboard]} ]]; then
        [[ ${option[dashboard]} =~ ^[^:]+:[0-9]+$ ]] || # :8787 would listen on all addresses
            refuse "--dashboard ${option[dashboard]} given; give one address, such as 127.0.0.1:8787"
        has_module bokeh || refuse "--dashboard needs bokeh: pip install bokeh"
    fi
    for name in workers threads wait; do
        [[ ${option[$name]:-1} =~ ^[1-9][0-9]*$ ]] ||
            refuse "--$name ${option[$name]} given; give a whole number of at least 1"
    done
    if [[ -n ${option[venv]} ]]; then
        [[ -x ${option[venv]}/bin/twom-dist ]] ||
            refuse "'${option[venv]}/bin/twom-dist' is not a program; name an environment that has it"
        PATH=$(realpath "${option[venv]}")/bin:$PATH
    fi
    for name in python3 dask twom-dist; do
        type -P "$name" >/dev/null ||
            refuse "$name is not on PATH; name the environment that has it with --venv"
    done
    help=$(twom-dist "${arguments[0]}" --help) || exit
    [[ $help == *--scheduler-file* ]] ||
        refuse "twom-dist ${arguments[0]} needs no workers; run it without this script"
}

check_devices() {
    local found=0
    [[ ${option[device]} == cpu ]] || found=$(count_gpus)
    if ((found > 0)); then
        has_module dask_cuda ||
            refuse "there are GPUs but dask-cuda is missing: pip install '.[cuda12]' (or cuda13) in a copy of the repository, or give --device cpu"
    elif [[ ${option[device]} == gpu ]]; then
        refuse "--device gpu given, and there is no GPU in this allocation; request some"
    fi
    protocol=${option[protocol]:-tls}
    if [[ -n $(compgen -e "${tls}__SCHEDULER__CERT") ]]; then
        [[ $protocol == tls ]] ||
            refuse "--protocol $protocol given, but only tls is encrypted; omit the option"
    fi
}

# Prints the address from which this machine reaches the node $1; sends nothing.
address_towards() {
    python3 - "$1" 2>/dev/null <<'END'
import socket, sys

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
    probe.connect((sys.argv[1], 9))
    print(probe.getsockname()[0])
END
}

# --- start, watch, stop ---------------------------------------------------------------

# Without a dashboard dask still serves pages, on all addresses by default, and they tell
# everybody about the job: turn all of them off but the one that says "ok".
choose_pages() {
    local routes=__HTTP__ROUTES health='["distributed.http.health"]'
    export "DASK_DISTRIBUTED__WORKER$routes=$health"
    web=(--dashboard --dashboard-address "${option[dashboard]}")
    if [[ -z ${option[dashboard]} ]]; then
        export "DASK_DISTRIBUTED__SCHEDULER$routes=$health"
        web=(--no-dashboard --dashboard-address 127.0.0.1:0)
    fi
}

start_scheduler() {
    local last=${nodes[-1]} address=127.0.0.1 web
    local bind=(--interface "${option[interface]}") end=$((SECONDS + option[wait]))
    if [[ -z ${option[interface]} ]]; then
        ((${#nodes[@]} == 1)) || address=$(address_towards "$(address_of "$last")") ||
            refuse "this machine has no address towards the node $last; name the network with --interface"
        bind=(--host "$address")
    fi
    choose_pages
    DASK_TEMPORARY_DIRECTORY=$scratch \
        "${detach[@]}" dask scheduler --protocol "$protocol" "${bind[@]}" --port 0 "${web[@]}" \
        --scheduler-file "$scratch/scheduler.json" >"$folder/scheduler.log" 2>&1 &
    scheduler=$!
    until scheduler_address=$(sed -n 's|.*"address": "\([^"]*\)".*|\1|p' "$scratch/scheduler.json" 2>/dev/null) &&
        [[ -n $scheduler_address ]]; do
        if [[ -n $stopping ]]; then
            say "$stopping"
            exit 143 # twom-dist's status after SIGTERM
        fi
        alive "$scheduler" ||
            fail "the scheduler did not start ($(last_line scheduler)); see $logs"
        ((SECONDS < end)) ||
            fail "no scheduler file after ${option[wait]} s; see $logs, or wait longer with --wait"
        pause
    done
}

# PBS does not pass the job's environment to tasks on other nodes. Object stores want
# secrets, so they go by a file for you alone, and never on a command line.
write_settings() {
    local names
    mapfile -t names < <(compgen -e | grep -E \
        '^(PATH|LD_LIBRARY_PATH|VIRTUAL_ENV|(AWS|AZURE|CONDA|CUPY|DASK|FSSPEC|GCSFS|GOOGLE|NUMBA|OMP|PYTHON|RMM|UCX|ZARR)[A-Z_0-9]*)$')
    directory=$PWD
    (umask 077 && set -C && declare -p directory scheduler_address certificates protocol probe_gpus \
        option cpus memory "${names[@]}" >"$folder/settings.sh") || fail "cannot write '$logs/settings.sh'"
}

start_workers() {
    local node
    write_settings
    for node in "${nodes[@]}"; do
        launch "$node" bash "$cluster/worker.sh" "$logs" "$node" >>"$folder/launch.log" 2>&1 &
        launchers+=($!)
    done
    ready=false
    supervise python3 "$cluster/wait_for_workers.py" \
        "$scheduler_address" "${#nodes[@]}" "${option[wait]}" "$script: error: %s; see $logs" || exit
    ready=true
}

# Fails if the cluster is gone: dask would wait for it forever.
check_cluster() {
    local i lost=() sentence=''
    for i in "${!launchers[@]}"; do
        alive "${launchers[i]}" || lost+=("${nodes[i]}")
    done
    alive "$scheduler" || sentence="the scheduler ended ($(last_line scheduler))"
    if ((${#lost[@]} > 0)) && { ! $ready || ((${#lost[@]} == ${#nodes[@]})); }; then
        sentence="the workers of ${lost[0]} ended ($(last_line launch "worker-${lost[0]}"))"
    fi
    [[ -n $sentence ]] || return 0
    sleep 1 # if the job is being ended, their signal may have come before ours
    [[ -n $stopping ]] || fail "$sentence; see $logs"
}

# Runs a command, which ends early if the job or the cluster does; returns its status.
supervise() {
    "$@" &
    child=$!
    while alive "$child" && [[ -z $stopping ]]; do
        check_cluster
        pause
    done
    if [[ -n $stopping ]]; then
        say "$stopping"
        if $forward; then
            end $((patience / 2)) "$child"
        else # the command has received SIGTERM itself
            wait_for $((patience / 2)) "$child"
            end $((patience / 8 + 1)) "$child"
        fi
    fi
    wait "$child"
}

wait_for() { # SECONDS PID...
    local end=$((SECONDS + $1)) pid
    for pid in "${@:2}"; do
        while alive "$pid" && ((SECONDS < end)); do pause; done
    done
}

end() { # SECONDS PID...
    signal TERM "${@:2}"
    wait_for "$@"
    signal KILL "${@:2}"
}

signal() { # NAME PID...
    local pid
    for pid in "${@:2}"; do
        alive "$pid" || continue
        # A detached process leads a group of its own.
        kill "-$1" -- "-$pid" 2>/dev/null || kill "-$1" "$pid" 2>/dev/null
    done
}

tear_down() {
    local status=$?
    trap '' TERM INT HUP USR1
    end $((patience / 2)) "$child"
    end_workers
    end $((patience / 8 + 1)) "$scheduler" # last, or all others complain
    rm -f "$folder"/{settings.sh,tls.pem}
    remove_scratch
    exit "$status"
}

run_job() {
    trap 'stopping="stopped by a signal"; forward=true' INT HUP
    trap 'stopping="stopped by a signal"; $told_everyone && forward=false' TERM
    trap 'stopping="the time limit is near"; patience=50' USR1
    parse "$@"
    check
    check_certificates
    check_devices
    make_folders
    trap tear_down EXIT
    make_credentials
    start_scheduler
    start_workers
    supervise twom-dist "${arguments[0]}" --scheduler "$scheduler_address" \
        --timeout "${option[wait]}" "${arguments[@]:1}"
    exit
}
