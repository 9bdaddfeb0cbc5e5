//go:build !linux

package sqlstore

// fileSystem does not know here.
func fileSystem(string) string { return "" }
