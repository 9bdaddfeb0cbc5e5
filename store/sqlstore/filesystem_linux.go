package sqlstore

import "syscall"

// networkFileSystems are the kinds of statfs(2) whose files are, or may be, on
// another machine.
var networkFileSystems = map[uint32]string{
	0x6969: "NFS", 0x517b: "SMB", 0xfe534d42: "SMB2", 0xff534d42: "CIFS", 0x01021997: "9P", 0x00c36400: "Ceph", 0x5346414f: "AFS", 0x65735546: "FUSE",
}

// fileSystem returns the kind of a directory's file system if that is one of a
// network, else "".
func fileSystem(dir string) string {
	var is syscall.Statfs_t
	if err := syscall.Statfs(dir, &is); err != nil {
		return ""
	}
	return networkFileSystems[uint32(is.Type)]
}
