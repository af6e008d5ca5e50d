#!/bin/bash
# Runs a Spark standalone cluster on hosts that share nothing but a network, an S3 store, and read-only Python and code.
#
#   three_hosts.sh start              the hosts store (S3), master, w1, w2
#   three_hosts.sh run HOST CMD...    run a command on a host; on `driver`, it finds the master in $MASTER
#   three_hosts.sh add NAME           one more worker, w3 to w9
#   three_hosts.sh kill NAME          a host is lost
#   three_hosts.sh serve NAME         a Spark Connect server with CORES of the workers' cores, connect or connect2
#   three_hosts.sh cpu NAME           print the CPU seconds of a host's processes
#   three_hosts.sh limit NAME US      let a host have so many microseconds of CPU time in 0.1 s, by a control group
#   three_hosts.sh stop               end all of them, and remove the namespaces
#
# A host is a network namespace with an address on a bridge (itself in a namespace: nothing is reachable from outside),
# and namespaces for mounts, host name and processes: its /, Python and code are read-only, its /tmp, /root, /var/tmp,
# /dev/shm are its own. Its processes end with the process whose pid is in $STATE/HOST/pids. For root only.
# Settings: STATE, CODE (with the folder pststream; hosts see it at AT), VENV, VERSITYGW, CORES and MEMORY of a worker.
set -euo pipefail
STATE=${STATE:-/var/tmp/three_hosts} CODE=${CODE:-$PWD} AT=${AT:-/opt/pststream} VENV=${VENV:-$PWD/.venv}
VERSITYGW=${VERSITYGW:-$(command -v versitygw || true)} CORES=${CORES:-1} MEMORY=${MEMORY:-1g}
SELF=$(realpath "$0") PRE=pst$(cksum <<<"$STATE" | cut -d " " -f 1) NET=10.77.0  # several STATEs may run side by side
declare -A ADDRESS=([store]=2 [master]=3 [driver]=4 [connect]=5 [connect2]=6 [w1]=11 [w2]=12 [w3]=13 [w4]=14 [w5]=15 [w6]=16 [w7]=17 [w8]=18 [w9]=19)

address() { echo "$NET.${ADDRESS[$1]:?no such host}"; }

network() {  # HOST: its namespace with a cable to the bridge
    ip netns list | grep -q "^$PRE-$1\b" && return
    ip netns add "$PRE-$1"
    ip -n "$PRE-$1" link add eth0 type veth peer name "to-$1" netns "$PRE-switch"
    ip -n "$PRE-switch" link set "to-$1" master bridge up
    ip -n "$PRE-$1" address add "$(address "$1")/24" dev eth0
    ip -n "$PRE-$1" link set eth0 up
    ip -n "$PRE-$1" link set lo up
}

enter() {  # HOST CMD...: in the namespaces of the host
    local host=$1
    mkdir -p "$STATE/$host/tmp" "$STATE/$host/root/.cache" "$STATE/$host/vartmp"
    network "$host"
    exec ip netns exec "$PRE-$host" unshare --mount --uts --ipc --pid --fork --kill-child --mount-proc \
        env -i PATH="$PATH" LANG=C.UTF-8 STATE="$STATE" CODE="$CODE" AT="$AT" VENV="$VENV" VERSITYGW="$VERSITYGW" \
        CORES="$CORES" MEMORY="$MEMORY" EXTRA="$(env | grep -E '^(PSTSTREAM_|SPARK_)' || true)" bash "$SELF" inside "$@"
}

read_only() {  # NAME PATH: what is mounted as /mnt/NAME, at its own path, although the folders above are the host's own
    mkdir -p "$2"
    mount --bind "/mnt/$1" "$2"
    mount -o remount,ro,bind "$2"
}

