package main

import "syscall"

// preferHugePages asks for huge pages under some memory. Small ones do as well.
func preferHugePages(b []byte) { _ = syscall.Madvise(b, syscall.MADV_HUGEPAGE) }
