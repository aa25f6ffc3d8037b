# shellcheck shell=bash
# Folders and files that only the job's owner can write to. common.sh sources this.
#
# If others can write to a folder above ours, as in a project's folder, they can replace
# ours by their own at any time. So the script opens each folder and each certificate once
# and then examines it. Whatever its name leads to later, the job reaches it as
# /proc/PID/fd/NUMBER, where PID is the script that has it open.

# Opens a file or a folder and sets `held` to such a path; or fails and sets `flaw` to the
# reason. BITS are the permissions that others must not have.
hold() { # PATH BITS
    local descriptor above
    held='' flaw='cannot be read'
    [[ -d $1 || -f $1 ]] || return # not a pipe, which would wait
    { exec {descriptor}<"$1"; } 2>/dev/null || return
    held=/proc/$$/fd/$descriptor
    if [[ -L $1 || ! $1 -ef $held ]]; then
        flaw='is a link'
    elif [[ ! -O $held && $(stat -Lc %u "$held") != 0 ]]; then
        flaw='belongs to another user'
    elif ! closed_to_others "$held" "$2"; then
        flaw='is open to others; remove their permissions'
    elif above=$(folder_of_everybody "$1"); then
        flaw="is below '$above', where everybody can replace it; set that folder's sticky bit"
    else
        return 0
    fi
    exec {descriptor}<&-
    return 1
}

# Both functions fail if the path cannot be examined: an empty mode is not a number.
closed_to_others() { # PATH BITS
    ((!(8#$(stat -Lc %a "$1") & 8#$2)))
} 2>/dev/null

# Finds a folder above a path in which all users may rename each other's files.
folder_of_everybody() { # PATH
    local above
    above=$(realpath "$1")
    while [[ -n $above ]]; do
        above=${above%/*}
        (((8#$(stat -c %a "${above:-/}") & 8#1002) != 2)) || { echo "${above:-/}"; return; }
    done
    return 1
} 2>/dev/null

# `logs` is the folder's name, for messages and other nodes; `folder` is the held path.
make_folders() {
    local cannot="cannot write to"
    logs=$(realpath -ms "${option[logs]:-twom-logs/$job}")
    # The group that shares a folder above may have to write there, too; nobody else has.
    # shellcheck disable=SC2174 # the mode is for the last folder alone
    (umask o-w && mkdir -p -m 700 "$logs" 2>/dev/null) ||
        refuse "$cannot '$logs'; name another folder with --logs"
    hold_logs || refuse "'$logs' $flaw, or name another folder with --logs"
    # Files are removed and made anew: the script would follow links in their place.
    { rm -f "$folder"/{settings.sh,scheduler.log,launch.log,worker-*.log,tls.pem} &&
        touch "$folder/scheduler.log"; } 2>/dev/null ||
        refuse "$cannot '$logs'; name another folder with --logs"
    make_scratch 2
}

hold_logs() { hold "$logs" 22 && folder=$held; }

# `scratch` is the held path of a node's own folder, and `scratch_name` its name.
make_scratch() { # STATUS of a failure
    local where=${option[scratch]:-${TMPDIR:-/tmp}}
    scratch_name=$(mktemp -d "$where/twom-XXXXXX" 2>/dev/null) ||
        fail "cannot write to the scratch folder '$where'; name another with --scratch" "$1"
    # It is new, unless somebody has just replaced it by another folder of ours.
    if ! hold "$scratch_name" 77 || [[ -n $(ls -A "$held") ]]; then
        rmdir "$scratch_name" 2>/dev/null
        fail "the scratch folder '$scratch_name' $flaw, or name another with --scratch" "$1"
    fi
    scratch=$held
}

remove_scratch() {
    find "$scratch/" -mindepth 1 -delete
    rmdir "$scratch_name"
} 2>/dev/null

# --- certificates ---------------------------------------------------------------------

tls=DASK_DISTRIBUTED__COMM__TLS # dask's own settings; the options only fill them in
declare -A certificates=()      # their files, by the names of the settings

check_certificates() {
    local name role ca=${option[tls-ca-file]} cert=${option[tls-cert]} key=${option[tls-key]}
    if [[ -n $ca$cert$key ]]; then
        [[ -n $ca && -n $cert ]] || refuse "--tls-ca-file and --tls-cert belong together"
        export "${tls}__CA_FILE=$ca"
        for role in SCHEDULER WORKER CLIENT; do
            export "${tls}__${role}__CERT=$cert"
            [[ -z $key ]] || export "${tls}__${role}__KEY=$key"
        done
        export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=true
    fi
    for name in $(compgen -e "${tls}__" | grep -E '(FILE|CERT|KEY)$'); do
        certificates[$name]=$(realpath -m "${!name}")
    done
    hold_certificates 2
}

# Makes dask read the very files that were examined, here and on each node.
hold_certificates() { # STATUS of a failure
    local name file bits
    for name in "${!certificates[@]}"; do
        file=${certificates[$name]} bits=22
        ! grep -qs 'PRIVATE KEY' "$file" || bits=26
        hold "$file" "$bits" || fail "the TLS file '$file' $flaw" "$1"
        export "$name=$held"
    done
}

# Makes credentials for this job alone, unless dask is configured with others.
make_credentials() {
    local file=$folder/tls.pem
    [[ ${protocol?} == tls ]] || return 0
    (umask 077 && python3 - "$file") <<'PYTHON' || fail "no TLS credentials could be made; --protocol tcp works without them"
import sys
from distributed import Security

if Security().tls_scheduler_cert is None:
    made = Security.temporary()
    with open(sys.argv[1], "x") as stream:
        stream.write(made.tls_scheduler_key + made.tls_scheduler_cert)
PYTHON
    [[ -f $file ]] || return 0
    option[tls-ca-file]=$logs/tls.pem option[tls-cert]=$logs/tls.pem
    check_certificates
}