inside() {  # HOST CMD...: make the file system of the host, and run the command
    local host=$1 own=$STATE/$1 python; shift
    hostname "$host"
    python=$(dirname "$(dirname "$(readlink -f "$VENV/bin/python")")")
    mount -t tmpfs tmpfs /mnt
    mkdir /mnt/{code,venv,python,bin}
    mount --bind "$CODE" /mnt/code; mount --bind "$VENV" /mnt/venv; mount --bind "$python" /mnt/python
    [ ! -x "$VERSITYGW" ] || cp "$VERSITYGW" /mnt/bin/; cp "$SELF" /mnt/bin/
    mount --bind "$STATE/hosts" /etc/hosts
    mount --bind "$STATE/ca-bundle.crt" /etc/ssl/certs/ca-certificates.crt
    cp -r "$STATE/store.pem" "$STATE/store.key" "$STATE/spark-conf" /mnt/
    mount --bind "$own/tmp" /tmp; mount --bind "$own/root" /root
    mount -t tmpfs tmpfs /dev/shm
    mount --bind "$own/vartmp" /var/tmp  # hides $STATE
    read_only code "$AT"; read_only venv "$VENV"; read_only python "$python"
    mount -o remount,ro,bind /
    cd /tmp
    export HOME=/root HOST; HOST=$(address "$host")
    export PATH=$VENV/bin:$PATH PYTHONPATH=$AT PYSPARK_PYTHON=$VENV/bin/python PYTHONDONTWRITEBYTECODE=1
    export SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt AWS_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt
    export AWS_ENDPOINT_URL=https://$NET.2:7070 AWS_ACCESS_KEY_ID=three-hosts AWS_SECRET_ACCESS_KEY=three-hosts-secret
    export AWS_REGION=us-east-1 AWS_EC2_METADATA_DISABLED=true
    export MASTER=spark://$NET.3:7077 SPARK_LOCAL_IP=$HOST SPARK_CONF_DIR=/mnt/spark-conf SPARK_DAEMON_MEMORY=256m
    export JAVA_TOOL_OPTIONS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    while IFS= read -r line; do [ -z "$line" ] || export "${line?}"; done <<<"${EXTRA:-}"
    case $1 in
        store) exec /mnt/bin/versitygw --quiet --access "$AWS_ACCESS_KEY_ID" --secret "$AWS_SECRET_ACCESS_KEY" \
            --region us-east-1 --port "$HOST:7070" --cert /mnt/store.pem --key /mnt/store.key posix /root ;;
        master) exec spark-class org.apache.spark.deploy.master.Master --host "$HOST" --port 7077 --webui-port 8080 ;;
        connect) export PSTSTREAM_SPARK_MASTER=$MASTER
            exec python "$AT/infra/image/spark_connect.py" "spark.cores.max=$CORES" spark.executor.cores=1 \
            spark.ui.enabled=false spark.log.level=INFO "spark.connect.grpc.binding.address=$HOST" ;;
        worker) export SPARK_LOCAL_DIRS=/root/shuffle PSTSTREAM_CACHE_DIR=/root/.cache/pststream
            exec spark-class org.apache.spark.deploy.worker.Worker --host "$HOST" --webui-port 8081 --cores "$CORES" \
                --memory "$MEMORY" --work-dir /root/work "$MASTER" ;;
        *) exec "$@" ;;
    esac
}

service() {  # HOST ROLE PATTERN: start a service on a host and wait for its log
    mkdir -p "$STATE/$1"
    [ "$1" != store ] || mkdir -p "$STATE/store/root/city"  # a bucket is a folder of the posix backend
    setsid bash "$SELF" enter "$1" "$2" >"$STATE/$1/log" 2>&1 </dev/null &
    echo $! >>"$STATE/$1/pids"
    for _ in $(seq 1500); do
        grep -q "$3" "$STATE/$1/log" && { echo "$1: $2 at $(address "$1")"; return; }
        kill -0 $! 2>/dev/null || break
        sleep 0.2
    done
    tail -20 "$STATE/$1/log" >&2; return 1
}

prepare() {
    mkdir -p "$STATE/spark-conf"
    ip netns add "$PRE-switch"
    ip -n "$PRE-switch" link add bridge type bridge
    ip -n "$PRE-switch" link set bridge up
    { echo "127.0.0.1 localhost"; for h in "${!ADDRESS[@]}"; do echo "$(address "$h") $h"; done; } >"$STATE/hosts"
    # a CA and a certificate signed by it: delta-rs refuses a self-signed certificate (CaUsedAsEndEntity)
    openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj "/CN=three hosts CA" \
        -keyout "$STATE/ca.key" -out "$STATE/ca.pem" 2>/dev/null
    openssl req -newkey rsa:2048 -nodes -subj "/CN=store" -keyout "$STATE/store.key" -out "$STATE/store.csr" 2>/dev/null
    openssl x509 -req -in "$STATE/store.csr" -CA "$STATE/ca.pem" -CAkey "$STATE/ca.key" -CAcreateserial -days 30 \
        -extfile <(echo "subjectAltName=IP:$(address store)") -out "$STATE/store.pem" 2>/dev/null
    cat /etc/ssl/certs/ca-certificates.crt "$STATE/ca.pem" >"$STATE/ca-bundle.crt"
    cat >"$STATE/spark-conf/spark-defaults.conf" <<-CONF
	spark.executor.memory                             512m
	spark.scheduler.minRegisteredResourcesRatio       1
	spark.scheduler.maxRegisteredResourcesWaitingTime 60s
	CONF
}

