package tso

import (
	"syscall"
	"time"
	"unsafe"
)

// Clocks of clock_gettime(2).
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// suspended returns how long this machine has been suspended since it booted. It reads the
// monotonic clock first: whatever comes between the two readings, a reading of the monotonic clock
// before the call plus the result is a boot time within the call. That keeps to virtual time where
// tests have one, as a reading of the boot-time clock alone would not.
func suspended() time.Duration {
	mono := readClock(clockMonotonic)
	return readClock(clockBoottime) - mono
}

// readClock returns 0 on a system without the clock, as for another one that stands still.
func readClock(id uintptr) time.Duration {
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return 0
	}
	return time.Duration(ts.Nano())
}
