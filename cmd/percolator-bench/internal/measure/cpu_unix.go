//go:build unix

package measure

import (
	"syscall"
	"time"
)

// cpuTime is what this process has used of all processors, in user and system mode.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
