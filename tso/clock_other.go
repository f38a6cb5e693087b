//go:build !linux

package tso

import "time"

// suspended returns 0: only Linux tells it here. Elsewhere leases end by the monotonic and the wall
// clock.
func suspended() time.Duration { return 0 }
