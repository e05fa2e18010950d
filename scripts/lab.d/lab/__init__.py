"""Real hosts, real Kubernetes and a stand-in for the internet, on one Debian 12 machine.

The rooms:
  cli         command line to calls, errors to exit codes; nothing else
  settings    where things lie, what a lab id decides (addresses, names)
  process     running commands, saying what happens, the one error type
  debian      packages of Debian, for either arch, without touching the machine's apt
  rootfs      root file systems and disk templates of the host kinds (cached)
  rpmroot     the RPM-managed root file system
  arm64       qemu-user, and what it cannot do
  network     bridge, air gap, links
  cgroups     a cgroup per host, where the machine keeps them
  hosts       one host: create, boot, crash, reset, remove
  vm          the same for a qemu-system host
  faults      slow, cut, fill, readonly and their cures
  fleet       the whole lab: up, down, status
  kubernetes  building Kubernetes and its companions (cached)
  upstream/   what the internet would offer: registry, repositories, files, and their failures
"""
