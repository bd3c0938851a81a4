#!/usr/bin/env bash
# Tries a Space's files without the Hub and without Docker: renders them, does with them what the Hub
# would do, in an empty folder with an empty home, starts the app there and asks it.
# usage: scripts/try-space.sh engine|viewer [FOLDER]
#   FOLDER   a new folder for it all; a temporary one, removed at the end, by default
#   PYTHON   the interpreter that renders and makes the environments, .venv/bin/python by default
#   PORT     where the app listens, 7860 by default
#   ROOT     for an engine, as root: a bare system to run the whole Dockerfile in, packages and user too, with
#            a container's 64 MB of shared memory. One that has nothing but what the image has, and Python:
#            debootstrap --variant=minbase --include=ca-certificates,python3-distutils,python3.11-venv bookworm ROOT
set -euo pipefail
cd "$(dirname "$0")/.."
kind=${1:-}
case $kind in
    engine) sdk=docker ;;
    viewer) sdk=gradio ;;
    *) echo "usage: scripts/try-space.sh engine|viewer [FOLDER]" >&2; exit 2 ;;
esac
# What is mounted in a namespace of its own is gone with it.
[ -z "${ROOT:-}" ] || [ -n "${APART:-}" ] || APART=1 exec unshare --mount "$0" "$@"
python=$(readlink -m "$(dirname "${PYTHON:-.venv/bin/python}")")/$(basename "${PYTHON:-python}")
port=${PORT:-7860}
root=${ROOT:+$(readlink -e "$ROOT")}
if [ -n "${2:-}" ]; then
    folder=$(readlink -m "$2")
    mkdir "$folder"
else
    folder=$(mktemp -d)
    temporary=1
fi
app=
finish() {
    [ -z "$app" ] || { kill "$app" && wait "$app" || true; } 2>/dev/null
    [ -z "${temporary:-}" ] || rm -rf "$folder"
}
trap finish EXIT

sed "s/^kind: .*/kind: $kind/; s/^sdk: .*/sdk: $sdk/" Spacefile >"$folder/Spacefile"
"$python" -m dflash_viz space render "$folder/space" --spacefile "$folder/Spacefile"
mkdir "$folder/app" "$folder/home"
export HOME=$folder/home SPACE_ID=local/try PYTHON=$python
unset DFLASH_VIZ_CACHE XDG_CACHE_HOME HF_HOME PYTHONPATH
cd "$folder/app"
SECONDS=0

copy() { # what COPY does: sources lie beside the Dockerfile, the last word is where they go
    local words=() word
    for word in "$@"; do [[ $word == --* ]] || words+=("$word"); done
    local target=$place/${words[-1]}
    [[ $target != */ ]] || mkdir -p "$target"
    for word in "${words[@]:0:${#words[@]}-1}"; do cp -r "$folder/space/$word" "$target"; done
    [ -z "$root" ] || chroot "$root" chown -R "$user" "$workdir"
}

enter() { # makes the bare system one that can be worked in
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o size=64m tmpfs "$root/dev/shm"
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/" # as a container has them
    export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    unset PYTHON # it has its own
}

place=$folder/app user=root workdir=/
inside=() # what runs a command where the steps are done: in this folder, or in the bare system
if [ "$kind" = engine ]; then
    [ -z "$root" ] || enter
    while read -r step rest; do
        [ -z "$root" ] || inside=(chroot --userspec="$user" "$root" sh -c 'cd "$0" && exec "$@"' "$workdir")
        case $step in
            USER) user=$rest ;;
            WORKDIR) workdir=$rest && [ -z "$root" ] || place=$root$rest ;;
            ENV) for word in $rest; do [[ $word == HOME=* && -z $root ]] || export "$word"; done ;;
            COPY) echo "$step $rest" && copy $rest ;;
            RUN)
                # Without a system of their own, packages and users are this machine's business.
                [[ -n $root || ($rest != *apt-get* && $rest != *useradd* && $rest != "mkdir /home/"*) ]] || continue
                echo "$step $rest"
                "${inside[@]}" bash -euc "${rest#--mount=* }" </dev/null
                ;;
            CMD) mapfile -t start < <("$python" -c 'import json, sys; print(*json.loads(sys.argv[1]), sep="\n")' "$rest") ;;
        esac
    done <"$folder/space/Dockerfile"
else
    # What the Hub's Gradio SDK does with the files, as its build logs show: two installations, in this order.
    export SYSTEM=spaces
    cp -r "$folder/space/." .
    version=$(sed -n 's/^sdk_version: //p' README.md)
    "$python" -m venv ../venv
    install() { echo "pip install $*" && ../venv/bin/python -m pip install -q --disable-pip-version-check "$@"; }
    install datasets "huggingface-hub>=0.30" "hf-transfer>=0.1.4" "protobuf<4" "click<8.1"
    install -r requirements.txt "gradio[oauth,mcp]==$version" "uvicorn>=0.14.0" "websockets>=10.4" spaces
    start=(../venv/bin/python app.py)
fi
echo "installed after $SECONDS s"

"${inside[@]}" "${start[@]}" --port "$port" >"$folder/app.log" 2>&1 &
app=$!
"${inside[@]}" "${start[0]}" - "http://127.0.0.1:$port/" "$kind" "$app" <<'PY' || { cat "$folder/app.log"; exit 1; }
import os, sys, time, urllib.request

url, kind, app = sys.argv[1], sys.argv[2], int(sys.argv[3])
deadline = time.monotonic() + 900


def running():
    """The app is this process's sibling: it has ended when its state is that of a zombie."""
    with open(f"/proc/{app}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] != "Z"


def until(answered):
    while running() and time.monotonic() < deadline:
        try:
            if answered():
                return
        except Exception:  # not there yet
            pass
        time.sleep(1)
    sys.exit("The app does not answer.")


def page():
    with urllib.request.urlopen(url, timeout=10) as response:
        return "DFlash Viz" in response.read().decode()


def question():
    from gradio_client import Client

    job = Client(url, verbose=False).submit("Why is the sky blue?", max_tokens=16, api_name="/run")
    lines = list(job)  # until all lanes have had their turn
    answered = {line["lane"] for line in lines if line["type"] == "end" and line.get("text")}
    return bool(answered) and answered == {line["lane"] for line in lines}


until(page)
print(f"The page is at {url}")
if kind == "engine":
    until(question)
    print("Every lane has answered a question.")
PY
echo "answered after $SECONDS s"
