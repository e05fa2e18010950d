"""Real hosts, real Kubernetes and a stand-in for the internet, on one Debian 12 machine.

The rooms:
  cli         command line to calls, errors to exit codes; nothing else
  settings    where things lie, what a lab id decides (addresses, names)
  process     running commands, saying what happens, the one error type
  fleet       the whole lab: up, down, status
  hosts       one host that shares the kernel: create, boot, crash, reset, remove
  vm          the same for a virtual machine
  faults      slow, cut, fill, readonly and their cures; wire carries a slow link's frames
  network     bridge, air gap, links
  cgroups     a cgroup per host, by which its processes are found
  machine     what hosts change on the whole machine, and putting it back
  rootfs      root file systems and disk templates of the host kinds (cached)
  rpmroot     the RPM-managed root file system
  arm64       qemu-user, and what it cannot do
  modules     the kernel modules that hosts see
  debian      packages of Debian, for either arch, without touching the machine's apt
  kubernetes  building Kubernetes and its companions (cached); gomodules for what the Go proxy has
  upstream/   what the internet would offer: registry, repositories, files, and their failures
"""
