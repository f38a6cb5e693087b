package bench

import (
	"runtime"
	"time"
)

// Machine is what figures have to be read with.
type Machine struct {
	GoVersion string `json:"go"`
	CPUs      int    `json:"cpus"`
	Date      string `json:"date"`
}

// ThisMachine describes where this process runs, at the time now.
func ThisMachine(now time.Time) Machine {
	return Machine{GoVersion: runtime.Version(), CPUs: runtime.NumCPU(), Date: now.UTC().Format(time.DateOnly)}
}
