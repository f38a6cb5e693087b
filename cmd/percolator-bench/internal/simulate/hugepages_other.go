//go:build !linux

package simulate

func preferHugePages([]byte) {}
