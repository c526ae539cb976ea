#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A job in a real Grid Engine, on a host of its own (namespaces): it knows its end, leaves with 99 before its limit, is put
# back into the queue, twice at least, and ends complete. Usage: requeue.sh BIN_DIR. 77: not root, or no Grid Engine.
set -euo pipefail

bin=$1
export SGE_ROOT=/var/lib/gridengine SGE_CELL=default
if [ "$(id -u)" -ne 0 ] || [ ! -x /usr/sbin/sge_qmaster ] || [ ! -x /usr/sbin/sge_execd ] ||
  ! unshare --mount --uts --net --pid --fork true; then
  echo "skipped: needs root, namespaces, and what apps/install-packages.sh gridengine installs"
  exit 77
fi
if [ "${IN_NAMESPACES:-}" != 1 ]; then
  work=$(mktemp -d /tmp/reprieve-gridengine.XXXXXX)
  trap 'rm -rf "$work"' EXIT
  IN_NAMESPACES=1 WORK=$work timeout -k 5 550 unshare --mount --uts --net --pid --fork "$0" "$bin"
  exit
fi

# The host is named node1. What Grid Engine writes goes to copies.
private_copy() {
  mkdir -p "$WORK$1"
  cp -a "$1/." "$WORK$1"
  mount --bind "$WORK$1" "$1"
}
start_host() {
  mount --make-rprivate /
  mount -t proc proc /proc
  ip link set lo up
  ip link add eth0 type veth peer name eth1
  ip address add 10.9.9.1/24 dev eth0
  ip link set eth0 up
  ip link set eth1 up
  hostname node1
  printf '127.0.0.1 localhost\n10.9.9.1 node1\n' >"$WORK/hosts"
  mount --bind "$WORK/hosts" /etc/hosts
  private_copy /var/spool/gridengine
  private_copy /var/lib/gridengine
}

wait_for() {
  for _ in $(seq 100); do
    ! "$@" >/dev/null 2>&1 || return 0
    sleep 0.1
  done
  echo "'$*' fails still after 10 s"
  return 1
}

start_grid_engine() {
  echo node1 >$SGE_ROOT/default/common/act_qmaster
  /usr/sbin/sge_qmaster >"$WORK/qmaster.log" 2>&1
  wait_for qconf -sh
  qconf -ah node1 || true  # it may know it
  qconf -as node1
  /usr/sbin/sge_execd >"$WORK/execd.log" 2>&1
  wait_for qconf -se node1
  qconf -sq | sed 's/^qname .*/qname test.q/; s/^hostlist .*/hostlist node1/; s/^slots .*/slots 2/; s/^shell .*/shell \/bin\/bash/;
    s/^pe_list .*/pe_list NONE/; s/^load_thresholds .*/load_thresholds NONE/; s/^shell_start_mode .*/shell_start_mode unix_behavior/' >"$WORK/queue"
  qconf -Aq "$WORK/queue"
  qconf -ssconf | sed 's/^\(schedule_interval\).*/\1 0:0:1/; s/^\(flush_[a-z]*_sec\).*/\1 1/' >"$WORK/scheduler"
  qconf -Msconf "$WORK/scheduler"
}

start_host
start_grid_engine
job=$WORK/job
mkdir "$job"
cat >"$job/train.sh" <<END
#!/bin/bash
#\$ -r y -cwd
#\$ -l h_rt=0:0:20
#\$ -j y
#\$ -o $job/output
export REPRIEVE_TERMINATION_END_TIME_S=\$((\$(date +%s) + 20))
exec "$bin/reprieve" run -- mpirun --oversubscribe -n 2 "$bin/reprieve-trainer" --epochs 2 --steps-per-epoch 80 \
  --step-delay-ms 200 --checkpoint-dir $job/checkpoints --summary $job/summary.json
END
chmod 755 "$WORK" "$job/train.sh"
chown -R nobody "$job"
cd "$job"
setpriv --reuid nobody --regid nogroup --clear-groups qsub train.sh
for _ in $(seq 900); do  # a minute passes before a requeued job starts again
  [ -n "$(qstat -u '*')" ] || break
  sleep 0.5
done
cat output
for line in 'preemption: deadline' 'leaving with code 99' 'resumed from ckpt-' 'the program came to its end'; do
  grep -q "$line" output || { echo "FAILED: the output lacks '$line'"; exit 1; }
done
# A limit that warns once is not enough: Grid Engine 8.1.9 kills a requeued job at s_rt, without SIGUSR1.
[ "$(grep -c 'resumed from ckpt-' output)" -ge 2 ] || { echo "FAILED: the job was put back once only"; exit 1; }
