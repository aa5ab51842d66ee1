#!/bin/bash
# in_network_namespaces.sh NUM_HOSTS COMMAND ARGUMENT...
#
# Runs a command on a network of its own: `ip netns exec host1 PROGRAM` runs a program on the second of its hosts, which
# has the address 10.0.0.2. Each host's eth0 is a link to a bridge, br0; the bridge's end of it is link1.
# LOCKSTEP_TEST_HOSTS is the number of hosts.
#
# Nobody else sees the hosts, the processes, and what is written into /run and the folder for temporary files. All of it
# ends with the command, or when this script is killed. Skipped (77) where the machine does not allow that.
set -eu

skip() {
  echo "skipped: $1"
  exit 77
}

if [ -z "${LOCKSTEP_TEST_HOSTS:-}" ]; then
  command -v ip >/dev/null || skip "there is no program ip (Debian: iproute2)"
  own=(unshare --net --mount --pid --fork --kill-child --mount-proc)
  [ "$(id -u)" -eq 0 ] || own+=(--map-root-user)
  reason=$("${own[@]}" true 2>&1) || skip "this user may make no namespaces ($reason)"
  export LOCKSTEP_TEST_HOSTS=$1
  exec setpriv --pdeathsig KILL "${own[@]}" "$0" "$@"
fi

make_network() {
  local host
  mount -t tmpfs tmpfs /run
  mkdir /run/tmp
  ip link set lo up
  ip link add br0 type bridge
  ip link set br0 up
  for ((host = 0; host < LOCKSTEP_TEST_HOSTS; ++host)); do
    ip netns add host$host
    ip link add link$host type veth peer name eth0 netns host$host
    ip link set link$host master br0 up
    ip -n host$host addr add 10.0.0.$((host + 1))/24 dev eth0
    ip -n host$host link set eth0 up
    ip -n host$host link set lo up
  done
}
# In a shell of its own, which ends at the first command that fails.
reason=$(bash -euc "$(declare -f make_network); make_network" 2>&1) ||
  skip "this machine makes no network of namespaces ($reason)"
export TMPDIR=/run/tmp
shift
"$@"