groups() {  # HOST: the folders of its control groups, of version 1 or 2
    if [ -d /sys/fs/cgroup/cpu ]; then echo /sys/fs/cgroup/{cpu,cpuacct}/"$PRE-$1"
    else echo "/sys/fs/cgroup/$PRE-$1"; fi
}

limit() {  # HOST MICROSECONDS: fails if there are no such groups
    local group pid file set=1
    for group in $(groups "$1"); do
        mkdir -p "$group"
        file=$group/cpu.cfs_quota_us; [ ! -e "$file" ] || { echo "$2" >"$file"; set=0; }
        file=$group/cpu.max; [ ! -e "$file" ] || { echo "$2 100000" >"$file"; set=0; }
        for pid in $(ip netns pids "$PRE-$1"); do echo "$pid" >"$group/cgroup.procs"; done
    done
    return $set
}

cpu() {  # HOST: of its control group, else of the processes that it has now
    local group pid
    for group in $(groups "$1"); do
        awk '{ print $1 / 1e9; exit }' "$group/cpuacct.usage" 2>/dev/null && return
        awk '$1 == "usage_usec" { print $2 / 1e6; found = 1 } END { exit !found }' "$group/cpu.stat" 2>/dev/null && return
    done
    for pid in $(ip netns pids "$PRE-$1"); do sed "s/.*) //" "/proc/$pid/stat" 2>/dev/null || true; done |
        awk '{ ticks += $12 + $13 + $14 + $15 } END { print ticks / 100 }'
}

worker() {
    mkdir -p "$STATE/$1/root/.cache/pststream"  # the image has compiled kernels, but no segments
    [ ! -d "$STATE/numba" ] || cp -r "$STATE/numba" "$STATE/$1/root/.cache/pststream/"
    service "$1" worker "Successfully registered with master"
}

lose() {  # HOST: end its processes
    local file=$STATE/$1/pids pid
    [ -f "$file" ] || return 0
    while read -r pid; do
        # KILL, since unshare ignores TERM; --kill-child then ends the first process of the pid namespace, and so all
        grep -qzs -e unshare -e "$SELF" "/proc/$pid/cmdline" && kill -KILL "$pid" 2>/dev/null || true
    done <"$file"
    rm "$file"
}

stop() {
    local file
    for file in "$STATE"/*/pids; do lose "$(basename "$(dirname "$file")")"; done
    sleep 1
    for host in "${!ADDRESS[@]}"; do rmdir $(groups "$host") 2>/dev/null || true; done
    for ns in $(ip netns list | awk -v p="^$PRE-" '$1 ~ p {print $1}'); do ip netns del "$ns"; done
}

case ${1:-} in
    start) [ -x "$VERSITYGW" ] || { echo "no versitygw on PATH: make build/bin/versitygw" >&2; exit 1; }
        [ ! -f "$STATE/store/pids" ] || { echo "runs already, or was not stopped: $SELF stop" >&2; exit 1; }
        trap 'stop' ERR
        prepare
        # kernels compiled once, as an image has them
        if [ ! -d "$STATE/numba" ]; then
            bash "$SELF" run driver python -m pststream.cli.compile_kernels >/dev/null
            cp -r "$STATE/driver/root/.cache/pststream/numba" "$STATE/numba"
        fi
        mkdir -p "$STATE/driver/root/.cache/pststream"
        cp -rn "$STATE/numba" "$STATE/driver/root/.cache/pststream/"
        service store store "single account mode"
        service master master "I have been elected leader"
        worker w1; worker w2 ;;
    add) worker "$2" ;;
    kill) lose "$2" ;;
    serve) service "$2" connect "Spark Connect server started" ;;
    limit) limit "$2" "$3" ;;
    cpu) cpu "$2" ;;
    run) shift; enter "$@" ;;
    enter) shift; enter "$@" ;;
    inside) shift; inside "$@" ;;
    stop) stop ;;
    *) sed -n '2,/^set/p' "$SELF" | grep '^#'; exit 2 ;;
esac
